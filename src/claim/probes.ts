/**
 * Probes: where a worker reads next. A cursor for every bucket and priority that it owns, and the order
 * in which they are tried. Pure: the time comes as an argument.
 *
 * A bucket that still had jobs when it was last read is *active*: it is read at every claim, on from its
 * cursor, so that what was finished before is not walked over again. The other buckets are looked at
 * once per sweep, neighbours together in one run from their start: while the queue is sparse, one index
 * descent sees them all. While any bucket is active a sweep comes once per `pollMs`; without one it comes
 * soon after one that found something, and backs off to `pollMs` while there is nothing. Buckets take
 * turns, and all of priority 1 come before any of priority 2.
 *
 * A cursor is a hint and never a fact: released, recovered and late rows lie behind it, so it is rewound
 * once per `rewindMs`. Reading from the start is cheap, unless a long transaction keeps finished rows
 * from being cleaned; claims that turn out slow make runs shorter and rewinds rarer, up to `RELAXED_MS`.
 */
import { BUCKETS } from '../job/key.js';
import type { ClaimedJob, Probe } from './claim.js';

export const PRIORITIES = 4;
const SOON_MS = 10;
/** A sweep of many separate runs costs more, and comes less soon. */
const SOON_MS_PER_RUN = 0.1;
const REWIND_MS = 1_000;
const RELAXED_MS = 30_000;
/** At most so many active buckets in one claim; the others take their turn in the next. */
const MAX_ACTIVE = 32;
/** By how much a claim may exceed the quickest of late before it counts as slow, and for each job more. */
const SLOW_MS = 25;
const SLOW_MS_PER_JOB = 0.2;

interface BucketState {
  readonly bucket: number;
  readonly priority: number;
  at: string;
  position: number;
  active: boolean;
  readAt: number;
  rewoundAt: number;
}

interface Taken {
  readonly states: BucketState[];
  readonly rewound: boolean;
}

export interface ProbeOptions {
  /** The buckets that this worker reads, ascending. Default: all. */
  readonly buckets?: readonly number[];
  /** How often an idle worker looks. */
  readonly pollMs: number;
}

const START = '-infinity';
const EVERY_BUCKET = Array.from({ length: BUCKETS }, (_, bucket) => bucket);

export class Probes {
  readonly #pollMs: number;
  readonly #states: BucketState[][] = [];
  #turn: number;
  #sweepMs = SOON_MS;
  #rewindMs = REWIND_MS;
  #runLength = BUCKETS;
  #taken: Taken[] = [];
  /** The quickest claim of late: the way to the server and back, which says nothing of the index. */
  #floorMs = Number.POSITIVE_INFINITY;

  constructor({ buckets = EVERY_BUCKET, pollMs }: ProbeOptions) {
    this.#pollMs = pollMs;
    for (let priority = 1; priority <= PRIORITIES; priority++) {
      this.#states.push(buckets.map((bucket) => newState(bucket, priority)));
    }
    // Workers that start together should not all begin at the same bucket.
    this.#turn = Math.floor(Math.random() * buckets.length);
  }

  /** The probes of the next claim. Empty when there is nothing to read before the next sweep. */
  take(now: number): Probe[] {
    this.#taken = [];
    const busy = this.#states.some((row) => row.some((state) => state.active));
    const sweepMs = busy ? this.#pollMs : this.#sweepMs;
    let active = 0;
    for (const row of this.#states) {
      let run: BucketState[] = [];
      for (let step = 0; step < row.length; step++) {
        const state = row[(this.#turn + step) % row.length] as BucketState;
        const due = now - state.readAt >= sweepMs;
        const joins = due && !state.active && run.length < this.#runLength;
        if (joins && (run.length === 0 || run.at(-1)?.bucket === state.bucket - 1)) {
          run.push(state);
          continue;
        }
        this.#take(run, now);
        run = due && !state.active ? [state] : [];
        if (state.active && active < MAX_ACTIVE) {
          active++;
          this.#take([state], now);
        }
      }
      this.#take(run, now);
      // Plenty to do at this priority: the lower ones wait.
      if (active >= MAX_ACTIVE) break;
    }
    return this.#taken.map(({ states, rewound }) => {
      const first = states[0] as BucketState;
      return {
        priority: first.priority,
        from: first.bucket,
        to: (states.at(-1) as BucketState).bucket,
        afterAt: rewound ? START : first.at,
        afterPosition: rewound ? 0 : first.position,
      };
    });
  }

  #take(states: BucketState[], now: number): void {
    const [first] = states;
    if (!first) return;
    const rewound = states.length > 1 || now - first.rewoundAt >= this.#rewindMs;
    this.#taken.push({ states, rewound });
  }

  /** What the claim of the last `take` returned, and how long it took. */
  learn(jobs: readonly ClaimedJob[], limit: number, now: number, tookMs: number): void {
    const last = new Map<number, ClaimedJob>();
    for (const job of jobs) last.set(job.partitionBucket * PRIORITIES + job.priority, job);
    // A claim that came back full stopped inside the last bucket that gave a job: that one has more,
    // and what follows it was not read. All buckets before were read to their end.
    const full = jobs.length >= limit;
    let unread = full ? last.size : Number.POSITIVE_INFINITY;
    for (const { states, rewound } of this.#taken) {
      for (const state of states) {
        if (unread === 0) break;
        const job = last.get(state.bucket * PRIORITIES + state.priority);
        state.readAt = now;
        state.active = false;
        if (rewound) state.rewoundAt = now;
        if (!job) continue;
        state.at = job.cursorAt;
        state.position = job.cursorPosition;
        unread--;
        if (unread === 0) {
          state.active = true;
          this.#turn = this.#next(state);
        }
      }
    }
    this.#pace(jobs.length, tookMs);
  }

  /** Look everywhere, from the start, at the next claim: after a change of owners, or on a hint. */
  rewind(): void {
    for (const state of this.#states.flat()) {
      state.rewoundAt = Number.NEGATIVE_INFINITY;
      state.readAt = Number.NEGATIVE_INFINITY;
    }
  }

  /** How many milliseconds until `take` has something to read, or 0. */
  idleMs(now: number): number {
    let soonest = Number.POSITIVE_INFINITY;
    for (const row of this.#states) {
      for (const state of row) {
        if (state.active) return 0;
        soonest = Math.min(soonest, state.readAt + this.#sweepMs);
      }
    }
    return Math.max(0, soonest - now);
  }

  #next(state: BucketState): number {
    const row = this.#states[state.priority - 1] as BucketState[];
    return (row.indexOf(state) + 1) % row.length;
  }

  #pace(jobs: number, tookMs: number): void {
    const soonMs = Math.max(SOON_MS, this.#taken.length * SOON_MS_PER_RUN);
    this.#sweepMs = Math.min(jobs > 0 ? soonMs : this.#sweepMs * 2, this.#pollMs);
    this.#floorMs = Math.min(tookMs, this.#floorMs * 1.01 + 0.1);
    if (!this.#taken.some(({ rewound }) => rewound)) return;
    if (tookMs - this.#floorMs > SLOW_MS + jobs * SLOW_MS_PER_JOB) {
      this.#runLength = Math.max(1, Math.floor(this.#runLength / 2));
      this.#rewindMs = Math.min(this.#rewindMs * 2, RELAXED_MS);
    } else {
      this.#runLength = Math.min(this.#runLength * 2, BUCKETS);
      this.#rewindMs = Math.max(this.#rewindMs / 2, REWIND_MS);
    }
  }
}

function newState(bucket: number, priority: number): BucketState {
  const never = Number.NEGATIVE_INFINITY;
  return {
    bucket,
    priority,
    at: START,
    position: 0,
    active: false,
    readAt: never,
    rewoundAt: never,
  };
}
