/** Pausing one type or one key of a queue: the rest goes on, and everybody who looks is told. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { job, type PauseOptions } from '../../packages/holdfast/src/index.js';
import { findUnhandled } from '../../packages/holdfast/src/inspect/fleet/unhandled.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { MAX_PAUSED } from '../../packages/holdfast/src/operate/queue.js';
import { claimByTime, claimSuspected, numbers } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { claimInOrder } from '../support/ordered.js';
import { claimInTurns } from '../support/turns.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const [step, other] = [job<{ n: number }>('step'), job<{ n: number }>('other')];
const keyed = { schema: 'holdfast', queue: 'lines' } as const;
const [inLine, otherInLine] = ['step', 'other'].map((type) =>
  job<{ n: number }>(type, { queue: 'lines' }),
) as [typeof step, typeof step];
const versions = { step: 1, other: 1 };

beforeAll(() => db.hf.createQueue('lines', { ordering: 'key' }));
beforeEach(async () => {
  for (const table of ['inbox', 'lines', 'inbox_claims', 'lines_claims', 'workers', 'audit'])
    await db.rows(`DELETE FROM holdfast.${table}`);
  await db.rows(
    'UPDATE holdfast.queues SET paused = false, paused_types = NULL, paused_keys = NULL',
  );
});

const taken = async () => numbers(await claimByTime(db.engine, 'w', { versions }));
const walked = async () =>
  numbers(await claimInOrder(db.engine, 'w', { names: keyed, versions })).sort();
const listsOf = async (queue = 'inbox') =>
  (
    await db.rows('SELECT paused_types, paused_keys FROM holdfast.queues WHERE name = $1', [queue])
  )[0];

describe('by time', () => {
  test('a paused type is left, the others are claimed, and it comes in its order when resumed', async () => {
    for (const n of [1, 3]) await db.hf.enqueue(step, { n });
    await db.hf.enqueue(other, { n: 2 });
    await db.hf.pause('inbox', { type: 'step' });
    expect(await taken()).toEqual([2]);
    await db.hf.enqueue(step, { n: 4 });
    expect(await taken()).toEqual([]);
    await db.hf.resume('inbox', { type: 'step' });
    expect(await taken()).toEqual([1, 3, 4]);
    expect(await listsOf()).toEqual({ paused_types: null, paused_keys: null });
  });

  test('a paused key is left, of whatever type', async () => {
    await db.hf.enqueue(step, { n: 1 }, { partitionKey: 'tenant:1' });
    await db.hf.enqueue(other, { n: 2 }, { partitionKey: 'tenant:1' });
    await db.hf.enqueue(step, { n: 3 }, { partitionKey: 'tenant:2' });
    await db.hf.pause('inbox', { key: 'tenant:1' });
    expect(await taken()).toEqual([3]);
    await db.hf.resume('inbox', { key: 'tenant:1' });
    expect(await taken()).toEqual([1, 2]);
  });

  test('several at once; the queue and its parts are paused apart from each other', async () => {
    await db.hf.enqueue(step, { n: 1 });
    await db.hf.enqueue(other, { n: 2 });
    for (const type of ['step', 'other', 'step']) await db.hf.pause('inbox', { type });
    await db.hf.pause('inbox', { key: 'k' });
    expect(await listsOf()).toEqual({ paused_types: ['other', 'step'], paused_keys: ['k'] });
    await db.hf.pause();
    await db.hf.resume('inbox', { type: 'other' });
    expect(await taken()).toEqual([]);
    await db.hf.resume();
    expect(await taken()).toEqual([2]);
  });

  test('a lease that runs out is not taken over, recovery brings it back, and a suspect waits too', async () => {
    const { id } = await db.hf.enqueue(step, { n: 1 });
    expect(await taken()).toEqual([1]);
    await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 s'`);
    await db.hf.pause('inbox', { type: 'step' });
    expect(await taken()).toEqual([]);
    await recover(db.engine, INBOX, { limit: 10, recoverer: 'w' });
    expect(await db.hf.job(id)).toMatchObject({ status: 'pending' });
    await db.rows('UPDATE holdfast.inbox SET crashes = 2');
    const suspects = async () => numbers(await claimSuspected(db.engine, 'w', { versions }));
    expect(await suspects()).toEqual([]);
    await db.hf.resume('inbox', { type: 'step' });
    expect(await suspects()).toEqual([1]);
  });
});

describe('by key', () => {
  test('a paused key holds its order and no other', async () => {
    for (const n of [1, 2]) await db.hf.enqueue(inLine, { n }, { partitionKey: 'a' });
    await db.hf.enqueue(inLine, { n: 3 }, { partitionKey: 'b' });
    await db.hf.pause('lines', { key: 'a' });
    expect(await walked()).toEqual([3]);
    await db.hf.resume('lines', { key: 'a' });
    expect(await walked()).toEqual([1, 2]);
  });

  test('a job of a paused type holds back what stands behind it in its key', async () => {
    await db.hf.enqueue(otherInLine, { n: 1 }, { partitionKey: 'a' });
    await db.hf.enqueue(inLine, { n: 2 }, { partitionKey: 'a' });
    await db.hf.enqueue(otherInLine, { n: 3 }, { partitionKey: 'a' });
    await db.hf.enqueue(inLine, { n: 4 }, { partitionKey: 'b' });
    await db.hf.pause('lines', { type: 'step' });
    // The run of the key ends before the paused one.
    expect(await walked()).toEqual([1]);
    await db.rows(`DELETE FROM holdfast.lines WHERE status = 'processing'`);
    expect(await walked()).toEqual([]);
    await db.hf.resume('lines', { type: 'step' });
    expect(await walked()).toEqual([2, 3, 4]);
  });
});

describe('by turns', () => {
  const names = { schema: 'holdfast', queue: 'shared' } as const;
  const [mine, others] = ['step', 'other'].map((type) =>
    job<{ n: number }>(type, { queue: 'shared' }),
  ) as [typeof step, typeof step];
  const taken = async (limit = 10) =>
    numbers(await claimInTurns(db.engine, 'w', { names, versions, limit }));

  beforeAll(() => db.hf.createQueue('shared', { fair: true, perKey: 5, perGroup: 5 }));
  beforeEach(async () => {
    for (const table of ['shared', 'shared_claims']) await db.rows(`DELETE FROM holdfast.${table}`);
  });

  test('a paused key is passed over, and holds up neither its group nor the others', async () => {
    const enqueue = (n: number, partitionKey: string, group?: string) =>
      db.hf.enqueue(mine, { n }, { partitionKey, ...(group !== undefined && { group }) });
    for (const n of [1, 2]) await enqueue(n, 'a', 'g');
    await enqueue(3, 'b', 'g');
    await enqueue(4, 'c');
    await db.hf.pause('shared', { key: 'a' });
    expect((await taken()).sort()).toEqual([3, 4]);
    expect(await taken()).toEqual([]);
    await db.hf.resume('shared', { key: 'a' });
    expect([...(await taken()), ...(await taken())]).toEqual([1, 2]);
  });

  test('jobs of a paused type are passed over, also by those behind them in their key', async () => {
    await db.hf.enqueue(mine, { n: 1 }, { partitionKey: 'a' });
    await db.hf.enqueue(others, { n: 2 }, { partitionKey: 'a' });
    await db.hf.enqueue(mine, { n: 3 }, { partitionKey: 'b' });
    await db.hf.pause('shared', { type: 'step' });
    expect(await taken()).toEqual([2]);
    await db.hf.resume('shared', { type: 'step' });
    expect((await taken()).sort()).toEqual([1, 3]);
  });

  test('a suspect of a paused key waits', async () => {
    await db.hf.enqueue(mine, { n: 1 }, { partitionKey: 'a' });
    await db.rows('UPDATE holdfast.shared SET crashes = 2');
    await db.hf.pause('shared', { key: 'a' });
    const suspects = async () => numbers(await claimSuspected(db.engine, 'w', { names, versions }));
    expect(await suspects()).toEqual([]);
    await db.hf.resume('shared', { key: 'a' });
    expect(await suspects()).toEqual([1]);
  });

  test('a worker runs the rest, and the paused key as soon as it is resumed', async () => {
    await db.hf.pause('shared', { key: 'a' });
    const ran: number[] = [];
    start(db.hf, (worker) => worker.handle(mine, ({ payload }) => void ran.push(payload.n)));
    await db.hf.enqueue(mine, { n: 1 }, { partitionKey: 'a' });
    const { id } = await db.hf.enqueue(mine, { n: 2 }, { partitionKey: 'b' });
    await db.hf.wait(id, { queue: 'shared' });
    expect(ran).toEqual([2]);
    await db.hf.resume('shared', { key: 'a' });
    await until('the key runs again', () => ran.includes(1));
  });
});

test('a worker runs the rest, and the paused type as soon as it is resumed', async () => {
  await db.hf.pause('inbox', { type: 'step' });
  const ran: string[] = [];
  start(db.hf, (worker) =>
    worker
      .handle(step, ({ payload }) => void ran.push(`step ${payload.n}`))
      .handle(other, ({ payload }) => void ran.push(`other ${payload.n}`)),
  );
  await db.hf.enqueue(step, { n: 1 });
  const { id } = await db.hf.enqueue(other, { n: 2 });
  await db.hf.wait(id);
  expect(ran).toEqual(['other 2']);
  await db.hf.resume('inbox', { type: 'step' });
  await until('the type runs again', () => ran.includes('step 1'));
});

describe('whoever looks is told', () => {
  test('explain', async () => {
    await db.rows(
      `INSERT INTO holdfast.workers (id, handles) VALUES ('w', '{"inbox": {"step": 1, "other": 1}}')`,
    );
    const { id } = await db.hf.enqueue(step, { n: 1 }, { partitionKey: "it's" });
    await db.hf.pause('inbox', { key: "it's" });
    expect(await db.hf.explain(id)).toMatchObject({
      code: 'key_paused',
      fix: `holdfast queues resume inbox --partition-key 'it'\\''s'`,
    });
    await db.hf.pause('inbox', { type: 'step' });
    expect(await db.hf.explain(id)).toMatchObject({
      code: 'type_paused',
      fix: 'holdfast queues resume inbox --type step',
      also: [],
    });
    // What is paused does not count as standing before another job.
    const behind = await db.hf.enqueue(other, { n: 2 });
    expect((await db.hf.explain(behind.id)).text).toContain('it is the next.');
  });

  test('queues, doctor and the audit', async () => {
    await db.hf.pause('inbox', { type: 'step', reason: 'mail is down' });
    await db.hf.pause('inbox', { key: 'tenant:1' });
    const [inbox] = await db.hf.queues();
    expect(inbox).toMatchObject({
      ...{ paused: false, pausedTypes: ['step'], pausedKeys: ['tenant:1'] },
    });
    const findings = await db.hf.doctor();
    expect(findings.find(({ check }) => check === 'paused')).toMatchObject({
      level: 'note',
      text: expect.stringMatching(
        /^Of the queue "inbox" the type step by .*; the key tenant:1 by .* are paused, with \d+ jobs? waiting\.$/,
      ),
      fix: 'holdfast queues resume inbox --type step\nholdfast queues resume inbox --partition-key tenant:1',
    });
    const { acts } = await db.hf.audit();
    expect(acts.map(({ act, filter, reason }) => [act, filter, reason])).toEqual([
      ['pause', { key: 'tenant:1' }, null],
      ['pause', { type: 'step' }, 'mail is down'],
    ]);
    // Setting something else does not speak of what is paused.
    await db.hf.configureQueue('inbox', { auditRetention: '91d' });
    const [set] = (await db.hf.audit()).acts;
    expect(Object.keys(set?.changes as object)).toEqual(['auditRetentionMs']);
    await db.hf.configureQueue('inbox', { auditRetention: '90d' });
  });

  test.each([false, true])(
    'and nobody says that no worker handles it (by key: %s)',
    async (byKey) => {
      const names = byKey ? keyed : INBOX;
      const items = [
        (byKey ? inLine : step).item({ n: 1 }, { partitionKey: 'a' }),
        (byKey ? otherInLine : other).item({ n: 2 }, { partitionKey: 'b' }),
      ];
      await db.hf.enqueueMany(items);
      const unhandled = async () =>
        (await findUnhandled(db.engine, names, { keyed: byKey, graceMs: 0 })).map(
          ({ type }) => type,
        );
      expect((await unhandled()).sort()).toEqual(['other', 'step']);
      await db.hf.pause(names.queue, { type: 'step' });
      expect(await unhandled()).toEqual(['other']);
      await db.hf.pause(names.queue, { key: 'b' });
      expect(await unhandled()).toEqual([]);
      await db.hf.resume(names.queue, { type: 'step' });
      await db.hf.resume(names.queue, { key: 'b' });
      await db.hf.pause(names.queue);
      expect(await unhandled()).toEqual([]);
      await db.hf.resume(names.queue);
    },
  );
});

describe('is refused', () => {
  const wrong: [PauseOptions, string][] = [
    [{ type: 'step', key: 'a' } as never, 'OPTION_INVALID'],
    [{ type: '' }, 'TYPE_INVALID'],
    [{ type: '1st' }, 'TYPE_INVALID'],
    [{ type: 7 as never }, 'TYPE_INVALID'],
    [{ key: '' }, 'KEY_INVALID'],
    [{ key: 'x'.repeat(513) }, 'KEY_INVALID'],
    [{ key: null as never }, 'KEY_INVALID'],
    [{ types: ['step'] } as never, 'OPTION_INVALID'],
    [{ type: 'step', reason: 7 as never }, 'OPTION_INVALID'],
  ];
  test.each(wrong)('%j', async (options, code) => {
    for (const verb of ['pause', 'resume'] as const) {
      const call = db.hf[verb]('inbox', options);
      await expect(call).rejects.toMatchObject({
        code,
        message: expect.stringMatching(/othing was done/),
      });
    }
    expect(await listsOf()).toEqual({ paused_types: null, paused_keys: null });
  });

  test(`more than ${MAX_PAUSED} of a queue, and a queue that is not there`, async () => {
    await db.rows(
      `UPDATE holdfast.queues SET paused_types = ARRAY(SELECT 't' || n FROM generate_series(1, $1::int) AS n)`,
      [MAX_PAUSED],
    );
    const call = db.hf.pause('inbox', { type: 'one_more' });
    await expect(call).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/100 types/),
    });
    await db.hf.pause('inbox', { type: 't7' });
    await db.hf.resume('inbox', { type: 't7' });
    await db.hf.pause('inbox', { type: 'one_more' });
    const nowhere = db.hf.pause('nowhere', { type: 'step' });
    await expect(nowhere).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' });
  });
});
