/**
 * Reading: how every question of this room is asked. In a read-only transaction, so that nothing here can
 * change a row; with a time limit, so that no question outlives the patience of whoever asked; without
 * compilation, which would cost more than the questions do; and without reading or sorting a whole table where
 * an index has the rows in order, whatever the statistics say: after a burst they still call it empty. The
 * settings hold for the transaction only, and so behind any pooler.
 */
import type pg from 'pg';
import { withTransaction } from '../postgres/pool.js';
import { type Executor, engineExecutor } from '../postgres/queryable.js';

/** Long enough for a count of millions, short enough not to hold back vacuum for the night. */
export const READ_LIMIT_MS = 60_000;

export const READING = `
BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
SET LOCAL timezone = 'UTC';
SET LOCAL datestyle = 'ISO';
SET LOCAL jit = off;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
SET LOCAL statement_timeout = ${READ_LIMIT_MS}`;

/** Several questions on one connection. Each sees what was committed when it began. */
export function reading<Value>(
  pool: pg.Pool,
  work: (db: Executor) => Promise<Value>,
): Promise<Value> {
  return withTransaction(
    pool,
    (client) => work(engineExecutor(client, { prepare: false })),
    READING,
  );
}
