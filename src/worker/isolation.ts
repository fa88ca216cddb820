/**
 * Isolation: a job whose owner vanished is run alone in its process, until it has proved harmless.
 *
 * Nobody can know which of the jobs that ran in a killed process killed it. So all of them come back
 * without an attempt spent, as suspects, and a worker runs suspects one at a time with nothing beside
 * them: new jobs are held back, jobs that wait are handed back, running ones are waited for. If the
 * process dies again the row says who was alone, and only that job spends an attempt.
 *
 * Neither waiting is without end. Handlers that run for long are waited for `PATIENCE_MS`; then the
 * suspect runs beside them without the mark. A suspect that runs for long is alone for `ALONE_MS`; then
 * the mark is taken back and other work begins beside it. Both times double with every crash, up to ten
 * minutes, so a job that does kill its process is alone at last, and one that does not never spends an
 * attempt for it.
 */
import type { HeldJob } from './held.js';

const PATIENCE_MS = 10_000;
const ALONE_MS = 30_000;
const LONGEST_MS = 600_000;

export interface Suspect {
  readonly held: HeldJob;
  /** Writes or takes back the mark "alone". False: the job is not ours to run any more. */
  readonly mark: (alone: boolean) => Promise<boolean>;
  /** Runs and settles the job. */
  readonly run: () => Promise<void>;
  /** Gives the job back, or only forgets it when it is lost. */
  readonly handBack: () => void;
}

export class Isolation {
  readonly #handBackAll: () => void;
  readonly #resume: () => void;
  #suspects: Suspect[] = [];
  #running = 0;
  #busy = false;
  #stopped = false;
  #quiet: (() => void) | null = null;

  /** `handBack` releases every job that waits for a handler; `resume` starts work again. */
  constructor(hooks: { handBack: () => void; resume: () => void }) {
    this.#handBackAll = hooks.handBack;
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

  /** No suspect is started from now on; those that wait are handed back. */
  stop(): void {
    this.#stopped = true;
    for (const suspect of this.#suspects.splice(0)) suspect.handBack();
    this.#quiet?.();
  }

  async #work(): Promise<void> {
    this.#handBackAll();
    for (;;) {
      const suspect = this.#suspects.shift();
      if (!suspect) break;
      const grows = 2 ** Math.max(0, suspect.held.row.crashes - 1);
      const alone = await this.#waitForQuiet(Math.min(PATIENCE_MS * grows, LONGEST_MS));
      if (this.#stopped || suspect.held.lost) suspect.handBack();
      else if (!alone) void suspect.run();
      else if (await suspect.mark(true)) {
        await this.#runWithin(suspect, Math.min(ALONE_MS * grows, LONGEST_MS));
      }
    }
    this.#busy = false;
    this.#resume();
  }

  async #runWithin(suspect: Suspect, limitMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<'long'>((resolve) => {
      timer = setTimeout(() => resolve('long'), limitMs);
    });
    const ended = await Promise.race([suspect.run(), limit]);
    clearTimeout(timer);
    // A lost one keeps its mark in the row, and would pay for what the next one does.
    if (ended === 'long' || suspect.held.lost) await suspect.mark(false);
  }

  #waitForQuiet(patienceMs: number): Promise<boolean> {
    if (this.#running === 0) return Promise.resolve(true);
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
