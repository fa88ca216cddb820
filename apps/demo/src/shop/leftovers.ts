/**
 * What an earlier run left: orders that are finished are cleared away, so that every run counts
 * from zero; jobs that still wait are kept for the new fleet, whatever became of the old one. What
 * cannot be proven is not cleared away. A lock says whether another demo uses the same database
 * just now: then all is left as it is, and both see the figures of both.
 */

import type { Holdfast } from 'holdfast';
import { discard, engineExecutor, pruneArchiveOlder } from 'holdfast/internal';
import type pg from 'pg';
import { NEWS_QUEUES } from '../events/news.js';
import { newsReport } from '../events/report.js';
import { CHECKOUTS } from './checkout.js';
import { checkoutReport } from './checkout-report.js';
import { QUEUE } from './jobs.js';
import { REPORTS } from './office.js';
import { holds, type Proof, prove } from './proof.js';

const ORDERS = { schema: 'holdfast', queue: QUEUE } as const;
const PRUNE_ROWS = 20_000;
const QUEUES = [QUEUE, REPORTS, CHECKOUTS, 'inbox', ...NEWS_QUEUES];

const TRY_ALONE = `SELECT pg_try_advisory_lock(hashtext('holdfast demo')) AS alone`;
const TAKE_PART = `SELECT pg_advisory_lock_shared(hashtext('holdfast demo'))`;
const LET_OTHERS_IN = `SELECT pg_advisory_unlock(hashtext('holdfast demo'))`;

const OPEN_JOBS = `
SELECT s.job_id FROM shop.steps AS s
WHERE NOT EXISTS (SELECT FROM shop.effects AS e WHERE e.job_id = s.job_id)`;

const DEAD_CHECKOUTS = `SELECT id FROM holdfast.checkouts WHERE status = 'dead_letter'`;

const CLEAR_FINISHED = `
WITH open AS (
  SELECT DISTINCT s.order_id FROM shop.steps AS s JOIN holdfast.orders AS i ON i.id = s.job_id
), orders AS (
  DELETE FROM shop.orders AS o WHERE NOT EXISTS (SELECT FROM open WHERE open.order_id = o.id)
), steps AS (
  -- Of an order that goes on, also those that a human set aside: the archive goes next.
  DELETE FROM shop.steps AS s
  WHERE NOT EXISTS (SELECT FROM open WHERE open.order_id = s.order_id)
    OR (NOT EXISTS (SELECT FROM shop.effects AS e WHERE e.job_id = s.job_id)
      AND NOT EXISTS (SELECT FROM holdfast.orders AS i WHERE i.id = s.job_id))
)
DELETE FROM shop.effects AS e WHERE NOT EXISTS (SELECT FROM open WHERE open.order_id = e.order_id)`;

/** What was sold has left the warehouse. */
const CLEAR_CHECKOUTS = `
WITH over AS (
  DELETE FROM shop.checkouts AS c WHERE NOT EXISTS (SELECT FROM holdfast.checkouts AS i WHERE i.id = c.run_id)
  RETURNING c.run_id, c.sku, c.reserved
), bank AS (
  DELETE FROM shop.bank AS b USING over WHERE b.run_id = over.run_id
)
UPDATE shop.stock AS s SET pieces = s.pieces - o.sold
FROM (SELECT sku, sum(reserved) AS sold FROM over GROUP BY sku) AS o WHERE o.sku = s.sku`;

/** What was heard is told; the books keep what the read model has counted of it. */
const CLEAR_NEWS = `
WITH over AS (
  DELETE FROM shop.messages AS m
  WHERE NOT EXISTS (SELECT FROM holdfast.outbox AS i WHERE i.id = m.job_id)
    AND NOT EXISTS (SELECT FROM holdfast.webhooks AS i WHERE i.id = m.job_id)
    AND NOT EXISTS (SELECT FROM holdfast.webhooks_ordered AS i WHERE i.id = m.job_id)
  RETURNING m.*
), heard AS (
  DELETE FROM shop.heard
)
INSERT INTO shop.books AS b (customer, orders, cents, parcels)
SELECT o.customer, count(*) FILTER (WHERE o.step = 0), sum(o.cents), count(*) FILTER (WHERE o.step > 0)
FROM over AS o WHERE o.place = 'events' GROUP BY o.customer
ON CONFLICT (customer) DO UPDATE SET orders = b.orders + excluded.orders,
  cents = b.cents + excluded.cents, parcels = b.parcels + excluded.parcels`;

export interface Leftovers {
  /** Another demo is running on this database. */
  readonly shared: boolean;
  /** What was found can be proven. */
  readonly sound: boolean;
  /** As it was found. */
  readonly found: Proof;
  /** As it is left for this run. */
  readonly kept: Proof;
}

/** `session` keeps the lock for as long as it is connected. */
export async function settleLeftovers(
  pool: pg.Pool,
  hf: Holdfast,
  session: pg.PoolClient,
): Promise<Leftovers> {
  const { rows } = await session.query<{ alone: boolean }>(TRY_ALONE);
  const alone = rows[0]?.alone ?? false;
  try {
    const found = await prove(pool);
    const [checkouts, news] = [await checkoutReport(pool), await newsReport(pool, hf)];
    const sound = holds(found) && checkouts.kept && news.kept;
    if (!alone || !sound) return { shared: !alone, sound, found, kept: found };
    await clear(pool);
    return { shared: false, sound, found, kept: await prove(pool) };
  } finally {
    await session.query(TAKE_PART);
    if (alone) await session.query(LET_OTHERS_IN);
  }
}

async function clear(pool: pg.Pool): Promise<void> {
  const db = engineExecutor(pool, { prepare: false });
  const open = await pool.query<{ job_id: string }>(OPEN_JOBS);
  // Of these, it moves only the dead letters.
  await discard(
    db,
    ORDERS,
    open.rows.map((row) => row.job_id),
  );
  await pool.query(CLEAR_FINISHED);
  const dead = await pool.query<{ id: string }>(DEAD_CHECKOUTS);
  await discard(
    db,
    { ...ORDERS, queue: CHECKOUTS },
    dead.rows.map((row) => row.id),
  );
  await pool.query(CLEAR_CHECKOUTS);
  await pool.query(CLEAR_NEWS);
  for (const queue of QUEUES) {
    const names = { ...ORDERS, queue };
    while ((await pruneArchiveOlder(db, names, 0, PRUNE_ROWS)).found === PRUNE_ROWS);
  }
}
