/**
 * The back office: what orders set off beside their own jobs, each under a rule of flow control. The bank takes two
 * payouts at once; the partner takes ten messages a second, those of express orders first; of a merchant two reports are made at
 * once, and merchants take turns; a product is indexed once, a second after its last change; sales are booked in batches.
 *
 * What was done stands in a table, with the time from the handler's first line to the commit by the database's clock. A
 * job holds its place for longer than that, so more of them at once than may be is proof that a limit did not hold.
 */

import type { HandlerContext, Holdfast, Worker } from 'holdfast';
import { type EnqueueItem, job } from 'holdfast';
import type pg from 'pg';

interface Sale {
  readonly orderId: number;
}

/** Two payouts, and two reports of a merchant. */
export const MOST_AT_ONCE = 2;
export const REPORTS = 'reports';

const payOut = job<Sale>('pay_out', { limit: { concurrency: MOST_AT_ONCE } });
const RATE = { limit: 10, per: '1s', burst: 5 } as const;
const tellPartner = job<Sale>('tell_partner', { limit: { rate: RATE } });
const makeReport = job<{ merchant: number }>('make_report', { queue: REPORTS });
const indexProduct = job<{ product: number } & Sale>('index_product', {
  unique: { by: ({ product }) => `product:${product}`, onConflict: 'replace' },
});
const bookSale = job<Sale>('book_sale');

const TABLE = `
CREATE TABLE IF NOT EXISTS shop.office (
  job_id  uuid PRIMARY KEY,
  type    text NOT NULL,
  key     text,
  began   timestamptz NOT NULL,
  ended   timestamptz NOT NULL DEFAULT clock_timestamp(),
  commits integer NOT NULL DEFAULT 1
)`;

/** Called at every start. */
export async function openOffice(pool: pg.Pool, hf: Holdfast): Promise<void> {
  await hf.createQueue(REPORTS, { perKey: MOST_AT_ONCE, fair: true });
  await pool.query(TABLE);
}

/** Most reports are of one merchant, who delays the others by no more than a turn. */
const merchantOf = (orderId: number) => (orderId % 20 === 0 ? 1 + ((orderId / 20) % 4) : 0);

/** In lists of one queue. */
export function officeJobsOf(orderIds: readonly number[]): EnqueueItem[][] {
  const every = (n: number) => orderIds.filter((orderId) => orderId % n === 0);
  const byTime = [
    ...orderIds.map((orderId) => bookSale.item({ orderId })),
    // Ten orders in a row are of one product.
    ...orderIds.map((orderId) =>
      indexProduct.item({ orderId, product: Math.floor(orderId / 10) % 100 }, { delay: '1s' }),
    ),
    ...every(4).map((orderId) =>
      tellPartner.item({ orderId }, { priority: orderId % 12 === 0 ? 1 : 2 }),
    ),
    ...every(10).map((orderId) => payOut.item({ orderId })),
  ];
  const reports = every(5).map((orderId) => {
    const merchant = merchantOf(orderId);
    return makeReport.item({ merchant }, { partitionKey: `merchant:${merchant}` });
  });
  return [byTime, reports].filter((items) => items.length > 0);
}

const NOTE = `
INSERT INTO shop.office AS o (job_id, type, key, began)
SELECT j.id, $2, $3, $4 FROM unnest($1::uuid[]) AS j(id)
ON CONFLICT (job_id) DO UPDATE SET commits = o.commits + 1`;

export interface OfficeDeps {
  readonly pool: pg.Pool;
  /** For calling a bank or a partner. */
  readonly call: (signal: AbortSignal) => Promise<unknown>;
}

export function handleOffice(worker: Worker, { pool, call }: OfficeDeps): void {
  const clock = async () =>
    (await pool.query<{ at: string }>('SELECT clock_timestamp()::text AS at')).rows[0]?.at;
  const alone = async (ctx: HandlerContext<unknown>) => {
    const { id, type, partitionKey, signal, transaction } = ctx;
    const began = await clock();
    await call(signal);
    const key = type === makeReport.type ? partitionKey : null;
    await transaction((tx) => tx.query(NOTE, [[id], type, key, began]));
  };
  worker.handle(payOut, alone).handle(tellPartner, alone);
  worker.handle(indexProduct, alone).handle(makeReport, alone);
  worker.handleMany(bookSale, { max: 50, within: '100ms' }, async (_, { type, transaction }) => {
    const began = await clock();
    await transaction((tx, jobs) => tx.query(NOTE, [jobs.map(({ id }) => id), type, null, began]));
  });
}

const COUNT = `
SELECT o.type, count(*)::integer AS jobs, sum(o.commits - 1)::integer AS twice,
  count(DISTINCT o.began)::integer AS calls, count(DISTINCT o.key)::integer AS keys, max(m.most)::integer AS most,
  extract(epoch FROM max(o.began) - min(o.began))::float8 AS seconds
FROM shop.office AS o
JOIN (
  SELECT r.type, max(r.running) AS most
  FROM (
    SELECT e.type, sum(e.change) OVER (PARTITION BY e.type, e.key ORDER BY e.at, e.change) AS running
    FROM (
      SELECT type, key, began AS at, 1 AS change FROM shop.office
      UNION ALL SELECT type, key, ended, -1 FROM shop.office
    ) AS e
  ) AS r
  GROUP BY r.type
) AS m USING (type)
GROUP BY o.type`;

interface Counted {
  readonly type: string;
  readonly jobs: number;
  readonly twice: number;
  /** Calls of handlers; a batch is one. */
  readonly calls: number;
  readonly keys: number;
  /** Of one type and key, at once. */
  readonly most: number;
  /** From the first call to the last. */
  readonly seconds: number;
}

/** A part of the proof: its lines, and whether each of them holds. */
export interface Report {
  readonly rows: readonly (readonly [name: string, text: string, kept: boolean])[];
  readonly kept: boolean;
}

/** It holds if no limit was exceeded and nothing was done twice. */
export async function officeReport(pool: pg.Pool): Promise<Report> {
  const { rows: found } = await pool.query<Counted>(COUNT);
  const none = { jobs: 0, twice: 0, calls: 0, keys: 0, most: 0, seconds: 0 };
  const of = ({ type }: { readonly type: string }) =>
    found.find((one) => one.type === type) ?? { type, ...none };
  const [payouts, told, reports] = [of(payOut), of(tellPartner), of(makeReport)];
  const [indexed, booked] = [of(indexProduct), of(bookSale)];
  const limited = ({ most }: Counted) => most <= MOST_AT_ONCE;
  // They began some time after they had their token, so a second more than that.
  const inTime = told.jobs <= RATE.burst + RATE.limit * (told.seconds + 1);
  const merchants = `${reports.keys} merchant${reports.keys === 1 ? '' : 's'}`;
  const row = (name: string, text: string, kept = true) =>
    [name, kept ? text : `${text}: TOO MANY`, kept] as const;
  const rows = [
    row('payouts', `${payouts.jobs}, at most ${payouts.most} at once`, limited(payouts)),
    row(
      'reports',
      `${reports.jobs} of ${merchants}, ${reports.most} of one at once`,
      limited(reports),
    ),
    row('partner told', `${told.jobs} times, at a rate of 10 a second`, inTime),
    row('products', `indexed ${indexed.jobs} times, debounced`),
    row('sales booked', `${booked.jobs}, in ${booked.calls} batches`),
  ];
  const kept =
    limited(payouts) && limited(reports) && inTime && found.every(({ twice }) => twice === 0);
  return { rows, kept };
}
