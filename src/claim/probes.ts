/**
 * Probes: where a worker reads next. A cursor for every lane and priority, and the order in which they
 * are tried.
 *
 * A claim that reads every lane from its start walks over what was finished before; a cursor reads on
 * from where the last claim ended. A cursor is a hint and never a fact: released, recovered and late
 * rows lie behind it, so every cursor is rewound at least once per `rewindMs`. Rewinding is cheap unless
 * a long transaction keeps dead rows from being cleaned; then the interval stretches, up to `RELAXED_MS`.
 * Lanes that gave jobs last time are read at every claim, the others once per `sweepMs`, so an idle
 * worker does not pay for all of them at every poll, and a busy one still finds new lanes in time.
 * Probes are tried by priority first; within one, lanes take turns. Pure: the time comes as an argument.
 */
import { LANES } from '../job/key.js';
import type { ClaimedJob, Probe } from './claim.js';

export const PRIORITIES = 4;
const RELAXED_MS = 30_000;
/** A claim with rewound probes that takes longer than this makes rewinds rarer. */
const SLOW_MS = 25;

interface LaneState {
  readonly lane: number;
  readonly priority: number;
  at: string;
  position: number;
  active: boolean;
  probedAt: number;
  rewoundAt: number;
}

export interface ProbeOptions {
  readonly lanes?: readonly number[];
  readonly sweepMs: number;
  readonly rewindMs: number;
  /** At most this many lanes that gave jobs lately in one claim; the rest take their turn in the next. */
  readonly maxActive: number;
}

const START = '-infinity';

export class Probes {
  readonly #options: ProbeOptions;
  readonly #lanes: number[];
  readonly #states: LaneState[][] = [];
  #turn = 0;
  #rewindMs: number;
  #taken: { state: LaneState; rewound: boolean }[] = [];

  constructor(options: ProbeOptions) {
    this.#options = options;
    this.#rewindMs = options.rewindMs;
    this.#lanes = [...(options.lanes ?? Array.from({ length: LANES }, (_, lane) => lane))];
    for (let priority = 1; priority <= PRIORITIES; priority++) {
      this.#states.push(
        this.#lanes.map((lane) => ({
          lane,
          priority,
          at: START,
          position: 0,
          active: false,
          probedAt: Number.NEGATIVE_INFINITY,
          rewoundAt: Number.NEGATIVE_INFINITY,
        })),
      );
    }
    // Workers that start together should not all begin at lane 0.
    this.#turn = Math.floor(Math.random() * this.#lanes.length);
  }

  /** The probes of the next claim. Empty when nothing is worth reading before the next sweep. */
  take(now: number): Probe[] {
    this.#taken = [];
    let active = 0;
    for (const row of this.#states) {
      for (let step = 0; step < row.length; step++) {
        const state = row[(this.#turn + step) % row.length] as LaneState;
        const due = now - state.probedAt >= this.#options.sweepMs;
        if (!due && (!state.active || active >= this.#options.maxActive)) continue;
        if (state.active) active++;
        this.#taken.push({ state, rewound: now - state.rewoundAt >= this.#rewindMs });
      }
    }
    return this.#taken.map(({ state, rewound }) => ({
      lane: state.lane,
      priority: state.priority,
      afterAt: rewound ? START : state.at,
      afterPosition: rewound ? 0 : state.position,
    }));
  }

  /** What the claim of the last `take` returned, and how long it took. */
  learn(jobs: readonly ClaimedJob[], limit: number, now: number, tookMs: number): void {
    const last = new Map<string, ClaimedJob>();
    for (const job of jobs) last.set(`${job.lane}/${job.priority}`, job);
    // A claim that came back full stopped at the last lane that gave a job: what follows was not read.
    let unread = jobs.length >= limit ? last.size : Number.POSITIVE_INFINITY;
    let turned = false;
    for (const { state, rewound } of this.#taken) {
      if (unread === 0) break;
      const job = last.get(`${state.lane}/${state.priority}`);
      state.probedAt = now;
      state.active = job !== undefined;
      if (rewound) state.rewoundAt = now;
      if (job) {
        unread--;
        state.at = job.cursorAt;
        state.position = job.cursorPosition;
        this.#turn = (this.#lanes.indexOf(state.lane) + 1) % this.#lanes.length;
        turned = true;
      }
    }
    if (!turned && this.#taken.length > 0) {
      const end = this.#taken.at(-1)?.state.lane ?? 0;
      this.#turn = (this.#lanes.indexOf(end) + 1) % this.#lanes.length;
    }
    this.#relax(tookMs);
  }

  /** Read every lane from its start at the next claim: after a change of owners, or on a hint. */
  rewind(): void {
    for (const state of this.#states.flat()) {
      state.rewoundAt = Number.NEGATIVE_INFINITY;
      state.probedAt = Number.NEGATIVE_INFINITY;
    }
  }

  /** How many milliseconds until `take` has something to read, or 0. */
  idleMs(now: number): number {
    let soonest = Number.POSITIVE_INFINITY;
    for (const state of this.#states.flat()) {
      if (state.active) return 0;
      soonest = Math.min(soonest, state.probedAt + this.#options.sweepMs);
    }
    return Math.max(0, soonest - now);
  }

  #relax(tookMs: number): void {
    if (!this.#taken.some(({ rewound }) => rewound)) return;
    const base = this.#options.rewindMs;
    const next = tookMs > SLOW_MS ? this.#rewindMs * 2 : this.#rewindMs / 2;
    this.#rewindMs = Math.min(Math.max(base, next), Math.max(base, RELAXED_MS));
  }
}
