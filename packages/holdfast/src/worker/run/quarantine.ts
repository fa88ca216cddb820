/**
 * Quarantine: the last stage for a job that took its process along again and again. It runs alone. The claim has marked
 * its row (`isolated`): if the process dies now, nothing else can have been the cause, and the attempt counts.
 *
 * New jobs are held back, waiting ones are released, running handlers are waited for: after `PATIENCE_MS`, or beside a
 * leaked handler, the job runs without the mark. The mark is also taken back from a job that runs alone for longer than
 * `ALONE_MS`, and at a stop: whoever ends the process then, it is not the job. After that the worker does other work for
 * at least as long, so quarantine takes no more than half of its time.
 */
import { CHECK_MS, type Time, Wait } from '../time.js';
import type { LeasedJob } from './leased-job.js';

const ALONE_MS = 30 * CHECK_MS;
const PATIENCE_MS = ALONE_MS / 6;

interface QuarantineDeps {
  readonly time: Time;
  readonly releaseWaiting: () => void;
  readonly resume: () => void;
  readonly leaks: { readonly total: number };
}

export interface IsolatedJob {
  readonly held: LeasedJob;
  readonly unmark: () => Promise<void>;
  readonly run: () => Promise<void>;
  readonly release: () => void;
}

export class Quarantine {
  readonly #deps: QuarantineDeps;
  #running = 0;
  /** While it does, nothing else may be started or claimed. */
  holds = false;
  #stopped = false;
  #readyAt = Number.NEGATIVE_INFINITY;
  readonly #quiet = new Wait();
  readonly #alone = new Wait();

  constructor(deps: QuarantineDeps) {
    this.#deps = deps;
  }

  /** From when on suspects may be claimed. */
  get readyAt(): number {
    return this.holds || this.#stopped ? Number.POSITIVE_INFINITY : this.#readyAt;
  }

  entered(): void {
    this.#running++;
  }

  left(): void {
    this.#running--;
    if (this.#running === 0) this.#quiet.end();
  }

  async runAlone(job: IsolatedJob): Promise<void> {
    if (this.holds || this.#stopped) return job.release();
    const { time, releaseWaiting, resume, leaks } = this.#deps;
    this.holds = true;
    const from = time.now();
    releaseWaiting();
    const quiet = this.#running === 0 || (await this.#quiet.atMost(PATIENCE_MS, time));
    if (this.#stopped || job.held.lost) job.release();
    else await this.#runWithin(job, quiet && leaks.total === 0 ? ALONE_MS : 0);
    const now = time.now();
    this.#readyAt = now + (now - from);
    this.holds = false;
    resume();
  }

  stop(): void {
    this.#stopped = true;
    this.#quiet.end();
    this.#alone.end();
  }

  async #runWithin(job: IsolatedJob, aloneMs: number): Promise<void> {
    if (aloneMs === 0) await job.unmark();
    let ended = false;
    void job.run().then(() => {
      ended = true;
      this.#alone.end();
    });
    await this.#alone.atMost(aloneMs, this.#deps.time);
    // Other work begins beside it, this process is told to end, or it was lost with its mark in the row.
    if (aloneMs > 0 && (!ended || job.held.lost)) await job.unmark();
  }
}
