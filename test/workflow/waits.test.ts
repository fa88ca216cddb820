/** Timers and signals: on time, in order, once, and never lost. */
import { expect, test } from 'vitest';
import { workflow } from '../../packages/holdfast/src/index.js';
import { testRuns } from '../support/runs.js';

const runs = testRuns({ poll: '5s' });
const { db } = runs;

const both = runs.workflow('both', async (flow) => {
  const taken = Promise.all([flow.wait('one', 'go'), flow.wait('two', 'go')]);
  return [...(await taken), await flow.wait('three', ['stop', 'go'])];
});

test('signals of one name are taken in the order they were sent, each by the wait that asked first', async () => {
  const id = await runs.start(both);
  await runs.asleep(id, 'two');
  for (const n of [1, 2, 3]) expect(await db.hf.signal(both, id, 'go', n)).toBe(true);
  expect((await runs.end(both, id)).result).toEqual([1, 2, { name: 'go', value: 3 }]);
});

test('a signal with a key is sent once, however often and in whatever transaction', async () => {
  const id = await runs.start(both);
  await runs.asleep(id, 'two');
  const [a, b] = await Promise.all([db.pool.connect(), db.pool.connect()]);
  await a.query('BEGIN');
  await b.query('BEGIN');
  expect(await db.hf.signal(both, id, 'go', 'a', { key: 'k', tx: a })).toBe(true);
  const second = db.hf.signal(both, id, 'go', 'b', { key: 'k', tx: b });
  await a.query('COMMIT');
  expect(await second).toBe(false);
  await b.query('COMMIT');
  a.release();
  b.release();
  const other = workflow('not_this_one');
  await expect(db.hf.signal(other, id, 'go')).rejects.toThrow(
    /is of type "[^"]+", not "not_this_one"; nothing was sent/,
  );
  // From SQL too, and it wakes the run after its commit.
  await db.rows(`SELECT holdfast.inbox_signal($1, 'go', '"sql"', 'k2')`, [id]);
  await db.hf.signal(both, id, 'stop');
  expect((await runs.end(both, id)).result).toEqual(['a', 'sql', { name: 'stop' }]);
});

test('a signal that a transaction holds open for long arrives with its commit, and holds nobody up', async () => {
  const [first, second] = [await runs.start(both), await runs.start(both)];
  await runs.asleep(first, 'two');
  await runs.asleep(second, 'two');
  const sender = await db.pool.connect();
  await sender.query('BEGIN');
  await db.hf.signal(both, first, 'go', 'late', { tx: sender });
  for (const id of [first, second]) for (const n of [1, 2]) await db.hf.signal(both, id, 'go', n);
  await db.hf.signal(both, second, 'stop', 's');
  expect((await runs.end(both, second)).result).toEqual([1, 2, { name: 'stop', value: 's' }]);
  await runs.asleep(first, 'three');
  await sender.query('COMMIT');
  sender.release();
  const [, , third] = (await runs.end(both, first)).result as unknown[];
  expect(third).toEqual({ name: 'go', value: 'late' });
});

const asks = runs.workflow('asks', async (flow) => {
  const answer = await flow.wait('approval', 'approved', { timeout: '20s' });
  const none = await flow.wait('nothing', 'approved', { timeout: 1 });
  return { timedOut: answer === null, none };
});

test('a signal without a value is no time-out', async () => {
  const id = await runs.start(asks);
  await runs.asleep(id);
  await db.hf.signal(asks, id, 'approved');
  expect((await runs.end(asks, id)).result).toEqual({ timedOut: false, none: null });
});

test('an unknown run, one that has ended and a wrong name are clear errors', async () => {
  const strict = workflow<null, { approved: null }>('asks', { signals: ['approved'] });
  const id = await runs.start(asks);
  await runs.asleep(id);
  await expect(db.hf.signal(strict, id, 'aproved' as never, null as never)).rejects.toThrow(
    /no signal "aproved".*approved/,
  );
  await db.hf.cancel([id]);
  const unknown = '0199a1c2-7d3e-7000-8000-000000009182';
  for (const gone of [id, unknown])
    await expect(db.hf.signal(strict, gone, 'approved', null)).rejects.toMatchObject({
      code: 'RUN_GONE',
      message: expect.stringContaining(gone),
    });
});

const naps = runs.workflow('naps', async (flow) => {
  const until = await flow.step('until', () => Date.now() + 400);
  await flow.until('morning', new Date(until));
  const morning = await flow.step('morning came', () => Date.now() - until);
  const from = await flow.step('from', () => Date.now());
  await flow.sleep('nap', 300);
  const nap = await flow.step('nap over', () => Date.now() - from - 300);
  await flow.until('yesterday', new Date(0));
  return [morning, nap];
});

test('sleeping runs hold no handler and wake on time', async () => {
  const id = await runs.start(naps);
  await runs.asleep(id, 'morning');
  const [row] = await db.rows('SELECT claimed_by FROM holdfast.inbox WHERE id = $1', [id]);
  expect(row).toEqual({ claimed_by: null });
  const lateness = (await runs.end(naps, id)).result as number[];
  // 50 ms on a machine that has nothing else to do.
  for (const ms of lateness) expect(ms).toBeLessThan(250);
  for (const ms of lateness) expect(ms).toBeGreaterThanOrEqual(-2);
});
