/**
 * What the shop tells others: an order was paid, a parcel was shipped. In the transaction in which it happens, each goes to
 * three shapes: to the outbox, which publishes it in order per order; to the webhooks of the customer; to the event log, from
 * which the sales of each customer are counted. A list of who must hear what commits with them, for the proof.
 */
import type { Holdfast, Worker } from 'holdfast';
import { outbox, relay } from 'holdfast/outbox';
import { httpSink } from 'holdfast/outbox/http';
import { eventLog, type LoggedEvent, project, projection } from 'holdfast/projections';
import { webhooks } from 'holdfast/webhooks';
import type pg from 'pg';
import type { Step } from '../shop/jobs.js';

export const NEWS_QUEUES = ['outbox', 'webhooks', 'webhooks_ordered'] as const;

export interface News extends Step {
  readonly customer: string;
  readonly cents: number;
}
interface Told {
  readonly type: 'order.paid' | 'order.shipped';
  readonly data: News;
}

const CUSTOMERS = ['acme', 'globex', 'initech', 'hooli', 'umbrella', 'stark', 'wayne', 'wonka'];
const customerOf = (orderId: number) => CUSTOMERS[orderId % CUSTOMERS.length] as string;

const told = (type: Told['type'], orderId: number, step: number, cents: number): Told => ({
  type,
  data: { orderId, step, cents, customer: customerOf(orderId) },
});
/** Before all jobs of the order. */
export const paid = (orderId: number) => told('order.paid', orderId, 0, 500 + (orderId % 90) * 100);
export const shipped = ({ orderId, step }: Step) => told('order.shipped', orderId, step, 0);

export interface Hook {
  readonly tenant: string;
  readonly events: readonly string[];
  readonly ordered?: boolean;
  /** Now and then it fails, or loses its answer. */
  readonly flaky?: boolean;
}

/** Customers who want to be called. */
export const HOOKS: readonly Hook[] = [
  { tenant: 'acme', events: ['order.*'], ordered: true, flaky: true },
  { tenant: 'globex', events: ['*'] },
  { tenant: 'initech', events: ['order.shipped'] },
];

/** A program of your own keeps them in a safe place. */
export const secretOf = (tenant: string) =>
  `whsec_${Buffer.from(`the secret of ${tenant}`.padEnd(32)).toString('base64')}`;

const TABLES = `
-- Who must hear what.
CREATE TABLE IF NOT EXISTS shop.messages (
  job_id   uuid PRIMARY KEY,
  place    text NOT NULL,
  order_id bigint NOT NULL,
  step     integer NOT NULL,
  customer text NOT NULL,
  cents    integer NOT NULL
);
-- What was heard, with all repetitions.
CREATE TABLE IF NOT EXISTS shop.heard (
  place    text NOT NULL,
  id       text NOT NULL,
  order_id bigint,
  step     integer,
  signed   boolean NOT NULL,
  seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY
);
-- The read model, and what it counts of orders that were cleared away.
CREATE TABLE IF NOT EXISTS shop.sales (
  customer text PRIMARY KEY, orders bigint NOT NULL, cents bigint NOT NULL, parcels bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS shop.books (LIKE shop.sales INCLUDING ALL)`;

const shapesOf = (hf: Holdfast) => ({
  events: outbox<Record<Told['type'], News>>(hf),
  log: eventLog(hf, 'shop', { retention: '1d' }),
  hooks: webhooks(hf, {
    ...{ allow: ['127.0.0.0/8'], allowHttp: true, disableAfter: 'never' },
    retry: ['200ms', '500ms', '1s', '1s', '2s', '2s', '5s', '5s', '10s', '10s'],
  }),
});

/** Called at every start. */
export async function openNews(pool: pg.Pool, hf: Holdfast): Promise<void> {
  const { events, hooks } = shapesOf(hf);
  await pool.query(TABLES);
  await Promise.all([events.create(), hooks.create()]);
}

/** The addresses of the receivers are those of this run. */
export async function openHooks(hf: Holdfast, url: string): Promise<void> {
  const { hooks } = shapesOf(hf);
  const { endpoints } = await hooks.endpoints.list();
  const open = HOOKS.map(({ tenant, events, ordered = false }) => {
    const own = { url: `${url}/hooks/${tenant}`, events };
    const known = endpoints.find((one) => one.tenant === tenant);
    if (known) return hooks.endpoints.update(known.id, own);
    return hooks.endpoints.create({ ...own, tenant, ordered, secret: secretOf(tenant) });
  });
  await Promise.all(open);
}

const NEW_MESSAGES = `
INSERT INTO shop.messages (job_id, place, order_id, step, customer, cents)
SELECT m.job_id, m.place, m."orderId", m.step, m.customer, m.cents
FROM jsonb_to_recordset($1::jsonb)
  AS m(job_id uuid, place text, "orderId" bigint, step integer, customer text, cents integer)`;

/** In the transaction in which it happens. */
export async function announce(
  tx: pg.PoolClient,
  hf: Holdfast,
  news: readonly Told[],
): Promise<void> {
  const { events, log, hooks } = shapesOf(hf);
  const keyed = news.map((one) => ({ ...one, key: `order:${one.data.orderId}` }));
  const jobs = await events.publish(keyed, { tx });
  // Of a customer, so that two shards never write the same row.
  await log.append(
    news.map((one) => ({ ...one, key: one.data.customer })),
    { tx },
  );
  const messages = news.map(({ data }, n) => ({ ...data, job_id: jobs[n]?.id, place: 'events' }));
  for (const { type, data } of news) {
    const tenant = data.customer;
    if (!HOOKS.some((hook) => hook.tenant === tenant)) continue;
    const { deliveries } = await hooks.send({ tenant, type, data }, { tx });
    messages.push(...deliveries.map(({ id }) => ({ ...data, job_id: id, place: tenant })));
  }
  await tx.query(NEW_MESSAGES, [JSON.stringify(messages)]);
}

const SELL = `
INSERT INTO shop.sales AS s (customer, orders, cents, parcels)
SELECT e.customer, count(*) FILTER (WHERE e.step = 0), sum(e.cents), count(*) FILTER (WHERE e.step > 0)
FROM jsonb_to_recordset($1::jsonb) AS e(customer text, step integer, cents integer)
GROUP BY e.customer
ON CONFLICT (customer) DO UPDATE SET orders = s.orders + excluded.orders,
  cents = s.cents + excluded.cents, parcels = s.parcels + excluded.parcels`;

export const SALES = 'sales';

/** `url`: where the receivers of the demo listen. */
export async function handleNews(worker: Worker, hf: Holdfast, url: string): Promise<void> {
  const { events, log, hooks } = shapesOf(hf);
  relay(worker, events, httpSink({ url: `${url}/events`, source: '/shop' }));
  hooks.deliver(worker);
  const sales = projection(SALES, {
    ...{ log, shards: 2 },
    apply: (page: readonly LoggedEvent<News>[], tx) =>
      tx.query(SELL, [JSON.stringify(page.map(({ data }) => data))]),
  });
  await project(worker, [sales]);
}
