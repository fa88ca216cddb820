/**
 * The leases that the keeper's thread renews, in the batches that the main thread sends. A batch stays the text that it
 * came as until it is due: most are over before that. It is due when half of the renewal interval has passed, and never
 * earlier: until then the main thread relies on where the rows stand. A job that the database does not call ours any more
 * is lost. A row that somebody has locked is tried again soon, and a queue that somebody has locked after the others.
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

export class Leases {
  readonly #deps: LeasesDeps;
  readonly #batches = new Map<number, Batch>();

  constructor(deps: LeasesDeps) {
    this.#deps = deps;
  }

  get size(): number {
    let size = 0;
    for (const batch of this.#batches.values()) size += jobsOf(batch).size;
    return size;
  }

  hold({ number, queue, heldAt, jobs }: HeldBatch): void {
    const known = this.#batches.get(number);
    if (known) known.jobs = jobs;
    else this.#batches.set(number, { queue, dueAt: heldAt + this.#deps.renewMs / 2, jobs });
  }

  /** All that is held: what is not among these has left. */
  held(batches: readonly HeldBatch[]): void {
    const numbers = new Set(batches.map(({ number }) => number));
    for (const number of this.#batches.keys())
      if (!numbers.has(number)) this.#batches.delete(number);
    for (const batch of batches) this.hold(batch);
  }

  clear(): void {
    this.#batches.clear();
  }

  /** One statement. False: nothing was due. */
  async renew(db: Executor): Promise<boolean> {
    const { schema, leaseMs, renewMs, workerId, tell } = this.#deps;
    const sentAt = monotonicMs();
    const batches = this.#due(sentAt);
    const [first] = batches;
    if (!first) return false;
    const id = workerId();
    const jobs = batches.flatMap((batch) => [...jobsOf(batch).values()]);
    // In the order in which all statements take row locks: so two of them cannot deadlock.
    jobs.sort((a, b) => (a.id < b.id ? -1 : 1));
    const rows = await renew(db, { schema, queue: first.queue }, id, jobs, leaseMs).catch(
      (error) => {
        for (const batch of batches) batch.dueAt = monotonicMs();
        throw error;
      },
    );
    // The worker re-registered during the query: nothing of this is held any more.
    if (id !== workerId()) return true;
    const renewed = new Map(rows.map((row) => [row.id, row.renewed]));
    const lost: Lease[] = [];
    for (const batch of batches) {
      batch.dueAt = sentAt + renewMs / 2;
      for (const job of jobsOf(batch).values()) {
        if (renewed.get(job.id) === false) batch.dueAt = sentAt + renewMs / 4;
        if (renewed.has(job.id)) continue;
        jobsOf(batch).delete(job.id);
        lost.push(job);
      }
    }
    if (lost.length > 0) tell('lost', first.queue, lost);
    return true;
  }

  /** Batches of one queue: that of the one which has been due for longest. */
  #due(now: number): Batch[] {
    const due: Batch[] = [];
    let count = 0;
    const all = [...this.#batches.values()].filter(({ dueAt }) => dueAt <= now);
    for (const batch of all.sort((a, b) => a.dueAt - b.dueAt)) {
      if (due[0] && batch.queue !== due[0].queue) continue;
      due.push(batch);
      count += jobsOf(batch).size;
      if (count >= MAX_ROWS) break;
    }
    return due;
  }
}

function jobsOf(batch: Batch): Map<string, Lease> {
  if (typeof batch.jobs === 'string') {
    batch.jobs = new Map(unpack(batch.jobs).map((job) => [job.id, job]));
  }
  return batch.jobs;
}
