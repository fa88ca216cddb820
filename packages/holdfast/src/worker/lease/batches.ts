/**
 * The main thread's list of held jobs, in batches of one claim each, and what the keeper's thread is sent of it. A batch is
 * sent when it is claimed, before a handler can block this thread. After jobs have left, the whole list is sent, a few
 * times in a renewal interval: a late word does no harm, because the fence of the row refuses a renewal.
 */
import type { Lease } from '../../lease/renew.js';
import type { Settings } from '../options.js';
import { type HeldBatch, monotonicMs, pack, type ToKeeper } from './protocol.js';

export interface Batch extends Omit<HeldBatch, 'jobs'> {
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
    this.#send({ kind: 'hold', batch: packed(batch) });
  }

  /** Does nothing for a job that has left before, or was never held. */
  drop(job: BatchedJob): void {
    const { batch } = job;
    job.batch = null;
    if (!batch?.jobs.delete(job)) return;
    if (batch.jobs.size === 0) this.#all.delete(batch);
    this.#timer ??= setTimeout(() => this.sendAll(), this.#delayMs).unref();
  }

  /** Under a new id nothing is held. */
  clear(): void {
    for (const batch of this.#all) batch.jobs.clear();
    this.#all.clear();
  }

  /** To a thread that knows of more than is held, or of nothing. */
  sendAll(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#send({ kind: 'held', batches: Array.from(this.#all, packed) });
  }
}

const packed = (batch: Batch): HeldBatch => ({ ...batch, jobs: pack(batch.jobs) });
