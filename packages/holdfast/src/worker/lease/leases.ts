/**
 * The leases that the keeper's thread renews, in the batches that the main thread sends. A batch stays a text until it is
 * due, which is after half of the renewal interval and never earlier: most are over before that. A job that is not ours any
 * more is lost; a locked row is tried again soon.
 */
import { type Lease, renew } from '../../lease/renew.js';
import type { Executor } from '../../postgres/queryable.js';
import { MAX_ROWS } from '../../postgres/statement.js';
import { type HeldBatch, type KeeperSetup, monotonicMs, type Tell, unpack } from './protocol.js';

interface Batch {
  readonly queue: string;
  dueAt: number;
  jobs: string | Map<string, Lease>;
}

interface LeasesDeps extends Pick<KeeperSetup, 'schema' | 'leaseMs' | 'renewMs'> {
  readonly workerId: () => string;
  readonly tell: Tell;
}

export function newLeases({ schema, leaseMs, renewMs, workerId, tell }: LeasesDeps) {
  const batches = new Map<number, Batch>();

  function hold({ number, queue, heldAt, jobs }: HeldBatch): void {
    const known = batches.get(number);
    if (known) known.jobs = jobs;
    else batches.set(number, { queue, dueAt: heldAt + renewMs / 2, jobs });
  }

  /** Batches of one queue: that of the one which has been due for longest. */
  function dueAt(now: number): Batch[] {
    const due: Batch[] = [];
    let count = 0;
    const all = [...batches.values()].filter((batch) => batch.dueAt <= now);
    for (const batch of all.sort((a, b) => a.dueAt - b.dueAt)) {
      if (due[0] && batch.queue !== due[0].queue) continue;
      due.push(batch);
      count += jobsOf(batch).size;
      if (count >= MAX_ROWS) break;
    }
    return due;
  }

  return {
    hold,
    get size() {
      return [...batches.values()].reduce((sum, batch) => sum + jobsOf(batch).size, 0);
    },
    held(all: readonly HeldBatch[]): void {
      const numbers = new Set(all.map(({ number }) => number));
      for (const number of batches.keys()) if (!numbers.has(number)) batches.delete(number);
      all.forEach(hold);
    },
    clear: () => batches.clear(),
    /** One statement. False: nothing was due. */
    async renew(db: Executor): Promise<boolean> {
      const sentAt = monotonicMs();
      const due = dueAt(sentAt);
      const [first] = due;
      if (!first) return false;
      const { queue } = first;
      const id = workerId();
      const jobs = due.flatMap((batch) => [...jobsOf(batch).values()]);
      // In the order in which all statements take row locks: so two of them cannot deadlock.
      jobs.sort((a, b) => (a.id < b.id ? -1 : 1));
      const rows = await renew(db, { schema, queue }, id, jobs, leaseMs).catch((error) => {
        for (const batch of due) batch.dueAt = monotonicMs();
        throw error;
      });
      // The worker re-registered during the query: nothing of this is held any more.
      if (id !== workerId()) return true;
      const renewed = new Map(rows.map((row) => [row.id, row.renewed]));
      const lost: Lease[] = [];
      for (const batch of due) {
        batch.dueAt = sentAt + renewMs / 2;
        for (const job of jobsOf(batch).values()) {
          if (renewed.get(job.id) === false) batch.dueAt = sentAt + renewMs / 4;
          if (renewed.has(job.id)) continue;
          jobsOf(batch).delete(job.id);
          lost.push(job);
        }
      }
      if (lost.length > 0) tell('lost', queue, lost);
      return true;
    },
  };
}

function jobsOf(batch: Batch): Map<string, Lease> {
  if (typeof batch.jobs === 'string')
    batch.jobs = new Map(unpack(batch.jobs).map((job) => [job.id, job]));
  return batch.jobs;
}
