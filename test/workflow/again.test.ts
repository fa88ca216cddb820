/** A run that begins anew, by a restart or a retry after an undo, does its steps again as new ones. */
import { expect, test } from 'vitest';
import { DeadLetter, workflow } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

test('each life of a run that restarts has keys of its own, so third parties do not take one for another', async () => {
  const monthly = workflow<number, { plan: string }, string[]>('monthly');
  const keys: string[] = [];
  start(db.hf, (worker) =>
    worker.workflow(monthly, async (flow, month) => {
      await flow.step('charge', ({ key }) => keys.push(key));
      if (month < 3) return flow.restart(month + 1);
      return keys;
    }),
  );
  const { id } = await db.hf.enqueue(monthly, 1);
  const { result } = await db.hf.wait(monthly, id, { timeout: '20s' });
  expect(result).toEqual([`${id}/charge`, `${id}/charge/1`, `${id}/charge/2`]);
  // What it leaves is found by maintenance when its time has come.
  const [{ checked }] = await db.rows(
    'SELECT count(*)::int AS checked FROM holdfast.inbox_steps WHERE run_id = $1 AND check_at IS NOT NULL',
    [id],
  );
  expect(checked).toBeGreaterThan(0);
});

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
