/**
 * A service: work on a queue that the fleet does once per interval, whoever has the turn.
 *
 * One election serves all services (maintenance/turn.ts): the worker that wins the turn of a queue runs those that are
 * due, and the database knows when each last began, whoever ran it. A service works in small statements that each commit
 * by themselves and pass over what others have locked, so it holds nothing for long, and two rounds that overlap do no
 * harm.
 */
import type pg from 'pg';
import type { Periodic } from '../../maintenance/turn.js';
import type { Names } from '../../postgres/names.js';
import { withTransaction } from '../../postgres/pool.js';
import { BEGIN_POOLED } from '../../postgres/pooled.js';
import { type EngineMode, type Executor, plainExecutor } from '../../postgres/queryable.js';

export interface Service extends Periodic {
  readonly run: (round: Round) => Promise<number>;
  /** A run that did so much has left something over: it goes on in the next turn. */
  readonly atMost?: number;
}

export interface Round {
  readonly names: Names;
  readonly workerId: string;
  readonly ttlMs: number;
  readonly maySweep: boolean;
  /** With index plans only, for the queue table. */
  readonly engine: Executor;
  /** A transaction in which bitmaps are allowed: the archive is found through block ranges. */
  readonly withBitmaps: <Value>(work: (db: Executor) => Promise<Value>) => Promise<Value>;
}

/** A transaction on an engine's connection that begins with settings of its own, as `; SET LOCAL …`. */
export function transactionWith<Value>(
  pool: pg.Pool,
  mode: EngineMode,
  settings: string,
  work: (db: Executor) => Promise<Value>,
): Promise<Value> {
  const begin = (mode.pooled ? BEGIN_POOLED : 'BEGIN') + settings;
  return withTransaction(pool, (client) => work(plainExecutor(client, mode)), begin);
}

/** A round does at most this many batches of a kind; the next round goes on. */
export const MAX_BATCHES = 20;

/** Repeats a batch while it comes back full, a bounded number of times. Returns how much was done. */
export async function inBatches(
  size: number,
  batch: (size: number) => Promise<number>,
): Promise<number> {
  let total = 0;
  for (let count = 1; count <= MAX_BATCHES; count++) {
    total += await batch(size);
    if (total < count * size) break;
  }
  return total;
}
