/** A run that has undone what it did can be retried: it does it again, under new keys. */
import { expect, test } from 'vitest';
import { DeadLetter, workflow } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

test('a run that undid everything is retried: what was undone and all behind it is done again', async () => {
  const checkout = workflow<string, { approved: string }, string>('approved_checkout');
  const calls: string[] = [];
  let [sold, mails] = [true, 0];
  start(db.hf, (worker) =>
    worker.workflow(checkout, async (flow, order) => {
      await flow.step('greet', () => ++mails);
      await flow.step('charge', ({ key }) => calls.push(`charge ${key}`), {
        undo: (_, { key }) => calls.push(`refund ${key}`),
      });
      const by = await flow.wait('approval', 'approved');
      if (sold) throw new DeadLetter('sold out');
      return `${order}, approved by ${by}`;
    }),
  );
  const { id } = await db.hf.enqueue(checkout, 'lamp');
  await db.hf.signal(checkout, id, 'approved', 'kim');
  expect(await db.hf.wait(checkout, id, { timeout: '20s' })).toMatchObject({
    status: 'dead_letter',
    error: expect.stringContaining('undone: "charge"; not undone: none'),
  });
  sold = false;
  expect(await db.hf.retry([id])).toEqual([id]);
  const { result } = await db.hf.wait(checkout, id, { timeout: '20s' });
  expect(result).toBe('lamp, approved by kim');
  expect(calls).toEqual([
    `charge ${id}/charge`,
    `refund ${id}/charge/undo`,
    `charge ${id}/charge/1`,
  ]);
  expect(mails).toBe(1);
});

test('from a later step on, what was undone before it is done again too', async () => {
  const order = workflow<string, { approved: string }, string>('approved_order');
  const calls: string[] = [];
  let trucks = 0;
  start(db.hf, (worker) =>
    worker.workflow(order, async (flow, what) => {
      await flow.step('charge', () => calls.push('charge'), { undo: () => calls.push('refund') });
      const by = await flow.wait('approval', 'approved');
      await flow.step('ship', () => {
        if (trucks++ === 0) throw new DeadLetter('no truck');
        calls.push('ship');
      });
      return `${what}, approved by ${by}`;
    }),
  );
  const { id } = await db.hf.enqueue(order, 'lamp');
  await db.hf.signal(order, id, 'approved', 'kim');
  expect((await db.hf.wait(order, id, { timeout: '20s' })).status).toBe('dead_letter');
  await db.hf.retry([id], { from: 'ship' });
  const { result } = await db.hf.wait(order, id, { timeout: '20s' });
  expect(result).toBe('lamp, approved by kim');
  expect(calls).toEqual(['charge', 'refund', 'charge', 'ship']);
});

test('a body that gives up undoes what it did, and the run is cancelled', async () => {
  const order = workflow<string>('refused_order');
  const calls: string[] = [];
  start(db.hf, (worker) =>
    worker.workflow(order, async (flow) => {
      await flow.step('charge', () => calls.push('charge'), { undo: () => calls.push('refund') });
      await flow.transaction('reserve', async () => calls.push('reserve'), {
        undo: async () => calls.push('put back'),
      });
      await flow.undo('nobody approved');
      calls.push('never');
    }),
  );
  const { id } = await db.hf.enqueue(order, 'lamp');
  expect(await db.hf.wait(order, id, { timeout: '20s' })).toMatchObject({
    status: 'cancelled',
    error: expect.stringContaining('nobody approved'),
  });
  expect(calls).toEqual(['charge', 'reserve', 'put back', 'refund']);
});

test('a run that begins anew keeps its version, or takes the one it names', async () => {
  const plan = workflow<{ month: number }, object, string>('plan', { version: 2 });
  start(db.hf, (worker) =>
    worker.workflow(plan, {
      1: (flow, { month }) => flow.restart({ month: month + 1 }, month > 1 ? { version: 2 } : {}),
      2: async (flow, { month }) => `month ${month} on version ${flow.version}`,
    }),
  );
  const { id } = await db.hf.enqueue(workflow<{ month: number }>('plan'), { month: 1 });
  expect((await db.hf.wait(plan, id, { timeout: '20s' })).result).toBe('month 3 on version 2');
});

test('a body that throws before it comes to what is recorded is called again', async () => {
  const order = workflow<string>('hiccup_order', { retry: { base: 1, cap: 1 } });
  let turns = 0;
  start(db.hf, (worker) =>
    worker.workflow(order, async (flow) => {
      if (++turns === 2) throw new Error('the file of prices cannot be read');
      await flow.transaction('count', (tx) => tx.query('SELECT 1'));
      await flow.sleep('a moment', 20);
      return turns;
    }),
  );
  const { id } = await db.hf.enqueue(order, 'lamp');
  const { status, result } = await db.hf.wait(order, id, { timeout: '20s' });
  expect([status, result]).toEqual(['completed', 3]);
});
