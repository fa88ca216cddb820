/** Changing a job that waits: fenced, checked, and found at once by a worker that sleeps. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { job } from '../../packages/holdfast/src/index.js';
import { engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const receipt = job('receipt', { version: 2, schema: z.object({ orderId: z.number() }) });
const types = ['receipt'];

beforeAll(() => db.hf.createQueue('ledger', { ordering: 'key' }));
beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_claims, holdfast.ledger'));

const later = { delay: '1h' } as const;
const bytes = (id: string) =>
  db.rows(
    `SELECT i::text AS row, xmin::text FROM holdfast.inbox AS i WHERE id = $1
     UNION ALL SELECT a::text, xmin::text FROM holdfast.inbox_archive AS a WHERE id = $1`,
    [id],
  );

test('payload, time and priority change, and what is left out stays', async () => {
  const { id } = await db.hf.enqueue(
    receipt,
    { orderId: 1 },
    { ...later, priority: 3, partitionKey: 'k' },
  );
  await db.hf.update(id, { payload: { orderId: 2 } }, { job: receipt });
  const first = await db.hf.job(id);
  expect(first).toMatchObject({ payload: { orderId: 2 }, priority: 3, version: 2 });
  expect(first!.runAt!.getTime()).toBeGreaterThan(Date.now() + 3_000_000);
  const runAt = new Date('2030-12-24T18:00:00.000Z');
  await db.hf.update(id, { runAt, priority: 1 });
  expect(await db.hf.job(id)).toMatchObject({
    ...{ payload: { orderId: 2 }, version: 2, partitionKey: 'k', status: 'pending', attempts: 0 },
    ...{ runAt, priority: 1 },
  });
  await db.hf.update(id, { runAt: new Date(0) });
  const [row] = await db.rows<{ now: boolean }>(
    `SELECT available_at BETWEEN now() - interval '1 minute' AND now() AS now FROM holdfast.inbox`,
  );
  expect(row!.now).toBe(true);
});

test('the handler gets the new payload', async () => {
  const { id } = await db.hf.enqueue(receipt, { orderId: 1 }, later);
  await db.hf.update(id, { payload: { orderId: 9182 }, delay: 0 }, { job: receipt });
  start(db.hf, (w) => w.handle(receipt, ({ payload }) => payload.orderId));
  expect(await db.hf.wait(id, { timeout: '30s' })).toMatchObject({ result: 9182 });
});

describe('a job that does not wait is refused and left as it is', () => {
  const claimed = async () => {
    await db.hf.enqueue(job('receipt'), { orderId: 1 });
    return heldOf((await claimAs(db.engine, 'w1', { types }))[0]!);
  };
  const WHY = { error: 'Error: no paper', summary: 'no paper' };

  test.each([
    ['processing', async () => (await claimed()).id, /is processing .*hf\.cancel\(\)/],
    [
      'dead letter',
      async () => {
        const held = await claimed();
        await deadLetter(db.engine, INBOX, 'w1', [{ ...held, ...WHY }]);
        return held.id;
      },
      /is dead_letter .*hf\.retry\(\)/,
    ],
    [
      'completed',
      async () => {
        const held = await claimed();
        await complete(db.engine, INBOX, 'w1', [held]);
        return held.id;
      },
      /is completed .*Enqueue another/,
    ],
  ])('%s', async (_, make, message) => {
    const id = await make();
    const before = await bytes(id);
    await expect(db.hf.update(id, { priority: 1 })).rejects.toMatchObject({
      code: 'JOB_STATE',
      message: expect.stringMatching(message),
    });
    expect(await bytes(id)).toEqual(before);
  });

  test('a claim that commits while the change waits for the row wins', async () => {
    const { id } = await db.hf.enqueue(job('receipt'), { orderId: 1 });
    const client = await db.pool.connect();
    await client.query('BEGIN');
    await claimAs(engineExecutor(client, { prepare: false }), 'w1', { types });
    const changed = db.hf.update(id, { payload: { orderId: 2 } });
    const refused = expect(changed).rejects.toMatchObject({ code: 'JOB_STATE' });
    await until('the change waits', async () => {
      const rows = await db.rows(
        `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      );
      return rows.length > 0;
    });
    await client.query('COMMIT');
    client.release();
    await refused;
    expect(await db.hf.job(id)).toMatchObject({ status: 'processing', payload: { orderId: 1 } });
  });
});

test.each([
  [
    'an unknown id',
    (id: string) => [id.replace(/.$/, 'x'), { priority: 1 }],
    'OPTION_INVALID',
    /not the UUID/,
  ],
  [
    'a job that is not there',
    () => [crypto.randomUUID(), { priority: 1 }],
    'JOB_UNKNOWN',
    /never enqueued/,
  ],
  ['nothing to change', (id: string) => [id, {}], 'OPTION_INVALID', /Nothing is to be changed/],
  [
    'another property',
    (id: string) => [id, { key: 'k' }],
    'OPTION_INVALID',
    /no "key" that can be/,
  ],
  ['a bad priority', (id: string) => [id, { priority: 5 }], 'OPTION_INVALID', /from 1 to 4/],
  [
    'two times',
    (id: string) => [id, { delay: 1, runAt: new Date() }],
    'OPTION_INVALID',
    /both given/,
  ],
  [
    'a bad delay',
    (id: string) => [id, { delay: 'x' }],
    'OPTION_INVALID',
    /delay must be .*was not changed/s,
  ],
  [
    'no JSON',
    (id: string) => [id, { payload: { n: 1n } }],
    'PAYLOAD_NOT_JSON',
    /payload\.n is a BigInt; the job was not/,
  ],
  [
    'a payload that does not fit',
    (id: string) => [id, { payload: { orderId: 'x' } }, { job: receipt }],
    'PAYLOAD_INVALID',
    /does not fit its schema: orderId/,
  ],
  [
    'the definition of another type',
    (id: string) => [id, { payload: {} }, { job: job('other') }],
    'OPTION_INVALID',
    /is a "receipt" and not a "other"/,
  ],
  [
    'another queue',
    (id: string) => [id, { priority: 1 }, { queue: 'ledger' }],
    'JOB_UNKNOWN',
    /"ledger"/,
  ],
  ['no queue', (id: string) => [id, { priority: 1 }, { queue: 'nope' }], 'QUEUE_UNKNOWN', /"nope"/],
] as const)('%s is refused', async (_, args, code, message) => {
  const { id } = await db.hf.enqueue(receipt, { orderId: 1 }, later);
  const before = await bytes(id);
  const call = args(id) as unknown as Parameters<typeof db.hf.update>;
  await expect(db.hf.update(...call)).rejects.toMatchObject({
    code,
    message: expect.stringMatching(message),
  });
  expect(await bytes(id)).toEqual(before);
});

test.each([
  ['time', 'inbox', { delay: 0 }, later],
  ['key', 'ledger', { delay: 0 }, later],
])(
  'by %s, a worker that sleeps runs a job that is due earlier now',
  async (_, queue, change, at) => {
    const kind = job('moved', { queue });
    const { id } = await db.hf.enqueue(kind, {}, at);
    // A poll would find it long after the test has failed.
    start(db.hf, (w) => w.handle(kind, () => 'ran'), { poll: '10m' });
    await until('the worker sleeps', async () => {
      const rows = await db.rows(
        `SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock'
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND classid = 'holdfast.fleet'::regclass AND objid = 0`,
      );
      const idle = await db.rows(
        `SELECT FROM holdfast.queues WHERE name = '${queue}' AND maintained_at IS NOT NULL`,
      );
      return rows.length > 0 && idle.length > 0;
    });
    await db.hf.update(id, change, { job: kind });
    expect(await db.hf.wait(id, { queue, timeout: '30s' })).toMatchObject({ result: 'ran' });
  },
);
