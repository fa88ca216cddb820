/**
 * Quarantine: the last stage for a job that took its process along again and again. It runs alone.
 *
 * The claim has marked its row (`isolated`): if the process dies now, nothing else can have been the cause, and
 * the attempt counts. New jobs are held back, waiting ones are released for other workers, running handlers are
 * waited for, but not for ever: after `PATIENCE_MS` the job runs beside them and the mark is taken back. It is
 * taken back too from a job that runs alone for longer than `ALONE_MS`. After that the worker does other work
 * for at least as long, so quarantine takes no more than half of its time.
 */
import type { Time, Timer } from '../time.js';
import type { LeasedJob } from './leased-job.js';

const PATIENCE_MS = 5_000;
const ALONE_MS = 30_000;

export interface IsolatedJob {
  readonly held: LeasedJob;
  /** Takes back the mark that the job runs alone. */
  readonly unmark: () => Promise<void>;
  /** Runs and settles the job. */
  readonly run: () => Promise<void>;
  readonly release: () => void;
}

export class Quarantine {
  readonly #releaseWaiting: () => void;
  readonly #resume: () => void;
  readonly #time: Time;
  #running = 0;
  #busy = false;
  #stopped = false;
  #readyAt = Number.NEGATIVE_INFINITY;
  #onQuiet: (() => void) | null = null;

  constructor(hooks: { releaseWaiting: () => void; resume: () => void }, time: Time) {
    this.#time = time;
    this.#releaseWaiting = hooks.releaseWaiting;
    this.#resume = hooks.resume;
  }

  /** True while nothing else may be started or claimed. */
  get holds(): boolean {
    return this.#busy;
  }

  /** From when on suspects may be claimed. */
  get readyAt(): number {
    return this.#busy || this.#stopped ? Number.POSITIVE_INFINITY : this.#readyAt;
  }

  entered(): void {
    this.#running++;
  }

  left(): void {
    this.#running--;
    if (this.#running === 0) this.#onQuiet?.();
  }

  async runAlone(job: IsolatedJob): Promise<void> {
    if (this.#busy || this.#stopped) return job.release();
    this.#busy = true;
    const from = this.#time.now();
    this.#releaseWaiting();
    const quiet = await this.#waitForQuiet();
    if (this.#stopped || job.held.lost) job.release();
    else if (quiet) await this.#runWithin(job, ALONE_MS);
    else await this.#runWithin(job, 0);
    const now = this.#time.now();
    this.#readyAt = now + (now - from);
    this.#busy = false;
    this.#resume();
  }

  stop(): void {
    this.#stopped = true;
    this.#onQuiet?.();
  }

  async #runWithin(job: IsolatedJob, aloneMs: number): Promise<void> {
    if (aloneMs === 0) await job.unmark();
    const running = job.run();
    let timer: Timer | undefined;
    const limit = new Promise<'long'>((resolve) => {
      timer = this.#time.after(aloneMs, () => resolve('long'));
    });
    const ended = await Promise.race([running, limit]);
    timer?.cancel();
    // Other work begins beside it, or it was lost with its mark in the row.
    if (aloneMs > 0 && (ended === 'long' || job.held.lost)) await job.unmark();
  }

  #waitForQuiet(): Promise<boolean> {
    if (this.#running === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = this.#time.after(PATIENCE_MS, () => {
        this.#onQuiet = null;
        resolve(false);
      });
      this.#onQuiet = () => {
        timer.cancel();
        this.#onQuiet = null;
        resolve(true);
      };
    });
  }
}
