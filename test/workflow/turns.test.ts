/** A run comes back to where it was: steps once, timers, signals, children and undo, on a real worker and database. */
import { expect, test } from 'vitest';
import {
  DeadLetter,
  job,
  StepFailed,
  type Worker,
  workflow,
} from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

interface Order {
  readonly id: number;
}
const checkout = workflow<Order, { approved: { by: string }; refused: string }, unknown>(
  'checkout',
  {
    retry: { base: 1, cap: 1 },
  },
);

test('steps are done once and given back in later turns', async () => {
  const calls: string[] = [];
  let turns = 0;
  start(db.hf, (worker: Worker) =>
    worker.workflow(checkout, async (flow, order) => {
      turns++;
      const charge = await flow.step('charge', ({ key }) => {
        calls.push('charge');
        return { order: order.id, key };
      });
      if (turns === 1) throw new Error('a hiccup');
      const [label, slip] = await Promise.all([
        flow.step('label', () => calls.push('label') && 'L'),
        flow.step('slip', () => calls.push('slip') && 'S'),
      ]);
      await flow.sleep('cool off', 30);
      return { charge, label, slip };
    }),
  );
  const { id } = await db.hf.enqueue(checkout, { id: 9182 });
  const { status, result } = await db.hf.wait(checkout, id, { timeout: '20s' });
  expect(status).toBe('completed');
  expect(result).toEqual({ charge: { order: 9182, key: `${id}/charge` }, label: 'L', slip: 'S' });
  expect(calls).toEqual(['charge', 'label', 'slip']);
  expect(turns).toBe(3);
});

test('a signal is taken once, whether it comes before the wait or after', async () => {
  start(db.hf, (worker) =>
    worker.workflow(checkout, async (flow) => {
      const first = await flow.wait('first', 'approved');
      const second = await flow.wait('second', ['approved', 'refused']);
      const third = await flow.wait('third', 'approved', { timeout: 20 });
      return { first, second, third };
    }),
  );
  const { id } = await db.hf.enqueue(checkout, { id: 1 });
  expect(await db.hf.signal(checkout, id, 'approved', { by: 'kim' }, { key: 'a' })).toBe(true);
  expect(await db.hf.signal(checkout, id, 'approved', { by: 'kim' }, { key: 'a' })).toBe(false);
  const client = await db.pool.connect();
  await client.query('BEGIN');
  await db.hf.signal(checkout, id, 'refused', 'no', { tx: client });
  await client.query('COMMIT');
  client.release();
  const { result } = await db.hf.wait(checkout, id, { timeout: '20s' });
  expect(result).toEqual({
    first: { by: 'kim' },
    second: { name: 'refused', value: 'no' },
    third: null,
  });
});

test('children are waited for, and their results are in order', async () => {
  const ship = job<{ n: number }, { shipped: number }>('ship', { maxAttempts: 1 });
  start(db.hf, (worker) =>
    worker
      .handle(ship, ({ payload }) => {
        if (payload.n === 3) throw new DeadLetter('no such street');
        return { shipped: payload.n };
      })
      .workflow(checkout, async (flow) =>
        flow.children(
          'ship',
          ship,
          [1, 2, 3, 4].map((n) => ({ n })),
        ),
      ),
  );
  const { id } = await db.hf.enqueue(checkout, { id: 1 });
  const { result } = await db.hf.wait(checkout, id, { timeout: '20s' });
  expect(result).toEqual([
    { status: 'completed', value: { shipped: 1 } },
    { status: 'completed', value: { shipped: 2 } },
    { status: 'dead_letter', error: expect.stringContaining('no such street') },
    { status: 'completed', value: { shipped: 4 } },
  ]);
});

test('a run that fails for good undoes what it did, the last first, and says so', async () => {
  const calls: unknown[] = [];
  start(db.hf, (worker) =>
    worker.workflow(checkout, async (flow) => {
      await flow.step('charge', () => 'paid', {
        undo: (value, { outcome }) => calls.push(['refund', value, outcome]),
      });
      await flow.transaction(
        'reserve',
        async (tx) => {
          await tx.query('CREATE TABLE IF NOT EXISTS stock (n int)');
          await tx.query('INSERT INTO stock VALUES (1)');
          return 7;
        },
        {
          undo: async (tx, value) => {
            calls.push(['unreserve', value]);
            await tx.query('INSERT INTO stock VALUES (-1)');
          },
        },
      );
      await flow.step(
        'ship',
        () => {
          throw new Error('no truck');
        },
        {
          maxAttempts: 2,
          retry: { base: 1, cap: 1 },
          undo: (_, { outcome }) => calls.push(['unship', outcome]),
        },
      );
    }),
  );
  const { id } = await db.hf.enqueue(checkout, { id: 1 });
  const { status, error } = await db.hf.wait(checkout, id, { timeout: '20s' });
  expect(status).toBe('dead_letter');
  expect(calls).toEqual([
    ['unship', 'unknown'],
    ['unreserve', 7],
    ['refund', 'paid', 'done'],
  ]);
  expect(error).toContain('no truck');
  expect(error).toContain('undone: "ship", "reserve", "charge"; not undone: none');
  expect(await db.rows('SELECT n FROM stock')).toEqual([{ n: 1 }, { n: -1 }]);
});

test('a step that fails for good may be caught, in every later turn the same', async () => {
  const seen: string[] = [];
  start(db.hf, (worker) =>
    worker.workflow(checkout, async (flow) => {
      try {
        await flow.step('charge', () => {
          throw new DeadLetter('no card');
        });
      } catch (error) {
        if (!(error instanceof StepFailed)) throw error;
        seen.push(`${error.step}: ${error.error.message}`);
      }
      await flow.sleep('later', 10);
      return 'unpaid';
    }),
  );
  const { id } = await db.hf.enqueue(checkout, { id: 1 });
  expect((await db.hf.wait(checkout, id, { timeout: '20s' })).result).toBe('unpaid');
  expect(seen).toEqual(['charge: no card', 'charge: no card']);
});

test('a run that is cancelled with undo undoes what it did, and ends as cancelled', async () => {
  const calls: string[] = [];
  start(db.hf, (worker) =>
    worker.workflow(checkout, async (flow) => {
      await flow.step('charge', () => 'paid', { undo: () => calls.push('refund') });
      await flow.wait('approval', 'approved');
    }),
  );
  const { id } = await db.hf.enqueue(checkout, { id: 1 });
  await expect
    .poll(async () => (await db.hf.steps(id)).steps.map((s) => s.state), { timeout: 20_000 })
    .toEqual(['done', 'waiting']);
  expect(await db.hf.cancel([id], { undo: true, reason: 'changed her mind' })).toEqual([id]);
  const { status } = await db.hf.wait(checkout, id, { timeout: '20s' });
  expect(status).toBe('cancelled');
  expect(calls).toEqual(['refund']);
});

test('a run that got on is no suspect any more, however often its workers were killed', async () => {
  const { id } = await db.hf.enqueue(checkout, { id: 1 });
  await db.pool.query('UPDATE holdfast.inbox SET crashes = 2, attempts = 0 WHERE id = $1', [id]);
  let seen = -1;
  start(db.hf, (worker) =>
    worker.workflow(checkout, async (flow) => {
      await flow.step('first', () => 1);
      await flow.step('second', async () => {
        const { rows } = await db.pool.query('SELECT crashes FROM holdfast.inbox WHERE id = $1', [
          id,
        ]);
        seen = rows[0].crashes;
      });
    }),
  );
  await db.hf.wait(checkout, id, { timeout: '20s' });
  expect(seen).toBe(0);
});
