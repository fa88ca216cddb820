/**
 * The proof of what the shop told: every message was heard by whom it was for, or waits; repetitions have one id; none was
 * heard that was not told, or before an earlier one of its order; webhooks were signed; and the read model says what SQL
 * says. A read model that is behind is not wrong yet.
 */
import type { Holdfast } from 'holdfast';
import { projections } from 'holdfast/projections';
import type pg from 'pg';
import type { Report } from '../shop/office.js';
import { HOOKS, SALES } from './news.js';

const COUNT = `
WITH jobs AS (
  SELECT id, true AS open FROM holdfast.outbox
  UNION ALL SELECT id, true FROM holdfast.webhooks
  UNION ALL SELECT id, true FROM holdfast.webhooks_ordered
  -- What a human set aside is not lost.
  UNION ALL SELECT id, false FROM holdfast.outbox_archive WHERE status <> 'completed'
  UNION ALL SELECT id, false FROM holdfast.webhooks_archive WHERE status <> 'completed'
  UNION ALL SELECT id, false FROM holdfast.webhooks_ordered_archive WHERE status <> 'completed'
), heard AS (
  SELECT place, order_id, step, min(seq) AS seq, count(*) AS times, count(DISTINCT id) AS ids,
    bool_and(signed) AS signed
  FROM shop.heard GROUP BY place, order_id, step
), each AS (
  SELECT coalesce(m.place, h.place) = 'events' AS event, m.job_id, h.seq, h.times, h.ids, h.signed, j.open,
    h.seq < lag(h.seq) OVER (PARTITION BY m.place, m.order_id ORDER BY m.step)
      AND m.place IN ('events', ${HOOKS.filter(({ ordered }) => ordered).map(({ tenant }) => `'${tenant}'`)}) AS early
  FROM shop.messages AS m FULL JOIN heard AS h USING (place, order_id, step)
  LEFT JOIN jobs AS j ON j.id = m.job_id
)
SELECT event, count(job_id)::integer AS told, count(seq)::integer AS heard,
  coalesce(sum(times - 1), 0)::integer AS again,
  count(*) FILTER (WHERE seq IS NULL AND open)::integer AS open,
  count(*) FILTER (WHERE job_id IS NULL OR ids > 1 OR NOT signed OR early OR (seq IS NULL AND open IS NULL))::integer AS wrong
FROM each GROUP BY event`;

const COMPARE = `
WITH orders AS (
  SELECT customer, sum(orders) AS orders, sum(cents) AS cents, sum(parcels) AS parcels
  FROM (
    SELECT customer, (step = 0)::integer AS orders, cents, (step > 0)::integer AS parcels
    FROM shop.messages WHERE place = 'events'
    UNION ALL SELECT customer, orders, cents, parcels FROM shop.books
  ) AS all_of_them GROUP BY customer
)
SELECT count(s.customer)::integer AS customers, coalesce(sum(s.cents), 0)::float8 AS cents,
  count(*) FILTER (WHERE (o.orders, o.cents, o.parcels) IS DISTINCT FROM (s.orders, s.cents, s.parcels))::integer AS wrong
FROM orders AS o FULL JOIN shop.sales AS s USING (customer)`;

interface Counted {
  readonly event: boolean;
  /** Messages that were told. */
  readonly told: number;
  readonly heard: number;
  /** Repetitions. */
  readonly again: number;
  /** Messages that nobody has heard yet. */
  readonly open: number;
  readonly wrong: number;
}

export interface NewsReport extends Report {
  /** Messages that nobody has heard, and events that the read model has not counted. */
  readonly open: number;
}

const NONE = { told: 0, heard: 0, again: 0, open: 0, wrong: 0 };

export async function newsReport(pool: pg.Pool, hf: Holdfast): Promise<NewsReport> {
  const { rows: found } = await pool.query<Counted>(COUNT);
  const of = (event: boolean) => found.find((one) => one.event === event) ?? NONE;
  const [events, hooks] = [of(true), of(false)];
  const { rows: compared } = await pool.query(COMPARE);
  const { customers, cents, wrong } = compared[0];
  const [model] = wrong === 0 ? [] : await projections(hf).list(SALES);
  // Without a build nothing has been counted.
  const behind = wrong === 0 ? 0 : (model?.events ?? wrong);
  const wait = (open: number) => (open > 0 ? `, ${open} to come` : '');
  const row = (name: string, text: string, bad: number) =>
    [name, bad === 0 ? text : `${text}; WRONG: ${bad}`, bad === 0] as const;
  const rows = [
    row(
      'events',
      `${events.heard} published in order${wait(events.open)}, ${events.again} came twice`,
      events.wrong,
    ),
    row(
      'webhooks',
      `${hooks.heard} delivered and signed${wait(hooks.open)}, ${hooks.again} came twice`,
      hooks.wrong,
    ),
    row(
      'sales',
      `${(cents / 100).toLocaleString('en')} of ${customers} customers, as SQL says${wait(behind)}`,
      behind > 0 ? 0 : wrong,
    ),
  ];
  const kept = rows.every(([, , held]) => held);
  return { rows, kept, open: events.open + hooks.open + behind };
}
