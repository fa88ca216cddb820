/**
 * The checkout, a workflow: charge, reserve, print, wait for an approval where much money is at stake, ship, receipt.
 * Every fourth order has one. Some cannot be shipped and some nobody approves: these undo what they did. Which ones is
 * fixed by the number of the order.
 *
 * The bank does nothing twice under one key, and its answer sometimes gets lost. What belongs to the shop is counted up and
 * down in the shop's rows, so that an act that was done twice, or undone and not done, stays to be seen.
 */

import {
  DeadLetter,
  type Holdfast,
  HoldfastError,
  job,
  type Worker,
  type WorkflowBody,
  workflow,
} from 'holdfast';
import type pg from 'pg';

export const CHECKOUTS = 'checkouts';
/** More than that needs an approval. */
export const APPROVED_ABOVE = 100;
const SKUS = 20;

export interface Purchase {
  readonly orderId: number;
  readonly sku: number;
  readonly amount: number;
  readonly boxes: number;
}
interface Answers {
  readonly approved: { readonly by: string };
}
interface Box extends Purchase {
  readonly run: string;
}

const own = { queue: CHECKOUTS, retry: { base: '100ms', cap: '1s' } } as const;
export const checkout = workflow<Purchase, Answers, { approvedBy: string | null }>('checkout', {
  ...own,
  signals: ['approved'],
});
const shipBox = job<Box>('ship_box', own);
const approve = job<{ run: string; twice: boolean }>('approve', own);

const TABLES = `
CREATE TABLE IF NOT EXISTS shop.checkouts (
  run_id   uuid PRIMARY KEY,
  order_id bigint NOT NULL,
  sku      integer NOT NULL,
  amount   integer NOT NULL,
  boxes    integer NOT NULL,
  -- What was done less what was undone.
  reserved integer NOT NULL DEFAULT 0,
  sent     integer NOT NULL DEFAULT 0,
  taken    integer NOT NULL DEFAULT 0,
  shipped  integer NOT NULL DEFAULT 0,
  receipts integer NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS shop.bank (
  key      text PRIMARY KEY,
  run_id   uuid NOT NULL,
  amount   integer NOT NULL,
  requests integer NOT NULL DEFAULT 1
);
CREATE INDEX IF NOT EXISTS bank_run_idx ON shop.bank (run_id);
CREATE TABLE IF NOT EXISTS shop.stock (sku integer PRIMARY KEY, pieces integer NOT NULL, free integer NOT NULL);
INSERT INTO shop.stock SELECT sku, 1000000, 1000000 FROM generate_series(0, ${SKUS - 1}) AS sku
ON CONFLICT DO NOTHING`;

/** Called at every start. */
export async function openCheckouts(pool: pg.Pool, hf: Holdfast): Promise<void> {
  await hf.createQueue(CHECKOUTS);
  await pool.query(TABLES);
}

const hasCheckout = (orderId: number) => orderId % 4 === 0;
/** Of the orders with a checkout, which one it is. */
const nth = ({ orderId }: Purchase) => orderId / 4;
const isRefusedByCarrier = (purchase: Purchase) => nth(purchase) % 6 === 5;
const isForgotten = (purchase: Purchase) => nth(purchase) % 16 === 7;
const losesAnswer = (purchase: Purchase) => nth(purchase) % 5 === 3;

export function purchaseOf(orderId: number): Purchase {
  const n = orderId / 4;
  return { orderId, sku: n % SKUS, amount: 25 * (1 + (n % 8)), boxes: 1 + (n % 3) };
}

const NEW_CHECKOUTS = `
INSERT INTO shop.checkouts (run_id, order_id, sku, amount, boxes)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::integer[], $5::integer[])`;

/** In the transaction of the orders. */
export async function placeCheckouts(
  tx: pg.PoolClient,
  hf: Holdfast,
  orderIds: readonly number[],
): Promise<void> {
  const purchases = orderIds.filter(hasCheckout).map(purchaseOf);
  if (purchases.length === 0) return;
  const runs = await hf.enqueueMany(
    purchases.map((purchase) => checkout.item(purchase)),
    { tx },
  );
  await tx.query(NEW_CHECKOUTS, [
    runs.map(({ id }) => id),
    purchases.map(({ orderId }) => orderId),
    purchases.map(({ sku }) => sku),
    purchases.map(({ amount }) => amount),
    purchases.map(({ boxes }) => boxes),
  ]);
}

/** Another system: what it was asked for under a key it does once. */
const CHARGE = `
INSERT INTO shop.bank AS b (key, run_id, amount) VALUES ($1, $2, $3)
ON CONFLICT (key) DO UPDATE SET requests = b.requests + 1`;
const REFUND = `
INSERT INTO shop.bank AS b (key, run_id, amount)
SELECT $1, $2, -coalesce(sum(c.amount), 0) FROM shop.bank AS c WHERE c.run_id = $2
ON CONFLICT (key) DO UPDATE SET requests = b.requests + 1`;

const RESERVE = `
WITH piece AS (UPDATE shop.stock SET free = free - $3 WHERE sku = $2)
UPDATE shop.checkouts SET reserved = reserved + $3 WHERE run_id = $1`;
const SENT = 'UPDATE shop.checkouts SET sent = sent + 1 WHERE run_id = $1';
const TAKEN = 'UPDATE shop.checkouts SET taken = taken + $2 WHERE run_id = $1';
const SHIPPED = 'UPDATE shop.checkouts SET shipped = shipped + 1 WHERE run_id = $1';
const RECEIPT = 'UPDATE shop.checkouts SET receipts = receipts + 1 WHERE run_id = $1';

export interface CheckoutDeps {
  readonly pool: pg.Pool;
  readonly hf: Holdfast;
  /** For calling a bank, a printer or a carrier. */
  readonly call: (signal: AbortSignal) => Promise<unknown>;
}
type Body = WorkflowBody<Purchase, Answers, { approvedBy: string | null }>;

export function checkoutBody({ pool, hf, call }: CheckoutDeps): Body {
  return async (flow, purchase) => {
    const { sku, amount, boxes } = purchase;
    await flow.step(
      'charge',
      async ({ key, signal, attempt }) => {
        await call(signal);
        await pool.query(CHARGE, [key, flow.id, amount]);
        if (attempt === 1 && losesAnswer(purchase)) throw new Error('the bank’s answer was lost');
      },
      { undo: (_, { key }) => pool.query(REFUND, [key, flow.id]).then(() => null) },
    );
    await flow.transaction('reserve', (tx) => reserve(tx, 1), { undo: (tx) => reserve(tx, -1) });
    await Promise.all([
      flow.step('label', ({ signal }) => call(signal).then(() => null)),
      flow.step('slip', ({ signal }) => call(signal).then(() => null)),
    ]);
    const approvedBy = amount > APPROVED_ABOVE ? await approval() : null;
    const inputs = Array.from({ length: boxes }, () => ({ ...purchase, run: flow.id }));
    const ended = await flow.children('ship', shipBox, inputs);
    const lost = ended.filter(({ status }) => status !== 'completed').length;
    if (lost > 0) throw new DeadLetter(`${lost} of ${boxes} boxes were not shipped`);
    await flow.transaction('receipt', (tx) => tx.query(RECEIPT, [flow.id]).then(() => null));
    return { approvedBy };

    function reserve(tx: pg.PoolClient, pieces: 1 | -1) {
      return tx.query(RESERVE, [flow.id, sku, pieces]).then(() => null);
    }

    async function approval(): Promise<string> {
      await flow.transaction('ask', async (tx) => {
        if (isForgotten(purchase)) return;
        const twice = nth(purchase) % 2 === 0;
        await hf.enqueue(approve, { run: flow.id, twice }, { tx, delay: '300ms' });
      });
      const yes = await flow.wait('approval', 'approved', { timeout: '2s' });
      if (yes === null) throw new DeadLetter('nobody approved it in time');
      await flow.transaction('approved', (tx) => tx.query(TAKEN, [flow.id, 1]).then(() => null), {
        undo: (tx) => tx.query(TAKEN, [flow.id, -1]),
      });
      return yes.by;
    }
  };
}

export function handleCheckout(worker: Worker, deps: CheckoutDeps): void {
  const { hf, call } = deps;
  worker.workflow(checkout, checkoutBody(deps));
  worker.handle(shipBox, async ({ payload, signal, transaction }) => {
    await call(signal);
    if (isRefusedByCarrier(payload)) throw new DeadLetter('the carrier does not go there');
    await transaction((tx) => tx.query(SHIPPED, [payload.run]));
  });
  // The person who approves; some click twice.
  worker.handle(approve, async ({ payload: { run, twice }, transaction }) => {
    const clicks = transaction(async (tx) => {
      for (let click = 0; click < (twice ? 2 : 1); click++) {
        const options = { tx, key: 'decision' };
        const sent = await hf.signal(checkout, run, 'approved', { by: 'kim' }, options);
        if (sent) await tx.query(SENT, [run]);
      }
    });
    await clicks.catch((error: unknown) => {
      // Its time was over.
      if (!(error instanceof HoldfastError && error.code === 'RUN_GONE')) throw error;
    });
  });
}
