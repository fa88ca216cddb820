/** The checkouts: each ends completed or undone whatever happens, and the proof finds what is planted. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { drain, survivesFaults, testWorkflow } from '../../../../packages/testing/src/index.js';
import { KITS, kitOn } from '../../../../test/support/kits.js';
import { long } from '../../../../test/support/long.js';
import { CHECKOUTS, checkout, checkoutBody, handleCheckout, purchaseOf } from './checkout.js';
import { checkoutReport } from './checkout-report.js';
import { settleLeftovers } from './leftovers.js';
import { openShop, placeOrders } from './shop.js';

const [, onServer] = KITS.find(([name]) => name === 'Postgres') as (typeof KITS)[number];
const call = async () => undefined;

describe('the checkouts of the demo', () => {
  const kit = kitOn(onServer);
  const report = () => checkoutReport(kit.pool);
  const said = async () =>
    Object.fromEntries((await report()).rows.map(([name, text]) => [name, text]));
  beforeAll(async () => {
    await openShop(kit.pool, kit.hf);
    await placeOrders(kit.pool, kit.hf, 32);
  });

  test('wait, and nothing is wrong', async () => {
    expect(await said()).toMatchObject({ checkouts: '8: 0 completed, 0 undone, 8 not over yet' });
    expect((await report()).kept).toBe(true);
  });

  test('end completed or undone, and are counted', async () => {
    const worker = kit.hf.worker();
    handleCheckout(worker, { pool: kit.pool, hf: kit.hf, call });
    await drain(kit.hf, { worker, queue: CHECKOUTS, until: '1m' });
    expect(await report()).toMatchObject({ kept: true });
    // The carrier refuses one, and nobody approves another one.
    expect(await said()).toEqual({
      checkouts: '8: 6 completed, 2 undone',
      charges: '8, and 2 requests that came twice',
      stock: 'reserved or put back once each',
      approvals: '2 taken, 1 never given',
    });
  });

  const COMPLETED = `(SELECT run_id FROM shop.checkouts WHERE receipts = 1 AND taken = 1 LIMIT 1)`;
  const UNDONE = `(SELECT id FROM holdfast.checkouts WHERE type = 'checkout' AND status = 'dead_letter' LIMIT 1)`;
  test.each([
    ['a second charge', 'charges', `INSERT INTO shop.bank VALUES ('again', ${COMPLETED}, 25)`],
    [
      'a refund that is missing',
      'charges',
      `DELETE FROM shop.bank WHERE amount < 0 AND run_id = ${UNDONE}`,
    ],
    [
      'a second reservation',
      'stock',
      `UPDATE shop.checkouts SET reserved = 2 WHERE run_id = ${COMPLETED}`,
    ],
    ['a piece that is gone', 'stock', 'UPDATE shop.stock SET free = free - 1 WHERE sku = 3'],
    [
      'an approval taken twice',
      'approvals',
      `UPDATE shop.checkouts SET taken = 2 WHERE run_id = ${COMPLETED}`,
    ],
    [
      'a big one without approval',
      'approvals',
      `UPDATE shop.checkouts SET taken = 0 WHERE run_id = ${COMPLETED}`,
    ],
    [
      'a second receipt',
      'checkouts',
      `UPDATE shop.checkouts SET receipts = 2 WHERE run_id = ${COMPLETED}`,
    ],
    [
      'a box that was not shipped',
      'checkouts',
      `UPDATE shop.checkouts SET shipped = 0 WHERE run_id = ${COMPLETED}`,
    ],
    ['a run that vanished', 'checkouts', `DELETE FROM holdfast.checkouts WHERE id = ${UNDONE}`],
  ])('%s is found', async (_, line, plant) => {
    const client = await kit.pool.connect();
    await client.query('BEGIN');
    await client.query(plant);
    const { rows, kept } = await checkoutReport(client as never);
    await client.query('ROLLBACK');
    client.release();
    expect(kept).toBe(false);
    expect(rows.filter(([, , well]) => !well).map(([name]) => name)).toContain(line);
  });

  test('the next start clears away those that are over, and keeps the others and the stock right', async () => {
    await placeOrders(kit.pool, kit.hf, 8);
    const session = await kit.pool.connect();
    const broken = `UPDATE shop.stock SET free = free + $1 WHERE sku = 3`;
    await kit.pool.query(broken, [1]);
    expect(await settleLeftovers(kit.pool, kit.hf, session)).toMatchObject({ sound: false });
    expect((await said()).checkouts).toMatch(/^10: 6 completed, 2 undone/);
    await session.query('SELECT pg_advisory_unlock_all()');
    await kit.pool.query(broken, [-1]);
    expect(await settleLeftovers(kit.pool, kit.hf, session)).toMatchObject({ sound: true });
    session.release(true);
    expect(await report()).toMatchObject({ kept: true });
    expect((await said()).checkouts).toBe('2: 0 completed, 0 undone, 2 not over yet');
    const left = await kit.pool.query('SELECT type FROM holdfast.checkouts');
    expect(left.rows).toEqual([{ type: 'checkout' }, { type: 'checkout' }]);
  });
});

describe('a checkout that is undone', () => {
  const kit = kitOn(onServer);
  beforeAll(() => openShop(kit.pool, kit.hf));
  beforeEach(() => kit.pool.query('TRUNCATE shop.bank'));

  test(`charges, reserves and undoes both once${long('', ', wherever its worker dies')}`, async () => {
    const effect = async () => {
      const { rows } = await kit.pool.query(
        `SELECT count(*) FILTER (WHERE amount > 0)::int AS charged, count(*) FILTER (WHERE amount < 0)::int AS refunded,
           (SELECT sum(pieces - free) FROM shop.stock)::int AS sold FROM shop.bank`,
      );
      return rows[0];
    };
    const body = checkoutBody({ pool: kit.pool, hf: kit.hf, call });
    const script = {
      hf: kit.hf,
      children: { ship: new Error('the carrier does not go there') },
    };
    const { outcome, undone } = await testWorkflow(checkout, body, purchaseOf(44), script);
    expect({ outcome, undone }).toEqual({ outcome: 'dead_letter', undone: ['reserve', 'charge'] });
    expect(await effect()).toEqual({ charged: 1, refunded: 1, sold: 0 });
    if (!long(false, true)) return;
    const { tried } = await survivesFaults(checkout, body, purchaseOf(44), { ...script, effect });
    expect(tried).toContain(
      'the worker crashes before the COMMIT of the transaction "reserve" was sent',
    );
    expect(tried.filter((one) => one.includes('INSERT INTO shop.bank')).length).toBeGreaterThan(4);
  }, 60_000);
});
