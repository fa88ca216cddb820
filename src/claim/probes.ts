/**
 * Probes: where a worker reads next. A cursor for every bucket and priority that it owns, and the order
 * in which they are tried. Pure: the time comes as an argument.
 *
 * A bucket that still had jobs when it was last read is *active*: it is read at every claim, on from its
 * cursor, so that what was finished before is not walked over again. The other buckets are looked at
 * once per sweep: neighbours together in one run from their start, as one index descent sees them all
 * while the queue is sparse; but one by one, on from their cursors, where many jobs have passed. While
 * any bucket is active a sweep comes once per `BUSY_MS`; without one it comes soon after one that found
 * something, and backs off to `pollMs` while there is nothing. Buckets take turns, and all of priority 1
 * come before any of priority 2. A bucket that is filled by the long line of one key would give a whole
 * claim of it whenever its turn comes; while others have jobs, it gives a part of one.
 *
 * A cursor is a hint and never a fact: released, recovered and late rows lie behind it, so it is rewound
 * once per second. That costs nothing while finished rows are cleaned up. While a long transaction keeps
 * them from being cleaned, reading from the start walks over all of them; so they are made rarer by what
 * they cost, see rewinds.ts.
 */
import { BUCKETS } from '../job/key.js';
import type { Probe } from './claim.js';
import { Rewinds } from './rewinds.js';
import type { ClaimedJob } from './taking.js';

export const PRIORITIES = 4;
/**
 * After a claim that found something the next look comes the sooner the less it found, at once after a
 * single job and otherwise within this: where much comes in, more is gathered for one claim.
 */
const SOON_MS = 4;
const SOON_MS_PER_JOB = 1;
/** How often a worker that has plenty to do looks at its other buckets. */
const BUSY_MS = 500;
/** A sweep of many separate runs costs more, and comes less soon. */
const SOON_MS_PER_RUN = 0.03;
/** A bucket that so many jobs have passed is no longer read from its start together with others. */
const FEW = 16;
/** At most so many other buckets one by one; the rest of a sweep comes with the next claims. */
const MAX_LOOKS = 128;
/** At most so many rewinds in a claim that nobody asked for, to keep it short. */
const MAX_REWINDS = 32;
/** Others may have taken what was chosen of a line; so often in a row it is at its end. */
const MAX_IN_VAIN = 3;
/** At most so many active buckets in one claim; the others take their turn in the next. */
const MAX_ACTIVE = 32;

interface BucketState {
  readonly bucket: number;
  readonly priority: number;
  at: string;
  position: number;
  active: boolean;
  readAt: number;
  rewoundAt: number;
  /** Jobs that were claimed here since it was last found that nothing of them is left. */
  passed: number;
  /** There was a hint, or a reason to look from the start, since it was last taken. */
  told: boolean;
  /** How often in a row its line gave nothing although it should have more. */
  inVain: number;
}

/** Neighbours in a row of states, from `first` on. */
interface Taken {
  readonly row: readonly BucketState[];
  readonly first: number;
  readonly count: number;
  readonly rewound: boolean;
  /** Of its long line only a part is read. */
  readonly inLine: boolean;
}

/** What a claim found, and the time up to which it has read the buckets that it read to their end. */
export interface Answer {
  readonly jobs: readonly ClaimedJob[];
  readonly seenUntil: string;
  /** Others may have taken some of what it had chosen. */
  readonly unsure?: boolean;
}

export interface ProbeOptions {
  /** The buckets that this worker reads, ascending. Default: all. */
  readonly buckets?: readonly number[];
  /** How often an idle worker looks. */
  readonly pollMs: number;
  /** Whether a bucket is known to be filled by a few keys. */
  readonly hasLine?: (bucket: number, priority: number) => boolean;
}

const START = '-infinity';
const EVERY_BUCKET = Array.from({ length: BUCKETS }, (_, bucket) => bucket);

export class Probes {
  readonly #pollMs: number;
  readonly #hasLine: (bucket: number, priority: number) => boolean;
  /** By priority, in the order of the buckets. */
  readonly #states: BucketState[][] = [];
  /** Where a bucket stands in its row, or -1. */
  readonly #index = new Int16Array(BUCKETS).fill(-1);
  #turn: number;
  #sweepMs = SOON_MS;
  readonly #rewinds = new Rewinds();
  #taken: Taken[] = [];
  /** Looks were due at the last claim and left to the next. */
  #putOff = false;
  /** New jobs will be hinted at, so that there is no need to look often. */
  asleep = false;

  constructor({ buckets = EVERY_BUCKET, pollMs, hasLine = () => false }: ProbeOptions) {
    this.#pollMs = pollMs;
    this.#hasLine = hasLine;
    for (let priority = 1; priority <= PRIORITIES; priority++) {
      this.#states.push(buckets.map((bucket) => newState(bucket, priority)));
    }
    this.#number(buckets);
    // Workers that start together should not all begin at the same bucket.
    this.#turn = Math.floor(Math.random() * buckets.length);
  }

  /** The buckets have other owners now: what stays keeps its cursors, what is new is read at once. */
  own(buckets: readonly number[]): void {
    for (const [index, row] of this.#states.entries()) {
      const known = new Map(row.map((state) => [state.bucket, state]));
      this.#states[index] = buckets.map(
        (bucket) => known.get(bucket) ?? newState(bucket, index + 1),
      );
    }
    this.#number(buckets);
    this.#turn = buckets.length > 0 ? this.#turn % buckets.length : 0;
  }

  #number(buckets: readonly number[]): void {
    this.#index.fill(-1);
    for (const [index, bucket] of buckets.entries()) this.#index[bucket] = index;
  }

  /** Somebody says that there are new jobs in these buckets: read them, from their start, at once. */
  hint(buckets: readonly number[]): void {
    for (let priority = 1; priority <= PRIORITIES; priority++) {
      for (const bucket of buckets) {
        const state = this.#stateOf(bucket, priority);
        if (!state) continue;
        state.active = true;
        state.told = true;
        state.rewoundAt = Number.NEGATIVE_INFINITY;
      }
    }
  }

  /** The probes of the next claim. Empty when there is nothing to read before the next sweep. */
  take(now: number): Probe[] {
    this.#taken = [];
    const { busy, hinted, oldest } = this.#survey();
    const sweepMs = busy ? Math.min(this.#pollMs, BUSY_MS) : this.#sweepMs;
    // Once one bucket is due, those that would be soon are looked at with it: one claim, and not many.
    const anyDue = now - oldest >= sweepMs;
    // What somebody has just told of comes first, and alone; the looks come with the claim after it.
    this.#putOff = anyDue && !this.#putOff && hinted;
    const dueMs = anyDue && !this.#putOff ? sweepMs / 2 : Number.POSITIVE_INFINITY;
    let [active, looks, rewinds, cut] = [0, 0, 0, false];
    for (const row of this.#states) {
      let [first, count] = [0, 0];
      for (let step = 0; step < row.length; step++) {
        const index = (this.#turn + step) % row.length;
        const state = row[index] as BucketState;
        const due = now - state.readAt >= dueMs;
        if (due && !state.active && state.passed <= FEW) {
          if (count > 0 && (row[first] as BucketState).bucket + count !== state.bucket) {
            this.#take(row, first, count, true);
            count = 0;
          }
          if (count === 0) first = index;
          count++;
          state.told = false;
          continue;
        }
        this.#take(row, first, count, true);
        count = 0;
        if (state.active ? active >= MAX_ACTIVE : !due || looks >= MAX_LOOKS) continue;
        if (state.active) active++;
        else looks++;
        const rewound = now - state.rewoundAt >= this.#rewinds.everyMs;
        const fromStart = state.told || (rewound && rewinds++ < MAX_REWINDS);
        const inLine = state.active && this.#keepsOthers(row, state);
        this.#take(row, index, 1, fromStart, inLine);
        cut ||= inLine;
        state.told = false;
      }
      this.#take(row, first, count, true);
      // Plenty to do at this priority: the lower ones wait, also when only a part of a line was read.
      if (active >= MAX_ACTIVE || cut) break;
    }
    return this.#probes();
  }

  /** A long line, while other buckets of this priority have jobs. */
  #keepsOthers(row: readonly BucketState[], { bucket, priority }: BucketState): boolean {
    if (!this.#hasLine(bucket, priority)) return false;
    return row.some((other) => other.active && !this.#hasLine(other.bucket, priority));
  }

  #probes(): Probe[] {
    return this.#taken.map(({ row, first, count, rewound, inLine }) => {
      const { priority, bucket, at, position } = row[first] as BucketState;
      return {
        priority,
        from: bucket,
        to: bucket + count - 1,
        afterAt: rewound ? START : at,
        afterPosition: rewound ? 0 : position,
        inLine,
      };
    });
  }

  /** Is there anything to go on with, was there a hint, and when was the bucket read that waits longest? */
  #survey(): { busy: boolean; hinted: boolean; oldest: number } {
    let [busy, hinted, oldest] = [false, false, Number.POSITIVE_INFINITY];
    for (const row of this.#states) {
      for (const { active, told, readAt } of row) {
        busy ||= active;
        hinted ||= active && told;
        if (readAt < oldest) oldest = readAt;
      }
    }
    return { busy, hinted, oldest };
  }

  #take(
    row: readonly BucketState[],
    first: number,
    count: number,
    rewound: boolean,
    inLine = false,
  ): void {
    if (count > 0) this.#taken.push({ row, first, count, rewound, inLine });
  }

  /** What the claim of the last `take` returned, and how long it took; null if that says nothing. */
  learn(
    { jobs, seenUntil, unsure = false }: Answer,
    limit: number,
    now: number,
    tookMs: number | null,
  ): void {
    const last = new Map<number, ClaimedJob>();
    for (const job of jobs) {
      const place = job.partitionBucket * PRIORITIES + job.priority;
      last.set(place, job);
      const state = this.#stateOf(job.partitionBucket, job.priority);
      if (state) state.passed++;
    }
    // A claim that came back full stopped inside the last bucket that gave a job: that one has more,
    // and what follows it was not read. All buckets before were read to their end, but for long lines.
    let unread = jobs.length >= limit ? last.size : Number.POSITIVE_INFINITY;
    const rewinds: BucketState[] = [];
    for (const { row, first, count, rewound, inLine } of this.#taken) {
      for (let index = first; index < first + count && unread > 0; index++) {
        const state = row[index] as BucketState;
        const job = last.get(state.bucket * PRIORITIES + state.priority);
        if (job) unread--;
        if (rewound && count === 1) rewinds.push(state);
        // What was said while the claim was under way may be news that it did not see.
        if (!state.told) {
          state.readAt = now;
          state.active = false;
          if (rewound) state.rewoundAt = now;
        }
        // A cursor never passes what may not have been committed yet. Postgres' timestamps sort as text.
        const hasMore = unread === 0 || (inLine && job !== undefined);
        const inside = hasMore && job && job.cursorAt <= seenUntil;
        state.inVain = job ? 0 : state.inVain + 1;
        const keeps = inLine && !job && unsure && state.inVain <= MAX_IN_VAIN;
        if (!keeps) {
          state.at = inside ? job.cursorAt : seenUntil;
          state.position = inside ? job.cursorPosition : 0;
        }
        if (hasMore || keeps) state.active = true;
        if (unread === 0) this.#turn = this.#next(state);
      }
    }
    this.#pace(jobs.length);
    if (tookMs !== null) this.#weigh(rewinds, jobs.length, tookMs);
  }

  /** Look everywhere, from the start, at the next claim: after a change of owners, or on a hint. */
  rewind(): void {
    for (const state of this.#states.flat()) {
      state.told = true;
      state.rewoundAt = Number.NEGATIVE_INFINITY;
      state.readAt = Number.NEGATIVE_INFINITY;
    }
  }

  /** Had this bucket jobs left when it was last read? */
  hasMore(bucket: number, priority: number): boolean {
    return this.#stateOf(bucket, priority)?.active === true;
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
    // The bucket may have gone to another owner while the claim was under way.
    const index = this.#index[state.bucket] as number;
    return row.length > 0 ? (index + 1) % row.length : 0;
  }

  #stateOf(bucket: number, priority: number): BucketState | undefined {
    const index = this.#index[bucket] as number;
    return this.#states[priority - 1]?.[index];
  }

  #pace(jobs: number): void {
    const soonMs = Math.max(
      Math.min(SOON_MS, (jobs - 1) * SOON_MS_PER_JOB),
      this.#taken.length * SOON_MS_PER_RUN,
    );
    // Asleep it goes on backing off: what an open transaction had inserted before nobody will tell of.
    const waitMs = jobs > 0 && !this.asleep ? soonMs : Math.max(1, this.#sweepMs * 2);
    this.#sweepMs = Math.min(waitMs, this.#pollMs);
  }

  /** How dear are rewinds? Claims without any say what the rest of a claim costs. */
  #weigh(rewinds: readonly BucketState[], jobs: number, tookMs: number): void {
    if (rewinds.length === 0) {
      // A run is read from its start, and may have walked over something, too.
      const run = this.#taken.some(({ count }) => count > 1);
      this.#rewinds.sawNone(run ? 0 : jobs, tookMs);
      return;
    }
    // Nothing was in the way: these may be read together with their neighbours again.
    if (this.#rewinds.saw(rewinds.length, jobs, tookMs)) {
      for (const state of rewinds) state.passed = 0;
    }
    this.#rewinds.pace(this.#states.flat().filter((state) => state.passed > FEW).length);
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
    passed: 0,
    told: false,
    inVain: 0,
  };
}
