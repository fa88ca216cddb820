/**
 * The shop of the demo: its tables, and the proof. Every order must have its receipt, or a job that still
 * wants to send it, or a dead letter; and no order may have two receipts.
 */
import type pg from 'pg';

export async function prepareShop(pool: pg.Pool): Promise<void> {
  await pool.query(`
    CREATE SCHEMA IF NOT EXISTS shop;
    CREATE TABLE IF NOT EXISTS shop.orders (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, placed_at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE IF NOT EXISTS shop.receipts (
      order_id bigint NOT NULL, attempt integer NOT NULL, sent_at timestamptz NOT NULL DEFAULT now());`);
}

export interface Proof {
  readonly line: string;
  readonly holds: boolean;
}

export async function proof(pool: pg.Pool): Promise<Proof> {
  const { rows } = await pool.query(`
    WITH jobs AS (
      SELECT (payload ->> 'orderId')::bigint AS order_id, status::text FROM holdfast.inbox WHERE type = 'send_receipt'
    )
    SELECT (SELECT count(*) FROM shop.orders)::int AS accepted,
      (SELECT count(*) FROM shop.receipts)::int AS sent,
      (SELECT count(*) FROM jobs WHERE status <> 'dead_letter')::int AS waiting,
      (SELECT count(*) FROM jobs WHERE status = 'dead_letter')::int AS buried,
      (SELECT count(*) FROM shop.orders o
        WHERE NOT EXISTS (SELECT FROM shop.receipts r WHERE r.order_id = o.id)
          AND NOT EXISTS (SELECT FROM jobs j WHERE j.order_id = o.id))::int AS lost,
      (SELECT count(*) FROM (SELECT FROM shop.receipts GROUP BY order_id HAVING count(*) > 1) d)::int AS doubled`);
  const { accepted, sent, waiting, buried, lost, doubled } = rows[0];
  return {
    line: `accepted ${accepted}, receipts sent ${sent}, waiting or retrying ${waiting}, buried ${buried}, lost ${lost}, doubled ${doubled}`,
    holds: lost === 0 && doubled === 0,
  };
}
