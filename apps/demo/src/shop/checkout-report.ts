/**
 * The proof of the checkouts, from the rows alone and in one statement. Each ends completed or undone. A completed one was
 * charged once, has its piece of the stock, took its approval once if it needed one, shipped each box once and has one receipt. Of
 * an undone one nothing is left. One that is neither in the queue nor in its archive is lost.
 */
import type pg from 'pg';
import { APPROVED_ABOVE } from './checkout.js';
import type { Report } from './office.js';

const COUNT = `
WITH runs AS (
  SELECT c.*, c.amount > ${APPROVED_ABOVE} AS big,
    (SELECT coalesce(sum(b.amount), 0) FROM shop.bank AS b WHERE b.run_id = c.run_id) AS paid,
    CASE WHEN i.status = 'dead_letter' THEN 'undone' WHEN i.id IS NOT NULL THEN 'open'
      WHEN a.status = 'completed' THEN 'completed' WHEN a.id IS NOT NULL THEN 'set aside' ELSE 'lost' END AS state
  FROM shop.checkouts AS c
  LEFT JOIN holdfast.checkouts AS i ON i.id = c.run_id
  LEFT JOIN holdfast.checkouts_archive AS a ON a.id = c.run_id
), judged AS (
  SELECT r.*,
    CASE r.state WHEN 'completed' THEN r.paid = r.amount WHEN 'undone' THEN r.paid = 0
      ELSE r.paid IN (0, r.amount) END AS paid_well,
    CASE r.state WHEN 'completed' THEN r.reserved = 1 WHEN 'undone' THEN r.reserved = 0
      ELSE r.reserved IN (0, 1) END AS reserved_well,
    CASE r.state WHEN 'completed' THEN r.taken = r.big::integer WHEN 'undone' THEN r.taken = 0
      ELSE r.taken IN (0, 1) END AND r.taken <= r.sent AND r.sent <= 1 AS approved_well,
    CASE r.state WHEN 'completed' THEN r.shipped = r.boxes AND r.receipts = 1
      WHEN 'undone' THEN r.shipped = 0 AND r.receipts = 0 WHEN 'lost' THEN false
      ELSE r.shipped <= r.boxes AND r.receipts <= 1 END AS ended_well
  FROM runs AS r
)
SELECT count(*)::integer AS all,
  count(*) FILTER (WHERE state = 'completed')::integer AS completed,
  count(*) FILTER (WHERE state = 'undone')::integer AS undone,
  count(*) FILTER (WHERE state = 'open')::integer AS open,
  coalesce(sum(taken), 0)::integer AS taken,
  count(*) FILTER (WHERE state = 'undone' AND big AND sent = 0)::integer AS missing,
  (SELECT count(*) FROM shop.bank WHERE amount > 0)::integer AS charges,
  (SELECT coalesce(sum(requests - 1), 0) FROM shop.bank)::integer AS repeated,
  count(*) FILTER (WHERE NOT paid_well)::integer AS "wrongMoney",
  count(*) FILTER (WHERE NOT reserved_well)::integer
    + abs((SELECT sum(pieces - free) FROM shop.stock) - coalesce(sum(reserved), 0))::integer AS "wrongStock",
  count(*) FILTER (WHERE NOT approved_well)::integer AS "wrongApprovals",
  count(*) FILTER (WHERE NOT ended_well)::integer AS "wrongEnds"
FROM judged`;

interface Counted {
  readonly all: number;
  readonly completed: number;
  readonly undone: number;
  readonly open: number;
  readonly taken: number;
  readonly missing: number;
  readonly charges: number;
  readonly repeated: number;
  readonly wrongMoney: number;
  readonly wrongStock: number;
  readonly wrongApprovals: number;
  readonly wrongEnds: number;
}

export async function checkoutReport(pool: pg.Pool): Promise<Report> {
  const { rows: found } = await pool.query<Counted>(COUNT);
  const is = found[0] as Counted;
  const open = is.open > 0 ? `, ${is.open} not over yet` : '';
  const row = (name: string, text: string, wrong: number) =>
    [name, wrong === 0 ? text : `${text}; WRONG: ${wrong}`, wrong === 0] as const;
  const rows = [
    row(
      'checkouts',
      `${is.all}: ${is.completed} completed, ${is.undone} undone${open}`,
      is.wrongEnds,
    ),
    row('charges', `${is.charges}, and ${is.repeated} requests that came twice`, is.wrongMoney),
    row('stock', 'reserved or put back once each', is.wrongStock),
    row('approvals', `${is.taken} taken, ${is.missing} never given`, is.wrongApprovals),
  ];
  return { rows, kept: rows.every(([, , kept]) => kept) };
}
