/**
 * The shop: its queue, its tables, and how an order is placed. The order, the jobs that it needs, the list of these, its
 * checkout, what it sets off in the back office and who is told of it are one transaction: either the shop has taken on all
 * of it, or nothing happened.
 *
 * An effect can stand there once per job. An attempt that commits a second time is not refused,
 * since that would hide it: it is counted, and the proof finds it.
 */

import type { Holdfast } from 'holdfast';
import { withTransaction } from 'holdfast/internal';
import type pg from 'pg';
import { announce, openNews, paid } from '../events/news.js';
import { openCheckouts, placeCheckouts } from './checkout.js';
import { jobsOf, type OrderOptions, QUEUE, type Step } from './jobs.js';
import { officeJobsOf, openOffice } from './office.js';

const TABLES = `
CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  placed_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS shop.steps (
  job_id   uuid PRIMARY KEY,
  order_id bigint NOT NULL,
  step     integer NOT NULL
);
CREATE TABLE IF NOT EXISTS shop.effects (
  job_id   uuid NOT NULL,
  effect   text NOT NULL,
  order_id bigint NOT NULL,
  step     integer NOT NULL,
  attempt  integer NOT NULL,
  worker   integer NOT NULL,
  commits  integer NOT NULL DEFAULT 1,
  -- Rises in the order in which effects happen.
  seq      bigint GENERATED ALWAYS AS IDENTITY,
  UNIQUE (job_id, effect)
)`;

export async function openShop(pool: pg.Pool, hf: Holdfast): Promise<void> {
  await hf.createQueue(QUEUE, { ordering: 'key' });
  await pool.query(TABLES);
  await Promise.all([openOffice(pool, hf), openCheckouts(pool, hf), openNews(pool, hf)]);
}

const NEW_ORDERS = `
INSERT INTO shop.orders (placed_at) SELECT now() FROM generate_series(1, $1::integer) RETURNING id`;

const NEW_STEPS = `
INSERT INTO shop.steps (job_id, order_id, step)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::integer[])`;

/** Resolves when they are committed; returns their numbers. */
export function placeOrders(
  pool: pg.Pool,
  hf: Holdfast,
  count: number,
  options: OrderOptions = {},
): Promise<number[]> {
  return withTransaction(pool, async (tx) => {
    const orders = await tx.query<{ id: string }>(NEW_ORDERS, [count]);
    const ids = orders.rows.map(({ id }) => Number(id));
    const items = ids.flatMap((id) => jobsOf(id, options));
    const jobs = await hf.enqueueMany(items, { tx });
    const steps = items.map(({ payload }) => payload as Step);
    await tx.query(NEW_STEPS, [
      jobs.map(({ id }) => id),
      steps.map(({ orderId }) => orderId),
      steps.map(({ step }) => step),
    ]);
    await placeCheckouts(tx, hf, ids);
    for (const list of officeJobsOf(ids)) await hf.enqueueMany(list, { tx });
    await announce(tx, hf, ids.map(paid));
    return ids;
  });
}

export interface Effect extends Step {
  readonly jobId: string;
  readonly effect: string;
  readonly attempt: number;
  readonly worker: number;
}

const NEW_EFFECT = `
INSERT INTO shop.effects AS e (job_id, effect, order_id, step, attempt, worker)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (job_id, effect) DO UPDATE SET commits = e.commits + 1`;

/** In the transaction that completes the job. */
export async function recordEffect(tx: pg.PoolClient, done: Effect): Promise<void> {
  const { jobId, effect, orderId, step, attempt, worker } = done;
  await tx.query(NEW_EFFECT, [jobId, effect, orderId, step, attempt, worker]);
}
