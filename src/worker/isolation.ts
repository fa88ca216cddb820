/**
 * Isolation: a job whose owner vanished is run alone in its process, until it has proved harmless.
 *
 * Nobody can know which of the jobs that ran in a killed process killed it. So all of them come back
 * without an attempt spent, as suspects, and a worker runs suspects one at a time with nothing beside
 * them: new jobs are held back, jobs that wait are handed back, running ones are waited for. If the
 * process dies again the row says who was alone, and only that job spends an attempt. A worker whose
 * other handlers run for long waits for them, longer with every crash; when even that is over the suspect
 * runs beside them without the mark, and a crash costs nobody an attempt.
 */
import type { HeldJob } from './held.js';

const PATIENCE_MS = 10_000;

export interface Suspect {
  readonly held: HeldJob;
  /** Marks the row. False: the lease is lost. */
  readonly mark: () => Promise<boolean>;
  /** Runs and settles the job. */
  readonly run: () => Promise<void>;
}

export class Isolation {
  readonly #handBack: () => void;
  #suspects: Suspect[] = [];
  #running = 0;
  #alone = false;
  #busy = false;
  #quiet: (() => void) | null = null;
  #resume: () => void = () => {};

  /** `handBack` releases every job that waits for a handler; `resume` starts work again. */
  constructor(hooks: { handBack: () => void; resume: () => void }) {
    this.#handBack = hooks.handBack;
    this.#resume = hooks.resume;
  }

  /** True while nothing may be started or claimed. */
  get holds(): boolean {
    return this.#busy;
  }

  entered(): void {
    this.#running++;
  }

  left(): void {
    this.#running--;
    if (this.#running === 0) this.#quiet?.();
  }

  add(suspects: readonly Suspect[]): void {
    this.#suspects.push(...suspects);
    if (!this.#busy && this.#suspects.length > 0) {
      this.#busy = true;
      void this.#work();
    }
  }

  /** At a stop: the suspects that were not run, to be released. */
  abandon(): HeldJob[] {
    const left = this.#suspects.map(({ held }) => held);
    this.#suspects = [];
    return left;
  }

  async #work(): Promise<void> {
    this.#handBack();
    for (;;) {
      const suspect = this.#suspects.shift();
      if (!suspect) break;
      this.#alone = await this.#waitForQuiet(suspect.held.row.crashes);
      if (suspect.held.lost) continue;
      if (this.#alone && !(await suspect.mark())) continue;
      await suspect.run();
    }
    this.#busy = false;
    this.#resume();
  }

  #waitForQuiet(crashes: number): Promise<boolean> {
    if (this.#running === 0) return Promise.resolve(true);
    const patienceMs = Math.min(PATIENCE_MS * 2 ** Math.max(0, crashes - 1), 2 ** 31 - 1);
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#quiet = null;
        resolve(false);
      }, patienceMs);
      this.#quiet = () => {
        clearTimeout(timer);
        this.#quiet = null;
        resolve(true);
      };
    });
  }
}
