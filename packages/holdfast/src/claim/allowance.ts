/**
 * Which types a worker may ask for. A limit is only a smaller number: a claim that finds a job of a limited type is told
 * by the database whether it may start (schema/functions/limits/allow.sql.ts), and if not, when there may be a token or
 * that it waits for a permit. Until then the type is closed here: it is not asked for, so its jobs are not read.
 *
 * All workers that wait know the same time, and one is enough: a worker that comes and gets nothing comes later and
 * later, up to a bound, until it gets something again. A permit that another worker gives back is found by asking again at
 * every poll.
 */

import type { Refused } from './allowed.js';
import { type Clock, jittered, laterThan } from './pace.js';

export class Allowance {
  readonly #pollMs: number;
  readonly #clock: Clock;
  /** `forPermit`: it waits for a permit, and one may be given back here. */
  readonly #closed = new Map<string, { readonly until: number; readonly forPermit: boolean }>();
  readonly #lateMs = new Map<string, number>();
  /** A permit was given back since the claim in flight was sent, which may have counted before. */
  #freed = false;

  constructor(pollMs: number, clock: Clock) {
    this.#pollMs = pollMs;
    this.#clock = clock;
  }

  /** A claim is sent now. */
  sent(): void {
    this.#freed = false;
  }

  isOpen(type: string): boolean {
    return this.opensAtOf(type) <= this.#clock.now();
  }

  /** When this type may be asked for. */
  opensAtOf(type: string): number {
    return this.#closed.get(type)?.until ?? Number.NEGATIVE_INFINITY;
  }

  /** When a closed type may be asked for. */
  get opensAt(): number {
    return Math.min(...[...this.#closed.values()].map(({ until }) => until));
  }

  /** A claim got jobs of these types, and none more of those. Those that it asked for and that waited are open again. */
  record(taken: readonly { readonly type: string }[], refused: Refused): void {
    const now = this.#clock.now();
    for (const [type, { until }] of this.#closed) if (until <= now) this.#closed.delete(type);
    if (this.#lateMs.size > 0) for (const { type } of taken) this.#lateMs.delete(type);
    for (const [type, againMs] of Object.entries(refused)) {
      const got = taken.some((job) => job.type === type);
      const lateMs = got ? 0 : laterThan(this.#lateMs.get(type) ?? 0);
      this.#lateMs.set(type, lateMs);
      if (againMs === null && this.#freed) continue;
      const waitMs =
        againMs === null ? jittered(this.#pollMs, this.#clock) : Math.max(1, againMs) + lateMs;
      this.#closed.set(type, { until: now + waitMs, forPermit: againMs === null });
    }
  }

  /** A job that held a permit has left. True: types that wait for one may be asked for. */
  freed(): boolean {
    this.#freed = true;
    const opened = [...this.#closed].filter(([, { forPermit }]) => forPermit);
    for (const [type] of opened) this.#closed.delete(type);
    return opened.length > 0;
  }

  /** The limits have changed. */
  reset(): void {
    this.#closed.clear();
    this.#lateMs.clear();
  }
}
