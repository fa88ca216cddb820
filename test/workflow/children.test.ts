/** Children: each counted once, one wake for the group, in order, and cancelled only if asked. */
import { expect, test } from 'vitest';
import { DeadLetter } from '../../packages/holdfast/src/index.js';
import { testRuns } from '../support/runs.js';
import { until } from '../support/until.js';
import { gate } from '../support/workers.js';

const runs = testRuns();
const { db } = runs;

const double = runs.job<number>('double', (n) => ({ n: n * 2 }));
let turns = 0;
const fans = runs.workflow('fans', async (flow, count: number) => {
  turns++;
  const inputs = Array.from({ length: count }, (_, n) => n);
  const results = await flow.children('double', double, inputs);
  return results.map((one) => (one.status === 'completed' ? (one.value as { n: number }).n : null));
});

test.each([0, 1, 1_000])('%i children are waited for, in order, with one wake', async (count) => {
  turns = 0;
  const { status, result } = await runs.ran(fans, count);
  expect(status).toBe('completed');
  expect(result).toEqual(Array.from({ length: count }, (_, n) => n * 2));
  expect(turns).toBeLessThanOrEqual(2);
});

const grandchild = runs.workflow('grandchild', async (flow, n: number) => {
  await flow.sleep('nap', 5);
  const [first] = await flow.children('double', double, [n]);
  if (n === 1) throw new DeadLetter('an odd one');
  return first;
});
const family = runs.workflow('family', async (flow) =>
  flow.children('runs', grandchild, [0, 1, 2]),
);

test('workflows are children of workflows, and a dead letter is a result', async () => {
  const value = (n: number) => ({ status: 'completed', value: { n } });
  expect((await runs.ran(family)).result).toEqual([
    { status: 'completed', value: value(0) },
    { status: 'dead_letter', error: expect.stringContaining('an odd one') },
    { status: 'completed', value: value(4) },
  ]);
});

const waiting = runs.workflow('waiting', async (flow) => flow.wait('go', 'go'));
const parent = runs.workflow('parent', async (flow, count: number) =>
  flow.children(
    'waiting',
    waiting,
    Array.from({ length: count }, () => null),
  ),
);
const states = async (run: string) =>
  (
    await db.rows<{ state: string }>(
      `SELECT coalesce(i.status::text, a.status::text) AS state
       FROM generate_series(0, 2) AS n
       CROSS JOIN (SELECT value ->> 'first' AS first FROM holdfast.inbox_steps WHERE run_id = $1 AND kind = 'c') AS c
       CROSS JOIN LATERAL (SELECT (left(first, 24) || lpad(to_hex(('x' || right(first, 12))::bit(48)::bigint + n), 12, '0'))::uuid AS id) AS k
       LEFT JOIN holdfast.inbox AS i ON i.id = k.id LEFT JOIN holdfast.inbox_archive AS a ON a.id = k.id`,
      [run],
    )
  ).map(({ state }) => state);

test('cancelling the parent leaves its children alone, unless asked', async () => {
  const [alone, all] = [await runs.start(parent, 3), await runs.start(parent, 3)];
  for (const id of [alone, all]) await runs.asleep(id);
  await db.hf.cancel([alone]);
  await db.hf.cancel([all], { children: true });
  expect(await states(alone)).toEqual(['pending', 'pending', 'pending']);
  expect(await states(all)).toEqual(['cancelled', 'cancelled', 'cancelled']);
});

test('a child that is cancelled is a result too', async () => {
  const id = await runs.start(parent, 1);
  await runs.asleep(id);
  const [child] = await db.rows<{ id: string }>(
    "SELECT id FROM holdfast.inbox WHERE parent ->> 'r' = $1",
    [id],
  );
  await db.hf.cancel([child?.id as string]);
  expect((await runs.end(parent, id)).result).toEqual([{ status: 'cancelled' }]);
});

const holds = new Map<number, ReturnType<typeof gate<void>>>();
const held = runs.job<number>('held', async (n) => {
  await holds.get(n)?.opened;
  return n;
});
let round = 1;
let fails = true;
const rounds = runs.workflow('rounds', async (flow) => {
  const [first] = await Promise.all([
    flow.children('held', held, [round * 10, round * 10 + 1]),
    (async () => {
      await flow.wait('go', 'go');
      await flow.step('ship', () => {
        if (fails) throw new DeadLetter('no truck');
      });
    })(),
  ]);
  return first;
});

test('children of a group that was given up are not counted in the next one of its name', async () => {
  for (const n of [10, 11, 20, 21]) holds.set(n, gate());
  round = 1;
  fails = true;
  const id = await runs.start(rounds);
  await runs.asleep(id, 'go');
  await db.hf.signal(rounds, id, 'go');
  expect((await runs.end(rounds, id)).status).toBe('dead_letter');
  // The children of the first group still run while those of the second begin.
  fails = false;
  round = 2;
  await db.hf.retry([id], { from: 'held' });
  await runs.asleep(id, 'held');
  for (const n of [10, 11]) holds.get(n)?.open();
  await until('the old children ended', async () => {
    const [row] = await db.rows<{ n: number }>(
      "SELECT count(*)::int AS n FROM holdfast.inbox WHERE type = 'held'",
    );
    return row?.n === 2;
  });
  await db.hf.signal(rounds, id, 'go');
  await until('only the new ones are waited for', async () => {
    const { steps } = await db.hf.steps(id);
    expect(steps.find(({ name }) => name === 'held')?.remaining).toBe(2);
    return steps.some(({ name }) => name === 'ship');
  });
  for (const n of [20, 21]) holds.get(n)?.open();
  expect((await runs.end(rounds, id)).result).toEqual([
    { status: 'completed', value: 20 },
    { status: 'completed', value: 21 },
  ]);
});
