/**
 * The proof, from the rows alone and in one statement, so that all of it is of one moment.
 *
 * Lost: a job that an order has taken on, with neither its effect nor a row in the queue; one that
 * a human cancelled or discarded is not lost. Doubled: an attempt that committed although another
 * one had. Out of order: an effect that happened before that of an earlier job of its order.
 */
import type pg from 'pg';

export interface Proof {
  readonly orders: number;
  /** Jobs of these orders. */
  readonly accepted: number;
  readonly completed: number;
  readonly lost: number;
  readonly doubled: number;
  readonly outOfOrder: number;
}

const PROOF = `
SELECT (SELECT count(*) FROM shop.orders)::integer AS orders,
  (SELECT count(*) FROM shop.steps)::integer AS accepted,
  (SELECT count(*) FROM shop.effects)::integer AS completed,
  (SELECT count(*) FROM shop.steps AS s
    WHERE NOT EXISTS (SELECT FROM shop.effects AS e WHERE e.job_id = s.job_id)
      AND NOT EXISTS (SELECT FROM holdfast.orders AS i WHERE i.id = s.job_id)
      AND NOT EXISTS (SELECT FROM holdfast.orders_archive AS a
        WHERE a.id = s.job_id AND a.status <> 'completed'))::integer AS lost,
  (SELECT coalesce(sum(e.commits - 1), 0) FROM shop.effects AS e)::integer AS doubled,
  (SELECT count(*) FROM (
    SELECT e.seq < lag(e.seq) OVER (PARTITION BY e.order_id ORDER BY e.step) AS early
    FROM shop.effects AS e) AS t
    WHERE t.early)::integer AS "outOfOrder"`;

/**
 * `promised`: so many orders were confirmed to have been committed before; one that is not there is
 * lost.
 */
export async function prove(pool: pg.Pool, promised = 0): Promise<Proof> {
  const { rows } = await pool.query<Proof>(PROOF);
  const proof = rows[0] as Proof;
  return { ...proof, lost: proof.lost + Math.max(0, promised - proof.orders) };
}

export function holds({ lost, doubled, outOfOrder }: Proof): boolean {
  return lost === 0 && doubled === 0 && outOfOrder === 0;
}
