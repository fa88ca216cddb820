/**
 * The leases that the keeper's thread looks after: what the main thread holds, by queue.
 *
 * A job is renewed when half of the renewal interval is over. What could not be renewed is lost, and is
 * told. At the end of a process that no longer turns, everything goes back from here, with its attempt.
 */
import { type Held, renewFree } from '../lease/renew.js';
import type { Executor } from '../postgres/queryable.js';
import { release } from '../settle/release.js';
import { type FromKeeper, unpack } from './keeper-protocol.js';

const CHUNK = 1_000;

interface Kept {
  readonly generation: number;
  /** When the lease was last known to be fresh, on this thread's clock. */
  freshAt: number;
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
  readonly #kept: Map<string, Map<string, Kept>>;

  constructor(ground: LeasesGround) {
    this.#ground = ground;
    this.#kept = new Map(ground.queues.map((queue) => [queue, new Map()]));
  }

  get size(): number {
    let size = 0;
    for (const jobs of this.#kept.values()) size += jobs.size;
    return size;
  }

  hold(queue: string, packed: string): void {
    const jobs = this.#kept.get(queue) as Map<string, Kept>;
    const freshAt = performance.now();
    for (const { id, generation } of unpack(packed)) jobs.set(id, { generation, freshAt });
  }

  drop(queue: string, packed: string): void {
    const jobs = this.#kept.get(queue) as Map<string, Kept>;
    for (const { id, generation } of unpack(packed)) {
      if (jobs.get(id)?.generation === generation) jobs.delete(id);
    }
  }

  /** What a dead incarnation held is not ours. */
  clear(): void {
    for (const jobs of this.#kept.values()) jobs.clear();
  }

  async renew(line: { executor(): Promise<Executor> }): Promise<void> {
    const { renewMs } = this.#ground;
    for (const [queue, jobs] of this.#kept) {
      const startedAt = performance.now();
      const due = chunks(jobs, (job) => startedAt - job.freshAt >= renewMs / 2);
      for (const chunk of due) await this.#renew(await line.executor(), queue, chunk, startedAt);
    }
  }

  async #renew(db: Executor, queue: string, chunk: Held[], startedAt: number): Promise<void> {
    const { schema, leaseMs, workerId, tell } = this.#ground;
    const jobs = this.#kept.get(queue) as Map<string, Kept>;
    const rows = await renewFree(db, { schema, queue }, workerId(), chunk, leaseMs);
    const answer = new Map(rows.map((row) => [row.id, row.renewed]));
    const lost: Held[] = [];
    for (const { id, generation } of chunk) {
      const job = jobs.get(id);
      if (job?.generation !== generation) continue;
      const renewed = answer.get(id);
      if (renewed) job.freshAt = startedAt;
      else if (renewed === undefined) {
        lost.push({ id, generation });
        jobs.delete(id);
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
    const { schema, leaseMs, workerId } = this.#ground;
    let count = 0;
    for (const [queue, jobs] of this.#kept) {
      const names = { schema, queue };
      for (const chunk of chunks(jobs, () => true)) {
        const rows = await renewFree(db, names, workerId(), chunk, leaseMs);
        const free = new Set(rows.filter((row) => row.renewed).map((row) => row.id));
        const movable = chunk.filter((job) => free.has(job.id));
        count += (await release(db, names, workerId(), movable)).length;
      }
    }
    return count;
  }
}

/** Locks are taken in the order of the ids, so that two batches cannot deadlock. */
function chunks(jobs: ReadonlyMap<string, Kept>, wanted: (job: Kept) => boolean): Held[][] {
  const held: Held[] = [];
  for (const [id, job] of jobs) if (wanted(job)) held.push({ id, generation: job.generation });
  held.sort((a, b) => (a.id < b.id ? -1 : 1));
  const all: Held[][] = [];
  for (let from = 0; from < held.length; from += CHUNK) all.push(held.slice(from, from + CHUNK));
  return all;
}
