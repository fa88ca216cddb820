/**
 * Which pages of a queue's table a round of maintenance reads for leases that ran out.
 *
 * There is no index on leases, as every claim and renewal would write it. What the engine claims is found by the rows of
 * its claims; what was claimed by hand in SQL is not. So a round reads a bounded number of pages, and the next one goes
 * on behind them. A queue that is no larger than that is read in each round.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int8, statement } from '../postgres/statement.js';
import type { Pages } from './recover.js';

/** 16 MB: twenty to forty thousand jobs, if they are small. They are read in about 10 ms. */
export const PAGES_A_ROUND = 2_000;

export const takePages = statement({
  name: 'take_pages',
  text: `
WITH size AS MATERIALIZED (
  SELECT pg_relation_size('holdfast.inbox'::regclass) / current_setting('block_size')::integer AS pages
), begin AS MATERIALIZED (
  SELECT CASE WHEN b.page < s.pages THEN b.page ELSE 0 END AS page, s.pages
  FROM size AS s
  CROSS JOIN LATERAL (
    SELECT coalesce((q.serviced_at ->> 'page')::bigint, 0) AS page FROM holdfast.queues AS q WHERE q.name = 'inbox'
  ) AS b
), moved AS (
  UPDATE holdfast.queues AS q
  SET serviced_at = q.serviced_at || jsonb_build_object('page', (SELECT b.page FROM begin AS b) + $1::bigint)
  WHERE q.name = 'inbox' AND (SELECT b.pages FROM begin AS b) > $1::bigint
)
SELECT b.page, b.page + $1::bigint AS page_after FROM begin AS b`,
  columns: { page: int8, page_after: int8 },
});

/** The next ones. Rows that come to the table later lie on pages that a later round reads. */
export async function nextPages(db: Executor, names: Names): Promise<Pages> {
  const [row] = await db.run(takePages, names, [PAGES_A_ROUND]);
  return { from: row?.page ?? 0, to: row?.pageAfter ?? 0 };
}
