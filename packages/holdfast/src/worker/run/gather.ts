/**
 * Jobs of one type that wait to be handled together: until one call is full, or the first of them has waited for its
 * time. What is cut off a run of a key must not begin before the part before it has succeeded.
 */
import type { Time, Timer } from '../time.js';
import type { Many, Route } from './handler-context.js';
import type { LeasedJob } from './leased-job.js';

export class Gather {
  readonly job: Route['job'];
  readonly many: Many;
  /** Since when it waits for a handler; null: it does not. */
  queuedAt: number | null = null;
  readonly #time: Time;
  readonly #ready: () => void;
  #waiting: { readonly run: LeasedJob[]; readonly since: number }[] = [];
  size = 0;
  #timer: Timer | null = null;

  /** `ready` is called when the time of the first job is over. */
  constructor(job: Route['job'], many: Many, time: Time, ready: (gather: Gather) => void) {
    this.job = job;
    this.many = many;
    this.#time = time;
    this.#ready = () => ready(this);
  }

  get isReady(): boolean {
    return this.size >= this.many.max || (this.size > 0 && this.#overMs() >= 0);
  }

  /** `next`: what was cut from a run comes before the others. */
  add(run: LeasedJob[], next = false): void {
    this.#waiting[next ? 'unshift' : 'push']({ run, since: this.#time.now() });
    this.size += run.length;
    this.#plan();
  }

  /** `rest`: what follows on the last of these runs; empty unless it was cut. */
  take(): { runs: LeasedJob[][]; rest: LeasedJob[] } {
    const { max } = this.many;
    const runs: LeasedJob[][] = [];
    let rest: LeasedJob[] = [];
    let room = max;
    while (room > 0 && this.#waiting.length > 0) {
      const { run } = this.#waiting.shift() as { run: LeasedJob[] };
      rest = run.splice(room);
      runs.push(run);
      room -= run.length;
      this.size -= run.length + rest.length;
    }
    this.#plan();
    return { runs, rest };
  }

  clear(): LeasedJob[] {
    const jobs = this.#waiting.flatMap(({ run }) => run);
    this.#waiting = [];
    this.size = 0;
    this.#plan();
    return jobs;
  }

  /** A run ends before its first lost job. Returns what is cut off. */
  dropLost(): LeasedJob[] {
    const dropped = this.#waiting.flatMap(({ run }) => cutLost(run));
    this.#waiting = this.#waiting.filter(({ run }) => run.length > 0);
    this.size -= dropped.length;
    this.#plan();
    return dropped;
  }

  /** Below zero: it may wait for so much longer. */
  #overMs(): number {
    return this.#time.now() - (this.#waiting[0]?.since ?? 0) - this.many.withinMs;
  }

  #plan(): void {
    if (this.size === 0) {
      this.#timer?.cancel();
      this.#timer = null;
    } else if (!this.isReady) {
      this.#timer ??= this.#time.after(-this.#overMs(), () => {
        this.#timer = null;
        // A timer may fire a little early. The plan comes first: the clock goes on between the two.
        this.#plan();
        if (this.isReady) this.#ready();
      });
    }
  }
}

/** Removes the first lost job of a run, and what stands behind it, and returns them. */
export function cutLost(run: LeasedJob[]): LeasedJob[] {
  const lost = run.findIndex((job) => job.lost);
  return lost < 0 ? [] : run.splice(lost);
}
