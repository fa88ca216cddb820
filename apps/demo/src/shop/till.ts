/**
 * The till: every five seconds a schedule has the orders counted, by one worker of the fleet. What it counts stands
 * under the instant of the tick, so a tick that became two jobs would show.
 */

import type { HandlerContext, Holdfast } from 'holdfast';
import { job } from 'holdfast';
import type pg from 'pg';
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

export interface Till {
  readonly ticks: number;
  /** Counted more than once: none, unless something is broken. */
  readonly twice: number;
}

export async function readTill(pool: pg.Pool): Promise<Till> {
  const { rows } = await pool.query<Till>(
    'SELECT count(*)::int AS ticks, count(*) FILTER (WHERE commits > 1)::int AS twice FROM shop.tills',
  );
  return rows[0] as Till;
}

export const tillText = ({ ticks, twice }: Till) =>
  `${ticks} times, by a schedule; ${twice === 0 ? 'none' : twice} twice`;
