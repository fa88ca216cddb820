/**
 * The main thread's list of held jobs, a batch for each claim. The keeper's thread is sent a batch when it is claimed, and
 * the whole list some time after jobs have left: the fence refuses a late renewal.
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

const packed = (batch: Batch): HeldBatch => ({ ...batch, jobs: pack(batch.jobs) });

export function newBatches(
  { renewMs, heartbeatMs }: Pick<Settings, 'renewMs' | 'heartbeatMs'>,
  send: (message: ToKeeper) => void,
) {
  // The thread renews a batch when half of the renewal interval is over. Until then it keeps what has left; with
  // leases of hours, that would be much.
  const delayMs = Math.min(renewMs / 4, heartbeatMs);
  const all = new Set<Batch>();
  let number = 0;
  let timer: NodeJS.Timeout | null = null;

  /** To a thread that knows of more than is held, or of nothing. */
  function sendAll(): void {
    if (timer) clearTimeout(timer);
    timer = null;
    send({ kind: 'held', batches: Array.from(all, packed) });
  }

  return {
    sendAll,
    hold(queue: string, jobs: readonly BatchedJob[]): void {
      number++;
      const batch: Batch = { number, queue, heldAt: monotonicMs(), jobs: new Set(jobs) };
      for (const job of jobs) job.batch = batch;
      all.add(batch);
      send({ kind: 'hold', batch: packed(batch) });
    },
    /** Does nothing for a job that has left before, or was never held. */
    drop(job: BatchedJob): void {
      const { batch } = job;
      job.batch = null;
      if (!batch?.jobs.delete(job)) return;
      if (batch.jobs.size === 0) all.delete(batch);
      timer ??= setTimeout(sendAll, delayMs).unref();
    },
    clear(): void {
      for (const batch of all) batch.jobs.clear();
      all.clear();
    },
  };
}
