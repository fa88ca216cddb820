/** What a handler returns is kept with its job: a bounded JSON value, whichever way the job was completed. */
import { beforeAll, expect, test } from 'vitest';
import { type HandlerContext, holdfast, job } from '../../packages/holdfast/src/index.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { recordingLogger } from '../support/logger.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

beforeAll(() => db.hf.createQueue('ledger', { ordering: 'key' }));

const RECEIPT = { receipt: 'r-9182', pages: [1, 2], paid: true, note: 'Grüße "…" \\' };
const child = job('child');

type Handler = (context: HandlerContext<unknown>) => unknown;
const WAYS: readonly [string, Handler, object?][] = [
  ['at once', () => RECEIPT],
  ['by a promise', async () => RECEIPT],
  ['within its time limit', async () => RECEIPT, { timeout: '10s' }],
  [
    'with children',
    async (ctx) => {
      await ctx.enqueue(child, {});
      return RECEIPT;
    },
  ],
  ['from its transaction', (ctx) => ctx.transaction(async () => RECEIPT)],
  [
    'with ctx.complete',
    async (ctx) => {
      const client = await db.pool.connect();
      await client.query('BEGIN');
      await ctx.complete(client, RECEIPT);
      await client.query('COMMIT');
      client.release();
    },
  ],
];

test.each(WAYS)('a result that is returned %s', async (name, handler, options = {}) => {
  const kind = job(`way_${WAYS.findIndex(([other]) => other === name)}`, options);
  const { id } = await db.hf.enqueue(kind, {});
  start(db.hf, (w) => w.handle(kind, handler).handle(child, () => undefined));
  expect(await db.hf.wait(id, { timeout: '30s' })).toMatchObject({
    status: 'completed',
    result: RECEIPT,
  });
  expect(await db.hf.job(id)).toMatchObject({ status: 'completed', result: RECEIPT });
});

test('jobs of one key that are completed together keep each their own', async () => {
  const step = job<{ n: number }, number | null>('step', { queue: 'ledger' });
  const items = Array.from({ length: 20 }, (_, n) =>
    step.item({ n }, { partitionKey: 'account:7' }),
  );
  const ids = (await db.hf.enqueueMany(items)).map(({ id }) => id);
  start(db.hf, (w) => w.handle(step, ({ payload }) => (payload.n % 3 === 0 ? null : payload.n)));
  const ends = await Promise.all(ids.map((id) => db.hf.wait(step, id)));
  expect(ends.map(({ result }) => result)).toEqual(items.map((_, n) => (n % 3 === 0 ? null : n)));
});

test('in one statement, each job gets its own result, and those without one get none', async () => {
  const kind = job('batch');
  await db.hf.enqueueMany(Array.from({ length: 4 }, () => kind.item({})));
  const held = (await claimAs(db.engine, 'w1', { types: ['batch'] })).map(heldOf);
  const results = ['{"a":1}', null, '"text"', undefined];
  const jobs = held.map((one, n) => ({ ...one, result: results[n] ?? null }));
  expect(await complete(db.engine, INBOX, 'w1', jobs)).toHaveLength(4);
  const rows = await db.rows<{ id: string; result: string | null }>(
    'SELECT id, result::text AS result FROM holdfast.inbox_archive WHERE id = ANY ($1)',
    [held.map(({ id }) => id)],
  );
  const byId = new Map(rows.map(({ id, result }) => [id, result]));
  expect(held.map(({ id }) => byId.get(id))).toEqual(['{"a": 1}', null, '"text"', null]);
});

test.each([
  ['larger than 8 KiB', 'x'.repeat(8_192), /^result is more than 8192 bytes of JSON/],
  ['no JSON', { at: [new Map()] }, /^result\.at\[0\] is an instance of the class Map/],
  ['a function', () => 'secret', /^result is a function/],
])('a result that is %s is told and not kept, and the job is completed', async (_, value, why) => {
  const logger = recordingLogger();
  const hf = holdfast({ connectionString: db.url, logger });
  const kind = job('refused');
  const first = await hf.enqueue(kind, {});
  const second = await hf.enqueue(kind, {});
  const { events, stop } = start(hf, (w) => w.handle(kind, () => value));
  for (const { id } of [first, second]) {
    expect(await hf.wait(id)).toMatchObject({ status: 'completed', result: null, attempts: 1 });
  }
  await stop();
  await hf.close();
  const told = events.filter(({ kind }) => kind === 'result-refused');
  expect(told).toHaveLength(2);
  expect(told[0]).toMatchObject({
    queue: 'inbox',
    type: 'refused',
    why: expect.stringMatching(why),
  });
  // Once: a handler that returns too much does so every time.
  const lines = logger.lines.filter(({ message }) => message?.includes('result of a handler'));
  expect(lines).toHaveLength(1);
  expect(JSON.stringify([told, lines])).not.toContain('xxxx');
});

test('what a query of pg returned is no result, and nothing is said of it', async () => {
  const logger = recordingLogger();
  const hf = holdfast({ connectionString: db.url, logger });
  const kind = job('query');
  const { id } = await hf.enqueue(kind, {});
  const { events, stop } = start(hf, (w) =>
    w.handle(kind, (ctx) => ctx.transaction((tx) => tx.query('SELECT 1 AS one'))),
  );
  expect(await hf.wait(id)).toMatchObject({ status: 'completed', result: null });
  await stop();
  await hf.close();
  expect(events.filter(({ kind }) => kind === 'result-refused')).toEqual([]);
  expect(logger.lines.filter(({ message }) => message?.includes('result'))).toEqual([]);
});
