/**
 * The main thread's list of held jobs, in batches of one claim each, and what the keeper's thread is sent of
 * it.
 *
 * A batch is sent when it is claimed, before a handler can block this thread. What has left is sent in bulk,
 * a few times in a renewal interval: most batches are over by then and cost one number. A late word does no harm. The
 * thread may renew a job that has left, and the fence of the row refuses it.
 */
import type { Lease } from '../../lease/renew.js';
import type { Settings } from '../options.js';
import { monotonicMs, pack, type ToKeeper } from './protocol.js';

/** The jobs of one claim that are still held. */
export interface Batch {
  readonly number: number;
  readonly queue: string;
  readonly heldAt: number;
  readonly jobs: Set<BatchedJob>;
}

export interface BatchedJob extends Lease {
  /** Null before the job is held, and after it has left. */
  batch: Batch | null;
}

export class Batches {
  readonly #send: (message: ToKeeper) => void;
  readonly #delayMs: number;
  readonly #all = new Set<Batch>();
  #number = 0;
  #ended: number[] = [];
  readonly #shrunk = new Set<Batch>();
  #timer: NodeJS.Timeout | null = null;

  constructor(
    { renewMs, heartbeatMs }: Pick<Settings, 'renewMs' | 'heartbeatMs'>,
    send: (message: ToKeeper) => void,
  ) {
    this.#send = send;
    // The thread renews a batch when half of the renewal interval is over. Until then it keeps what has left; with
    // leases of hours, that would be much.
    this.#delayMs = Math.min(renewMs / 4, heartbeatMs);
  }

  hold(queue: string, jobs: readonly BatchedJob[]): void {
    const number = ++this.#number;
    const batch: Batch = { number, queue, heldAt: monotonicMs(), jobs: new Set(jobs) };
    for (const job of jobs) job.batch = batch;
    this.#all.add(batch);
    this.#sendBatch(batch);
  }

  /** Does nothing for a job that has left before, or was never held. */
  drop(job: BatchedJob): void {
    const { batch } = job;
    job.batch = null;
    if (!batch?.jobs.delete(job)) return;
    if (batch.jobs.size > 0) this.#shrunk.add(batch);
    else {
      this.#all.delete(batch);
      this.#shrunk.delete(batch);
      this.#ended.push(batch.number);
    }
    this.#timer ??= setTimeout(() => this.#sendLeft(), this.#delayMs).unref();
  }

  /** Under a new id nothing is held. */
  clear(): void {
    for (const batch of this.#all) batch.jobs.clear();
    this.#all.clear();
    this.#shrunk.clear();
    this.#ended = [];
  }

  /** To a new thread, which knows nothing. */
  resend(): void {
    this.#shrunk.clear();
    this.#ended = [];
    for (const batch of this.#all) this.#sendBatch(batch);
  }

  #sendBatch({ number, queue, heldAt, jobs }: Batch): void {
    this.#send({ kind: 'hold', queue, batch: number, heldAt, jobs: pack(jobs) });
  }

  #sendLeft(): void {
    this.#timer = null;
    const ended = this.#ended;
    const remaining = Array.from(this.#shrunk, ({ number, jobs }) => ({
      batch: number,
      jobs: pack(jobs),
    }));
    this.#ended = [];
    this.#shrunk.clear();
    if (ended.length + remaining.length > 0) this.#send({ kind: 'left', ended, remaining });
  }
}
