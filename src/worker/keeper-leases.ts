/**
 * The leases that the keeper's thread looks after: what the main thread holds, in the batches in which it
 * was told.
 *
 * A batch stays the text that it came as until one of its jobs is asked for: most are over before that. A
 * job that left while its batch was young may still be in here, and what is done for it changes nothing:
 * the row is fenced. A job is renewed when half of the renewal interval is over. What could not be renewed
 * is lost, and is told. At the end of a process that no longer turns, everything goes back from here, with
 * its attempt.
 */
import { type Held, renewFree } from '../lease/renew.js';
import type { Executor } from '../postgres/queryable.js';
import { release } from '../settle/release.js';
import { type FromKeeper, type ToKeeper, unpack } from './keeper-protocol.js';

const CHUNK = 1_000;

interface Kept {
  readonly generation: number;
  /** When the lease was last known to be fresh, on this thread's clock. */
  freshAt: number;
}

type Message<Kind extends ToKeeper['kind']> = Extract<ToKeeper, { kind: Kind }>;

interface Batch {
  readonly queue: string;
  readonly toldAt: number;
  jobs: string | Map<string, Kept>;
}

/** A job, and where it is kept. */
interface Due extends Held {
  readonly batch: number;
}

export interface LeasesGround {
  readonly schema: string;
  readonly queues: readonly string[];
  readonly leaseMs: number;
  readonly renewMs: number;
  readonly workerId: () => string;
  readonly tell: (message: FromKeeper) => void;
}

export class Leases {
  readonly #ground: LeasesGround;
  readonly #batches = new Map<number, Batch>();

  constructor(ground: LeasesGround) {
    this.#ground = ground;
  }

  get size(): number {
    let size = 0;
    for (const batch of this.#batches.values()) size += jobsOf(batch).size;
    return size;
  }

  hold({ queue, batch, jobs, over }: Message<'hold'>): void {
    this.#batches.set(batch, { queue, toldAt: performance.now(), jobs });
    for (const number of over) this.#batches.delete(number);
  }

  left({ over, jobs: leavers }: Message<'left'>): void {
    for (const number of over) this.#batches.delete(number);
    for (const { batch, jobs } of leavers) {
      for (const { id } of unpack(jobs)) this.#drop(batch, id);
    }
  }

  /** The leases of these are no fresher for it. */
  rest({ batch: number, jobs }: Message<'rest'>): void {
    const batch = this.#batches.get(number);
    if (!batch) return;
    if (typeof batch.jobs === 'string') {
      batch.jobs = jobs;
      return;
    }
    const rest = new Set(Array.from(unpack(jobs), ({ id }) => id));
    for (const id of batch.jobs.keys()) if (!rest.has(id)) this.#drop(number, id);
  }

  /** What a dead incarnation held is not ours. */
  clear(): void {
    this.#batches.clear();
  }

  #drop(number: number, id: string): void {
    const batch = this.#batches.get(number);
    if (!batch) return;
    const jobs = jobsOf(batch);
    jobs.delete(id);
    if (jobs.size === 0) this.#batches.delete(number);
  }

  async renew(line: { executor(): Promise<Executor> }): Promise<void> {
    const { queues, renewMs } = this.#ground;
    for (const queue of queues) {
      const startedAt = performance.now();
      const due = this.#chunks(queue, startedAt - renewMs / 2);
      for (const chunk of due) await this.#renew(await line.executor(), queue, chunk, startedAt);
    }
  }

  async #renew(db: Executor, queue: string, chunk: Due[], startedAt: number): Promise<void> {
    const { schema, leaseMs, workerId, tell } = this.#ground;
    const rows = await renewFree(db, { schema, queue }, workerId(), chunk, leaseMs);
    const answer = new Map(rows.map((row) => [row.id, row.renewed]));
    const lost: Held[] = [];
    for (const { batch: number, id, generation } of chunk) {
      const batch = this.#batches.get(number);
      const job = batch && jobsOf(batch).get(id);
      if (!job) continue;
      const renewed = answer.get(id);
      if (renewed) job.freshAt = startedAt;
      else if (renewed === undefined) {
        lost.push({ id, generation });
        this.#drop(number, id);
      }
    }
    if (lost.length === 0) return;
    const ids = lost.map((job) => job.id);
    tell({ kind: 'lost', queue, ids, generations: lost.map((job) => job.generation) });
  }

  /**
   * Releases everything, and returns how many jobs went back. A row that is locked, most likely by the
   * very handler that does not end, is passed over: it must not keep the others from going back.
   */
  async handBack(db: Executor): Promise<number> {
    const { schema, queues, leaseMs, workerId } = this.#ground;
    let count = 0;
    for (const queue of queues) {
      const names = { schema, queue };
      for (const chunk of this.#chunks(queue, Number.POSITIVE_INFINITY)) {
        const rows = await renewFree(db, names, workerId(), chunk, leaseMs);
        const free = new Set(rows.filter((row) => row.renewed).map((row) => row.id));
        const movable = chunk.filter((job) => free.has(job.id));
        count += (await release(db, names, workerId(), movable)).length;
      }
    }
    return count;
  }

  /**
   * What was last fresh at this time or before. Locks are taken in the order of the ids, so that two
   * statements cannot deadlock.
   */
  #chunks(queue: string, freshUntil: number): Due[][] {
    const due: Due[] = [];
    for (const [number, batch] of this.#batches) {
      if (batch.queue !== queue || batch.toldAt > freshUntil) continue;
      for (const [id, { generation, freshAt }] of jobsOf(batch)) {
        if (freshAt <= freshUntil) due.push({ batch: number, id, generation });
      }
    }
    due.sort((a, b) => (a.id < b.id ? -1 : 1));
    const all: Due[][] = [];
    for (let from = 0; from < due.length; from += CHUNK) all.push(due.slice(from, from + CHUNK));
    return all;
  }
}

function jobsOf(batch: Batch): Map<string, Kept> {
  if (typeof batch.jobs !== 'string') return batch.jobs;
  const jobs = new Map<string, Kept>();
  const freshAt = batch.toldAt;
  for (const { id, generation } of unpack(batch.jobs)) jobs.set(id, { generation, freshAt });
  batch.jobs = jobs;
  return jobs;
}
