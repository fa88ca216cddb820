/**
 * The till: every five seconds a schedule has the orders counted, by one worker of the fleet. What it counts stands
 * under the instant of the tick, so a tick that became two jobs would show.
 */
import type pg from 'pg';
import type { Holdfast } from '../../holdfast.js';
import { job } from '../../job/job.js';
import type { HandlerContext } from '../../worker/run/handler-context.js';
import { QUEUE } from './jobs.js';

export const countTill = job<object>('count_till', { queue: QUEUE });

const TABLE = `
CREATE TABLE IF NOT EXISTS shop.tills (
  instant timestamptz PRIMARY KEY,
  orders  bigint NOT NULL,
  commits integer NOT NULL DEFAULT 1
)`;

/** Called at every start: what the demo does not declare any more goes. */
export async function openTill(pool: pg.Pool, hf: Holdfast): Promise<void> {
  await pool.query(TABLE);
  await pool.query('TRUNCATE shop.tills');
  await hf.schedules.declare('demo', {
    // While the demo is closed nobody counts, and nothing is caught up.
    'count-till': { every: '5s', job: countTill, payload: {}, catchUp: 'none' },
  });
}

const COUNT = `
INSERT INTO shop.tills AS t (instant, orders) SELECT $1, count(*) FROM shop.orders
ON CONFLICT (instant) DO UPDATE SET commits = t.commits + 1`;

export async function countOrders({ transaction, scheduledAt }: HandlerContext<object>) {
  await transaction((tx) => tx.query(COUNT, [scheduledAt]));
}

export async function tillText(pool: pg.Pool): Promise<string> {
  const { rows } = await pool.query<{ ticks: number; twice: number }>(
    'SELECT count(*)::int AS ticks, count(*) FILTER (WHERE commits > 1)::int AS twice FROM shop.tills',
  );
  const { ticks, twice } = rows[0] as { ticks: number; twice: number };
  return `${ticks} times, by a schedule; ${twice === 0 ? 'none' : twice} twice`;
}
