/**
 * What goes wrong in a worker that looks healthy from outside: handlers that run on without their jobs, and jobs that
 * have ended and cannot be settled. The registry gets it with the next heartbeat, so that `doctor` and `explain` know.
 */
import { describeError } from '../job/failure.js';
import type { Logger } from '../postgres/log.js';
import type { WorkerEvent } from './events.js';
import type { TroubleReport } from './lease/protocol.js';
import type { LeakedCounts } from './run/leaks.js';

/** It goes with every heartbeat. */
const WHY_CHARS = 200;

export class Trouble {
  readonly #log: Logger;
  readonly #emit: (event: WorkerEvent) => void;
  #report: TroubleReport | null = null;
  #leaked: LeakedCounts = {};
  /** By queue, since when settles are kept, and how many. */
  readonly #kept = new Map<string, { readonly since: number; jobs: number; why: string }>();

  constructor(log: Logger, emit: (event: WorkerEvent) => void) {
    this.#log = log;
    this.#emit = emit;
  }

  /** The same object as long as nothing changes; null: there is no trouble. */
  get report(): TroubleReport | null {
    return this.#report;
  }

  leaked(counts: LeakedCounts): void {
    this.#leaked = counts;
    this.#update();
  }

  /** So many jobs of the queue have ended and are not settled. */
  kept(queue: string, jobs: number, change: number, error: unknown): void {
    this.#emit({ kind: 'settles-kept', queue, jobs, change, error });
    const before = this.#kept.get(queue);
    if (jobs === 0) this.#end(queue);
    else if (before) before.jobs = jobs;
    else this.#begin(queue, jobs, error);
    this.#update();
  }

  #begin(queue: string, jobs: number, error: unknown): void {
    const { message, code } = describeError(error);
    const why = (code === null ? message : `${code} ${message}`).slice(0, WHY_CHARS);
    this.#kept.set(queue, { since: performance.now(), jobs, why });
    this.#log.error(
      { queue, jobs, err: message, code },
      'the database refuses to write how jobs ended; they did not fail, and their outcomes are kept and tried again',
    );
  }

  #end(queue: string): void {
    const before = this.#kept.get(queue);
    this.#kept.delete(queue);
    if (!before) return;
    const forMs = Math.round(performance.now() - before.since);
    this.#log.info({ queue, forMs }, 'the database takes the outcomes of jobs again');
  }

  #update(): void {
    const kept: Record<string, { jobs: number; why: string }> = {};
    for (const [queue, { jobs, why }] of this.#kept) kept[queue] = { jobs, why };
    const none = this.#kept.size === 0 && Object.keys(this.#leaked).length === 0;
    this.#report = none ? null : { leaked: this.#leaked, kept };
  }
}
