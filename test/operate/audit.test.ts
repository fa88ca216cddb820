/** The audit: every act of a person leaves one row, in its own transaction, and none that did nothing. */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { prune, pruneAudit } from '../../packages/holdfast/src/maintenance/prune.js';
import type { Queryable } from '../../packages/holdfast/src/postgres/queryable.js';
import { dropQueue } from '../../packages/holdfast/src/schema/drop-queue.js';
import { clearAll, plantJob } from '../support/cli-plant.js';
import { INBOX, testDatabase } from '../support/database.js';
import { until } from '../support/until.js';

const db = testDatabase();
const work = job<{ n?: number; secret?: string }>('work');

beforeEach(async () => {
  await clearAll(db);
  await db.rows('TRUNCATE holdfast.audit');
});

const acts = async () => (await db.hf.audit()).acts;
const letters = async (count: number) =>
  (
    await db.rows<{ id: string }>(
      `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, status, available_at, last_error,
         parked)
       SELECT 'work', 'k' || n, 0, '{}', 'dead_letter', 'infinity', CASE n % 2 WHEN 1 THEN 'odd' ELSE 'even' END, true
       FROM generate_series(1, $1::int) AS n RETURNING id`,
      [count],
    )
  ).map(({ id }) => id);

test('who, when, what, how many and why', async () => {
  const ids = await letters(2);
  await db.hf.retry(ids, { reason: 'the mail server is back', actor: 'anna' });
  const [row] = await acts();
  const [me] = await db.rows('SELECT session_user::text AS role');
  expect(row).toMatchObject({
    ...{ act: 'retry', queue: 'inbox', jobs: 2, actor: 'anna', reason: 'the mail server is back' },
    ...{ role: me?.role, application: 'holdfast', changes: null },
  });
  expect(row?.filter?.ids).toEqual(expect.arrayContaining(ids));
  expect(Math.abs(Date.now() - (row?.at.getTime() ?? 0))).toBeLessThan(60_000);
});

test('an act over many jobs is one row with the count, however many batches it took', async () => {
  await letters(2_500);
  await db.hf.deadLetters.discard({ error: 'odd' }, { reason: 'never mind' });
  await db.hf.archive.replay({ status: 'discarded' }, { batch: 500 });
  expect(await acts()).toMatchObject([
    { act: 'replay', jobs: 1_250, filter: { status: 'discarded' } },
    { act: 'discard', jobs: 1_250, filter: { error: 'odd' }, reason: 'never mind' },
  ]);
});

test('what did nothing, and what says that it is not to be recorded, leaves no row', async () => {
  const { id } = await db.hf.enqueue(work, {});
  await db.hf.retry([id]);
  await db.hf.archive.replay([id]);
  await expect(db.hf.update(crypto.randomUUID(), { priority: 1 })).rejects.toThrow();
  await expect(db.hf.pause('nowhere')).rejects.toThrow();
  await db.hf.cancel([id], { audit: false });
  expect(await acts()).toEqual([]);
});

test('an act and its row are committed together or not at all', async () => {
  const { id } = await db.hf.enqueue(work, {});
  await db.rows(`ALTER TABLE holdfast.audit ADD CONSTRAINT no CHECK (reason <> 'no')`);
  const refused = { code: '23514' };
  await expect(db.hf.cancel([id], { reason: 'no' })).rejects.toMatchObject(refused);
  await expect(db.hf.update(id, { priority: 1 }, { reason: 'no' })).rejects.toMatchObject(refused);
  await expect(db.hf.pause('inbox', { reason: 'no' })).rejects.toMatchObject(refused);
  await expect(db.hf.createQueue('never', {}, { reason: 'no' })).rejects.toMatchObject(refused);
  await db.rows('ALTER TABLE holdfast.audit DROP CONSTRAINT no');
  expect(await db.hf.job(id)).toMatchObject({ status: 'pending', priority: 2 });
  expect((await db.hf.queues()).map(({ queue, paused }) => [queue, paused])).toEqual([
    ['inbox', false],
  ]);
});

test('queues: made, set from what to what, paused, dropped; and no payload of an update', async () => {
  const { id } = await db.hf.enqueue(work, {});
  await db.hf.update(id, { payload: { secret: 'canary-7f3a' }, priority: 1 });
  await db.hf.createQueue('outbox');
  await db.hf.configureQueue('outbox', { archiveRetention: '1d', notify: false });
  await db.hf.pause('outbox');
  await db.hf.dropQueue('outbox');
  const rows = await acts();
  expect(rows.map(({ act }) => act)).toEqual([
    ...['drop_queue', 'pause', 'set_queue', 'create_queue', 'update'],
  ]);
  expect(rows[2]?.changes).toEqual({
    archiveRetentionMs: { from: 604_800_000, to: 86_400_000 },
    notify: false,
  });
  expect(rows[4]).toMatchObject({ jobs: 1, changes: { payload: 'changed', priority: 1 } });
  expect(JSON.stringify(rows)).not.toContain('canary');
});

test('schedules: paused, resumed, run and deleted, once each, and in the transaction of the caller', async () => {
  await db.hf.schedule('nightly', { every: '1d', job: work, payload: {}, overlap: 'skip' });
  const { schedules } = db.hf;
  for (const verb of ['pause', 'resume', 'runNow'] as const) {
    await schedules[verb]('nightly', { reason: 'a try', actor: 'anna' });
    // It is so already, or a job of it is not over: nothing was done.
    await schedules[verb]('nightly');
  }
  await schedules.pause('nightly', { audit: false });
  const client = await db.pool.connect();
  try {
    await client.query('BEGIN');
    await schedules.delete('nightly', { tx: client });
    await client.query('ROLLBACK');
  } finally {
    client.release();
  }
  expect((await schedules.get('nightly')).paused).toBe(true);
  await schedules.delete('nightly');
  const words = { queue: 'inbox', changes: { schedule: 'nightly' } };
  const said = { ...words, reason: 'a try', actor: 'anna' };
  expect(await acts()).toMatchObject([
    { act: 'delete_schedule', ...words },
    ...['run_schedule', 'resume_schedule', 'pause_schedule'].map((act) => ({ act, ...said })),
  ]);
  await expect(schedules.pause('x', { reason: 1 as never })).rejects.toMatchObject({
    code: 'OPTION_INVALID',
  });
});

test('a queue that is paused already is not paused again', async () => {
  await db.hf.pause('inbox', { reason: 'first' });
  await db.hf.pause('inbox', { reason: 'second' });
  await db.hf.resume();
  await db.hf.resume();
  expect((await acts()).map(({ act, reason }) => [act, reason])).toEqual([
    ['resume', null],
    ['pause', 'first'],
  ]);
});

test('no act waits for a lock for ever', async () => {
  await db.rows(
    `ALTER TABLE holdfast.audit ADD COLUMN patience text DEFAULT current_setting('lock_timeout')`,
  );
  const { id } = await db.hf.enqueue(work, {});
  await db.hf.schedule('nightly', { every: '1d', job: work, payload: {} });
  await db.hf.update(id, { priority: 1 });
  await db.hf.cancel([id]);
  await db.hf.archive.replay([id]);
  await db.hf.configureQueue('inbox', { archiveRetention: '8d' });
  await db.hf.pause();
  await db.hf.resume();
  await db.hf.schedules.delete('nightly');
  const rows = await db.rows(
    'SELECT DISTINCT patience, count(*)::int AS n FROM holdfast.audit GROUP BY 1',
  );
  await db.rows('ALTER TABLE holdfast.audit DROP COLUMN patience');
  expect(rows).toEqual([{ patience: '10s', n: 7 }]);
});

test('pages and filters', async () => {
  for (const reason of ['a', 'b', 'c']) {
    await db.hf.resume('inbox', { audit: false });
    await db.hf.pause('inbox', { reason, actor: `u-${reason}` });
  }
  await db.hf.resume();
  const first = await db.hf.audit({ act: 'pause', limit: 2 });
  expect(first.acts.map(({ reason }) => reason)).toEqual(['c', 'b']);
  const rest = await db.hf.audit({ act: 'pause', limit: 2, after: first.next });
  expect(rest).toMatchObject({ acts: [{ reason: 'a' }], next: null });
  expect((await db.hf.audit({ who: 'U-B' })).acts).toHaveLength(1);
  expect((await db.hf.audit({ older: '1h' })).acts).toEqual([]);
  expect((await db.hf.audit({ newer: '1h', queue: ['inbox'] })).acts).toHaveLength(4);
  await expect(db.hf.audit({ act: 'paused' as never })).rejects.toThrow('Known: retry');
});

test('it is pruned by the retention of its queue, and needs no right to delete anything else', async () => {
  await db.rows(`INSERT INTO holdfast.audit (act, queue, at) VALUES
    ('pause', 'inbox', now() - interval '91 days'), ('pause', 'inbox', now() - interval '89 days'),
    ('pause', 'gone', now() - interval '91 days'), ('drain', NULL, now() - interval '1 day')`);
  expect(await prune(db.plain, INBOX, pruneAudit, 1)).toBe(1);
  expect(await prune(db.plain, INBOX, pruneAudit, 10)).toBe(1);
  await db.hf.configureQueue('inbox', { auditRetention: '2d' }, { audit: false });
  expect(await prune(db.plain, INBOX, pruneAudit, 10)).toBe(1);
  expect((await acts()).map(({ act }) => act)).toEqual(['drain']);
  await db.hf.configureQueue('inbox', { auditRetention: '90d' }, { audit: false });
});

describe('a queue that is dropped', () => {
  const everything = () =>
    db.rows(`SELECT c.relname AS name FROM pg_class AS c WHERE c.relnamespace = 'holdfast'::regnamespace
      UNION ALL SELECT p.proname FROM pg_proc AS p WHERE p.pronamespace = 'holdfast'::regnamespace
      UNION ALL SELECT q.name FROM holdfast.queues AS q ORDER BY 1`);

  test('leaves nothing behind, and says how much went with it', async () => {
    const before = await everything();
    await db.hf.createQueue('outbox', { ordering: 'key' });
    const send = job<object>('send', { queue: 'outbox' });
    const { id } = await db.hf.enqueue(send, {}, { idempotencyKey: 'k' });
    await db.hf.cancel([id], { queue: 'outbox' });
    expect(await db.hf.dropQueue('outbox')).toEqual({ archived: 1, keys: 1, markers: 0 });
    expect(await everything()).toEqual(before);
    await expect(db.hf.dropQueue('outbox')).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' });
  });

  test('is refused while it holds jobs in any state, or is served; inbox always', async () => {
    await db.hf.createQueue('outbox');
    const busy = (why: string) => ({ code: 'QUEUE_BUSY', message: expect.stringContaining(why) });
    await plantJob(db, { queue: 'outbox', status: 'dead_letter' });
    await expect(db.hf.dropQueue('outbox')).rejects.toMatchObject(busy('1 dead_letter'));
    await db.rows('DELETE FROM holdfast.outbox');
    await db.rows(
      `INSERT INTO holdfast.workers (id, handles) VALUES ('w1', '{"outbox": {"x": 1}}')`,
    );
    await expect(db.hf.dropQueue('outbox')).rejects.toMatchObject(busy('w1 serves it'));
    await expect(db.hf.dropQueue('inbox')).rejects.toMatchObject(busy('default queue'));
    const send = job<object>('send', { queue: 'outbox' });
    // Killed with its whole fleet: nobody is left to declare it dead.
    await db.rows(`UPDATE holdfast.workers SET last_seen_at = now() - interval '1 minute'`);
    await db.hf.schedule('nightly', { every: '1d', job: send, payload: {} });
    await expect(db.hf.dropQueue('outbox')).rejects.toMatchObject(busy('"nightly"'));
    await db.hf.schedules.delete('nightly');
    await db.hf.dropQueue('outbox');
  });

  test('leaves no limit behind that somebody sets meanwhile', async () => {
    await db.hf.createQueue('outbox');
    const waits = () =>
      db.rows(`SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE '%set_limit%'`);
    let refused: Promise<void> | null = null;
    const client = await db.pool.connect();
    await dropQueue(client, 'holdfast', 'outbox', async () => {
      const set = db.hf.limits.set({ queue: 'outbox', type: 'send' }, { concurrency: 1 });
      refused = expect(set).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' });
      await until('it waits for the end of the drop', async () => (await waits()).length === 1);
    }).finally(() => client.release());
    await refused;
    expect(await db.rows(`SELECT FROM holdfast.limits WHERE queue = 'outbox'`)).toEqual([]);
  });

  test('leaves no schedule behind that somebody makes meanwhile', async () => {
    await db.hf.createQueue('outbox');
    const send = job<object>('send', { queue: 'outbox' });
    const waits = () =>
      db.rows(`SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE '%jsonb_to_recordset%'`);
    let refused: Promise<void> | null = null;
    const client = await db.pool.connect();
    await dropQueue(client, 'holdfast', 'outbox', async () => {
      const made = db.hf.schedule('late', { every: '1d', job: send, payload: {} });
      refused = expect(made).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' });
      await until('it waits for the end of the drop', async () => (await waits()).length === 1);
    }).finally(() => client.release());
    await refused;
    expect(await db.rows(`SELECT FROM holdfast.schedules WHERE queue = 'outbox'`)).toEqual([]);
  });

  test('keeps nobody waiting while it counts what goes with it', async () => {
    await db.hf.createQueue('outbox');
    const said: string[] = [];
    const client = await db.pool.connect();
    const spy: Queryable = {
      query(text, params) {
        said.push(text);
        return client.query(text, params);
      },
    };
    await dropQueue(spy, 'holdfast', 'outbox').finally(() => client.release());
    const locked = said.findIndex((text) => text.includes('ACCESS EXCLUSIVE'));
    const counted = said.findLastIndex((text) => /count\(\*\) FROM \S*outbox_archive/.test(text));
    expect([counted >= 0, counted < locked]).toEqual([true, true]);
  });
});
