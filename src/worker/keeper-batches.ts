/**
 * What the main thread tells the keeper's thread of the jobs that it holds, and when.
 *
 * Jobs are told in batches, one for each claim. Of a batch whose jobs leave soon only the end is told, by
 * its number and together with the next batch, and the thread never looks at its ids. Once it has lasted
 * for a while, the thread is told what is left of it, and from then on every job that leaves. That is long
 * before a renewal is due.
 */
import type { Held } from '../lease/renew.js';
import { type JobsOf, pack, type ToKeeper } from './keeper-protocol.js';

/** Jobs that were told together. */
export interface Batch {
  readonly number: number;
  readonly toldAt: number;
  left: number;
  /** Nothing has left; something has, and was not told; what leaves is told. */
  state: 'whole' | 'young' | 'old';
}

export interface Holding extends Held {
  readonly queue: string;
  /** Null before it was told, and when it has left. */
  batch: Batch | null;
}

export interface BatchesGround {
  readonly renewMs: number;
  readonly send: (message: ToKeeper) => void;
  /** Everything that is held now. */
  readonly held: () => Iterable<Holding>;
}

const PATIENCE_MS = 1_000;

export class Batches {
  readonly #ground: BatchesGround;
  readonly #patienceMs: number;
  #number = 0;
  readonly #young = new Set<Batch>();
  #timer: NodeJS.Timeout | null = null;
  /** Not told yet. */
  #over: number[] = [];
  /** Of this turn of the loop, told together. */
  #leavers = new Map<Batch, Holding[]>();
  #planned = false;

  constructor(ground: BatchesGround) {
    this.#ground = ground;
    // Nothing stays untold for twice as long, and the first renewal comes after half of the interval.
    this.#patienceMs = Math.min(PATIENCE_MS, ground.renewMs / 8);
  }

  hold(queue: string, jobs: readonly Holding[]): void {
    const number = ++this.#number;
    const toldAt = performance.now();
    this.#ground.send({ kind: 'hold', queue, batch: number, jobs: pack(jobs), over: this.#over });
    this.#over = [];
    const batch: Batch = { number, toldAt, left: jobs.length, state: 'whole' };
    for (const job of jobs) job.batch = batch;
  }

  /** False when it had left before, or was never told. */
  drop(job: Holding): boolean {
    const { batch } = job;
    if (!batch) return false;
    job.batch = null;
    batch.left--;
    if (batch.state === 'whole') this.#begin(batch);
    if (batch.left === 0) this.#end(batch);
    else if (batch.state === 'old') this.#note(batch, job);
    return true;
  }

  /** A new thread knows of nothing. */
  tellAnew(): void {
    this.#young.clear();
    this.#over = [];
    this.#leavers.clear();
    const queues = new Map<string, Holding[]>();
    for (const job of this.#ground.held()) {
      const jobs = queues.get(job.queue);
      if (jobs) jobs.push(job);
      else queues.set(job.queue, [job]);
    }
    for (const [queue, jobs] of queues) this.hold(queue, jobs);
  }

  /** The first job leaves a batch. The clock is looked at here only: it is dear for a short job. */
  #begin(batch: Batch): void {
    const youngForMs = batch.toldAt + this.#patienceMs - performance.now();
    batch.state = youngForMs > 0 ? 'young' : 'old';
    if (batch.state === 'old') return;
    this.#young.add(batch);
    this.#planAging(youngForMs);
  }

  #end(batch: Batch): void {
    this.#young.delete(batch);
    this.#leavers.delete(batch);
    this.#over.push(batch.number);
    // That a young one is over is told with the next batch, or by the timer that it has started.
    if (batch.state === 'old') this.#planTelling();
  }

  #note(batch: Batch, job: Holding): void {
    const leavers = this.#leavers.get(batch);
    if (leavers) leavers.push(job);
    else this.#leavers.set(batch, [job]);
    this.#planTelling();
  }

  #planAging(inMs: number): void {
    this.#timer ??= setTimeout(() => this.#age(), Math.ceil(inMs)).unref();
  }

  #age(): void {
    this.#timer = null;
    if (this.#over.length > 0) this.#tell();
    const oldFrom = performance.now() - this.#patienceMs;
    const aged = new Map<Batch, Holding[]>();
    let nextAt = Number.POSITIVE_INFINITY;
    for (const batch of this.#young) {
      if (batch.toldAt > oldFrom) nextAt = Math.min(nextAt, batch.toldAt);
      else aged.set(batch, []);
    }
    if (nextAt < Number.POSITIVE_INFINITY) this.#planAging(nextAt - oldFrom);
    if (aged.size === 0) return;
    for (const job of this.#ground.held()) if (job.batch) aged.get(job.batch)?.push(job);
    for (const [batch, rest] of aged) {
      this.#young.delete(batch);
      batch.state = 'old';
      // A job that is not found may yet be held: better that its lease is renewed for nothing.
      if (rest.length !== batch.left) continue;
      this.#ground.send({ kind: 'rest', batch: batch.number, jobs: pack(rest) });
    }
  }

  #planTelling(): void {
    if (this.#planned) return;
    this.#planned = true;
    setImmediate(() => {
      this.#planned = false;
      this.#tell();
    });
  }

  #tell(): void {
    const over = this.#over;
    const jobs: JobsOf[] = [];
    for (const [batch, leavers] of this.#leavers) {
      jobs.push({ batch: batch.number, jobs: pack(leavers) });
    }
    this.#over = [];
    this.#leavers.clear();
    if (over.length + jobs.length > 0) this.#ground.send({ kind: 'left', over, jobs });
  }
}
