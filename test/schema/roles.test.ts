/**
 * docs/roles.sql as it is: each role can do its work, and nothing beyond it.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  type DeadJob,
  DeadLetter,
  job,
  RetryLater,
  Snooze,
} from '../../packages/holdfast/src/index.js';
import { drainWorker } from '../../packages/holdfast/src/operate/drain.js';
import { engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { MIGRATIONS } from '../../packages/holdfast/src/schema/migrations.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { age, archiveJobs, segments } from '../support/archive.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { call } from '../support/cli-run.js';
import { INBOX, testDatabase } from '../support/database.js';
import { testRoles } from '../support/roles.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const tag = randomBytes(4).toString('hex');
const work = job<{ n?: number }>('work', { retry: () => 0 });
const DENIED = '42501';

const { members, role } = testRoles(db);

/** The user gets what `beside` has, for one test. */
async function alsoAs(user: string, beside: 'declarer' | 'pruner'): Promise<void> {
  await db.rows(`GRANT ${role(beside)} TO ${user}`);
  onTestFinished(async () => void (await db.rows(`REVOKE ${role(beside)} FROM ${user}`)));
}

beforeEach(async () => {
  for (const table of [
    'inbox',
    'inbox_claims',
    'inbox_archive',
    'inbox_idempotency',
    'inbox_unique',
    'inbox_effects',
  ])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

async function denied(role: keyof typeof members, statements: readonly string[]): Promise<void> {
  for (const statement of statements) {
    const attempt = members[role].pool.query(statement);
    await expect(attempt, statement).rejects.toMatchObject({ code: DENIED });
  }
}

const TABLES = [
  'inbox',
  'inbox_archive',
  'inbox_idempotency',
  'inbox_unique',
  'inbox_effects',
  'inbox_claims',
  'fleet',
  'workers',
  'queues',
  'migrations',
  'functions',
  'audit',
  'schedules',
  'limits',
  'rates',
  'permits',
  'on_dead_letter',
];
const OWNERS_ONLY = [
  'CREATE TABLE holdfast.mine (id int)',
  'ALTER TABLE holdfast.inbox DROP COLUMN payload',
  'DROP TABLE holdfast.inbox',
  'TRUNCATE holdfast.inbox',
  `UPDATE holdfast.queues SET paused = true`,
  `INSERT INTO holdfast.queues (name) VALUES ('mine')`,
  `INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (99, 'x', 99)`,
];

/** It would read payloads, send other jobs than were meant, or say what nobody did. */
const NOT_A_PRODUCERS = [
  'SELECT payload FROM holdfast.schedules',
  'SELECT name FROM holdfast.schedules',
  `UPDATE holdfast.schedules SET payload = '{}'`,
  'DELETE FROM holdfast.schedules',
  'SELECT key FROM holdfast.inbox_idempotency',
  'UPDATE holdfast.inbox_idempotency SET job_id = gen_random_uuid()',
  'DELETE FROM holdfast.inbox_idempotency',
  `INSERT INTO holdfast.inbox_idempotency (key, job_id, fingerprint) VALUES ('k', gen_random_uuid(), '')`,
  `INSERT INTO holdfast.audit (act, reason) VALUES ('retry', 'made up')`,
  'SELECT id FROM holdfast.audit',
  `UPDATE holdfast.webhook_endpoints SET url = 'https://mine.example'`,
  `SELECT holdfast.inbox_verb_prune_archive_older(0, 1)`,
  `SELECT holdfast.inbox_verb_replay('{}', '{}', true, false)`,
];

describe('the producer', () => {
  test('is told that it may not read what a run has done', async () => {
    const { hf } = members.producer;
    const { id } = await hf.enqueue(work, {});
    await expect(hf.steps(id)).rejects.toMatchObject({ code: DENIED });
  });

  const enqueue = (n: number, idempotencyKey?: string) =>
    members.producer.hf.enqueue(work, { n }, idempotencyKey ? { idempotencyKey } : {});

  test('enqueues, with and without keys, alone and in bulk, in a transaction of its own', async () => {
    const { hf, pool } = members.producer;
    await enqueue(1);
    const first = await enqueue(2, 'k');
    expect(await enqueue(2, 'k')).toEqual({ id: first.id, deduplicated: true });
    await hf.enqueueMany([3, 4].map((n) => work.item({ n }, { delay: '1h', headers: { a: 'b' } })));
    await hf.enqueueMany([5, 6].map((n) => work.item({ n }, { idempotencyKey: `bulk:${n}` })));
    const client = await pool.connect();
    await client.query('BEGIN');
    await hf.enqueue(work, { n: 7 }, { tx: client });
    await client.query('COMMIT');
    client.release();
    await db.rows('DELETE FROM holdfast.inbox WHERE id = $1', [first.id]);
    await db.rows('UPDATE holdfast.inbox_idempotency SET expires_at = now()');
    expect((await enqueue(2, 'k')).deduplicated).toBe(false);
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toHaveLength(7);
  });

  test('enqueues under a unique key, and changes nothing by itself', async () => {
    const unique = { key: 'u', onConflict: 'replace' } as const;
    const first = await members.producer.hf.enqueue(work, { n: 1 }, { unique });
    expect(await members.producer.hf.enqueue(work, { n: 2 }, { unique })).toEqual({
      ...{ id: first.id, deduplicated: true, replaced: true },
    });
    const sql = `SELECT id FROM holdfast.inbox_enqueue('work', '{"n": 3}', unique_key => 'u')`;
    expect((await members.producer.pool.query(sql)).rows).toEqual([{ id: first.id }]);
    await denied('producer', [
      `UPDATE holdfast.inbox SET payload = '{}'`,
      'DELETE FROM holdfast.inbox_unique',
      'SELECT key FROM holdfast.inbox_unique',
    ]);
    await denied('viewer', [sql]);
  });

  test('enqueues by the SQL function', async () => {
    const call = `SELECT id, deduplicated FROM holdfast.inbox_enqueue('work', '{"n": 1}',
      partition_key => 'order:1', idempotency_key => 'sql', headers => '{"a": "b"}')`;
    const first = (await members.producer.pool.query(call)).rows[0];
    expect((await members.producer.pool.query(call)).rows).toEqual([
      { id: first.id, deduplicated: true },
    ]);
  });

  test('that declares makes schedules, and the worker writes their ticks', async () => {
    const { hf, user } = members.producer;
    const declares = () => hf.schedule('a', { every: '1h', job: work, payload: { n: 0 } });
    await expect(declares()).rejects.toMatchObject({ code: DENIED });
    await alsoAs(user, 'declarer');
    await hf.schedule('a', { every: '1h', job: work, payload: { n: 0 } });
    await expect(hf.schedules.runNow('a')).rejects.toMatchObject({ code: DENIED });
    await members.worker.hf.schedules.runNow('a');
    await db.rows(
      `UPDATE holdfast.schedules SET next_instant = date_trunc('hour', now()), next_at = now()`,
    );
    const { events } = start(members.worker.hf, (w) => w.handle(work, () => undefined));
    await until('it ticked', () => events.some(({ kind }) => kind === 'ticked'));
    await hf.schedules.delete('a');
    expect(events.filter(({ kind }) => kind === 'error')).toEqual([]);
  });

  test('sets no limit; the worker declares and keeps them, and the operator sets them', async () => {
    const limited = job<{ n: number }>('limited', {
      limit: { concurrency: 2, rate: { limit: 100, per: '1s', burst: 1, key: ({ n }) => `${n}` } },
    });
    const limit = { concurrency: 1, rate: { limit: 50, per: '1s' } } as const;
    await expect(members.producer.hf.limits.set({ type: 'limited' }, limit)).rejects.toMatchObject({
      code: DENIED,
    });
    const { worker, events } = start(members.worker.hf, (w) => w.handle(limited, () => undefined));
    await members.producer.hf.enqueueMany([1, 1, 1, 2].map((n) => limited.item({ n })));
    await until('they ran', () => worker.stats.completed === 4);
    await members.operator.hf.limits.set({ type: 'limited' }, limit);
    expect(await members.viewer.hf.limits.list()).toMatchObject([{ overridden: true }]);
    await members.operator.hf.limits.reset({ type: 'limited' });
    await members.operator.hf.limits.remove({ type: 'limited' });
    expect(events.filter(({ kind }) => kind === 'error')).toEqual([]);
  });

  test('is told of a key that stands for other work, alone and in bulk', async () => {
    await enqueue(1, 'k');
    const mismatch = { code: 'IDEMPOTENCY_MISMATCH' };
    await expect(enqueue(2, 'k')).rejects.toMatchObject(mismatch);
    const items = [3, 4].map((n) => work.item({ n }, { idempotencyKey: n === 3 ? 'new' : 'k' }));
    await expect(members.producer.hf.enqueueMany(items)).rejects.toMatchObject(mismatch);
    const tx = await members.producer.pool.connect();
    await tx.query('BEGIN');
    await expect(members.producer.hf.enqueueMany(items, { tx })).rejects.toMatchObject(mismatch);
    expect((await tx.query('COMMIT')).command).toBe('COMMIT');
    tx.release();
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toHaveLength(1);
    expect(await db.rows('SELECT key FROM holdfast.inbox_idempotency')).toEqual([{ key: 'k' }]);
  });

  test('sees no payload, and neither claims, changes nor removes a job', async () => {
    await db.hf.enqueue(work, { n: 1 });
    await denied('producer', [
      'SELECT payload FROM holdfast.inbox',
      'SELECT * FROM holdfast.inbox',
      'SELECT partition_key, last_error FROM holdfast.inbox',
      'SELECT id FROM holdfast.inbox FOR UPDATE',
      `UPDATE holdfast.inbox SET priority = 1`,
      'DELETE FROM holdfast.inbox',
      'SELECT payload FROM holdfast.inbox_archive',
      'SELECT value FROM holdfast.inbox_effects',
      'SELECT id FROM holdfast.workers',
      ...NOT_A_PRODUCERS,
      `SELECT setval('holdfast.inbox_position_seq', 1)`,
      ...OWNERS_ONLY,
    ]);
    const client = engineExecutor(members.producer.pool, { prepare: false });
    await expect(claimAs(client, 'thief', { types: ['work'] })).rejects.toMatchObject({
      code: DENIED,
    });
  });
});

describe('the worker', () => {
  test('runs jobs to every end, with effects, transactions and children, and keeps house', async () => {
    const { hf } = members.worker;
    const seen: unknown[] = [];
    await db.rows(`UPDATE holdfast.queues SET maintained_at = NULL, serviced_at = '{}'`);
    await db.rows(`INSERT INTO holdfast.workers (id, status, last_seen_at)
      VALUES ('long gone', 'dead', now() - interval '30 days')`);
    await db.rows(`INSERT INTO holdfast.inbox_effects (job_id, name, value, generation, created_at)
      VALUES (gen_random_uuid(), 'old', '{}', 1, now() - interval '30 days')`);
    const onDeadLetter = job<DeadJob>('told');
    const { worker, events } = start(
      hf,
      (w) =>
        w.handle(job<{ n?: number }>('work', { retry: () => 0, onDeadLetter }), async (ctx) => {
          const { n } = ctx.payload;
          if (n === 1) seen.push(await ctx.once('effect', () => 'done'));
          if (n === 2) await ctx.transaction((tx) => tx.query('SELECT 1'));
          if (n === 3) await ctx.enqueue(work, { n: 1 }, { idempotencyKey: 'child' });
          if (n === 4 && ctx.attempt === 1) throw new RetryLater(0);
          if (n === 5) throw new DeadLetter('no');
          if (n === 6) throw new Snooze('1h');
        }),
      { maintenance: '50ms', lease: '10s', renewEvery: '100ms', heartbeat: '50ms', ttl: '5s' },
    );
    await db.hf.enqueueMany([1, 2, 3, 4, 5, 6].map((n) => work.item({ n })));
    await until(
      'all are over',
      () => worker.stats.completed === 5 && worker.stats.dead_letter === 1,
    );
    await until('house was kept', () => events.some(({ kind }) => kind === 'maintained'));
    await until('heartbeats are sent', async () => {
      const [row] = await db.rows(
        'SELECT last_seen_at > started_at AS beats FROM holdfast.workers WHERE id = $1',
        [worker.id],
      );
      return row?.beats;
    });
    expect(worker.stats).toMatchObject({ snoozed: 1, lost: 0 });
    expect(events.filter(({ kind }) => kind === 'error')).toEqual([]);
    const told = `SELECT payload -> 'payload' AS of FROM holdfast.inbox WHERE type = 'told'`;
    expect(await db.rows(told)).toEqual([{ of: { n: 5 } }]);
    await db.rows('DELETE FROM holdfast.on_dead_letter');
    expect(await db.rows(`SELECT id FROM holdfast.workers WHERE id = 'long gone'`)).toEqual([]);
    expect(await db.rows(`SELECT name FROM holdfast.inbox_effects WHERE name = 'old'`)).toEqual([]);
  });

  test('begins and drops segments of the archive, which producers, viewers and operators may not', async () => {
    const { pool } = members.worker;
    await archiveJobs(db, 1);
    await age(db, '9 days');
    const last = async () => Math.max(...Object.keys(await segments(db)).map(Number));
    const before = await last();
    await pool.query('SELECT holdfast.inbox_prune_archive()');
    expect(await last()).toBe(before + 1);
    // Whoever may write into the archive writes into the new segment, and may still not make one.
    await members.worker.hf.enqueue(work, { n: 1 });
    const [job] = await claimAs(db.engine, 'w1', { types: ['work'] });
    await complete(engineExecutor(pool, { prepare: false }), INBOX, 'w1', [heldOf(job!)]);
    await age(db, '9 days');
    await pool.query('SELECT holdfast.inbox_prune_archive()');
    expect(await db.rows('SELECT id FROM holdfast.inbox_archive')).toEqual([{ id: job!.id }]);
    await denied('worker', [
      'DROP TABLE holdfast.inbox_archive',
      'TRUNCATE holdfast.inbox_archive',
    ]);
    for (const role of ['producer', 'viewer', 'operator'] as const)
      await denied(role, ['SELECT holdfast.inbox_prune_archive()']);
  });

  test('recovers and prunes what others left', async () => {
    await db.hf.enqueue(work, { n: 0 }, { partitionKey: 'lost' });
    await claimAs(db.engine, 'gone', { types: ['work'] });
    await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 s'`);
    await db.rows(`INSERT INTO holdfast.inbox_idempotency (key, job_id, fingerprint, expires_at)
      VALUES ('old', gen_random_uuid(), '', now())`);
    const other = job('other');
    const { events } = start(members.worker.hf, (w) => w.handle(other, () => undefined), {
      maintenance: '50ms',
    });
    await until('the job is pending', async () => {
      const [row] = await db.rows('SELECT status FROM holdfast.inbox');
      return row?.status === 'pending';
    });
    await until('the key is gone', async () => {
      return (await db.rows('SELECT key FROM holdfast.inbox_idempotency')).length === 0;
    });
    expect(events.filter(({ kind }) => kind === 'error')).toEqual([]);
  });

  test('cannot change the schema, the settings of a queue, or what is archived', async () => {
    await denied('worker', [
      ...OWNERS_ONLY,
      `UPDATE holdfast.queues SET archive_retention = '0'`,
      'DELETE FROM holdfast.queues',
      `UPDATE holdfast.inbox_archive SET status = 'cancelled'`,
      'DELETE FROM holdfast.migrations',
      `UPDATE holdfast.inbox_claims SET jobs = '{}'`,
      'DELETE FROM holdfast.audit',
      `INSERT INTO holdfast.audit (act, role) VALUES ('cancel', 'somebody else')`,
      `UPDATE holdfast.audit SET reason = 'better'`,
      `UPDATE holdfast.audit SET jobs = 0`,
    ]);
    const { id } = await db.hf.enqueue(work, { n: 1 });
    expect(await members.worker.hf.cancel([id], { reason: 'by the worker' })).toEqual([id]);
    const [act] = (await members.viewer.hf.audit({ act: 'cancel' })).acts;
    expect(act).toMatchObject({ role: members.worker.user, reason: 'by the worker' });
    await expect(members.worker.hf.createQueue('mine')).rejects.toMatchObject({ code: DENIED });
    await expect(members.worker.hf.pause()).rejects.toMatchObject({ code: DENIED });
  });
});

describe('the viewer', () => {
  test('reads everything', async () => {
    const { id } = await db.hf.enqueue(work, { n: 1 });
    for (const table of TABLES) await members.viewer.pool.query(`SELECT * FROM holdfast.${table}`);
    expect(await members.viewer.hf.job(id)).toMatchObject({ payload: { n: 1 } });
    expect(await members.viewer.hf.migrationStates()).toMatchObject(
      MIGRATIONS.map(({ id }) => ({ id, known: true })),
    );
  });

  test('writes nothing', async () => {
    const { id } = await db.hf.enqueue(work, { n: 1 });
    await denied('viewer', [
      ...TABLES.map((table) => `DELETE FROM holdfast.${table}`),
      ...TABLES.map((table) => `INSERT INTO holdfast.${table} DEFAULT VALUES`),
      `UPDATE holdfast.inbox SET priority = 1`,
      'SELECT id FROM holdfast.inbox FOR UPDATE',
      `SELECT nextval('holdfast.inbox_position_seq')`,
      `SELECT holdfast.inbox_enqueue('work', '{}')`,
      ...OWNERS_ONLY,
    ]);
    const { hf } = members.viewer;
    for (const attempt of [
      () => hf.enqueue(work, {}),
      () => hf.enqueue(work, {}, { idempotencyKey: 'k' }),
      () => hf.cancel([id]),
      () => hf.retry([id]),
      () => hf.discard([id]),
      () => hf.pause(),
    ]) {
      await expect(attempt()).rejects.toMatchObject({ code: DENIED });
    }
    const run = hf
      .worker({ handleSignals: false })
      .handle(work, () => undefined)
      .run();
    await expect(run).rejects.toMatchObject({ code: DENIED });
  });
});

describe('the operator', () => {
  test('retries, discards, cancels, updates, pauses, resumes, drains and enqueues', async () => {
    const { hf, pool } = members.operator;
    const [one, two, three] = await hf.enqueueMany([1, 2, 3].map((n) => work.item({ n })));
    const claimed = await claimAs(db.engine, 'w1', { types: ['work'], limit: 2 });
    const dead = claimed.map((row) => ({ ...heldOf(row), error: 'no', summary: 'no' }));
    await deadLetter(db.engine, INBOX, 'w1', dead);
    const ids = claimed.map(({ id }) => id);
    expect(await hf.retry([ids[0] as string])).toHaveLength(1);
    expect(await hf.discard([ids[1] as string])).toHaveLength(1);
    const waiting = [one, two, three]
      .map((job) => job?.id as string)
      .find((id) => !ids.includes(id));
    await hf.update(waiting as string, { payload: { n: 9 }, delay: '1h', priority: 1 });
    expect(await hf.cancel([waiting as string])).toHaveLength(1);
    await hf.pause();
    await hf.resume();
    await db.rows(`INSERT INTO holdfast.workers (id) VALUES ('to be drained')`);
    expect(
      await drainWorker(engineExecutor(pool, { prepare: false }), 'holdfast', 'to be drained'),
    ).toBe('alive');
    await db.rows(`DELETE FROM holdfast.workers WHERE id = 'to be drained'`);
    const left = await db.rows('SELECT status FROM holdfast.inbox_archive ORDER BY status');
    expect(left).toEqual([{ status: 'dead_letter' }, { status: 'cancelled' }]);
  });

  test('neither claims nor changes the schema, the settings of a queue or what is archived', async () => {
    await db.hf.enqueue(work, { n: 1 });
    await denied('operator', [
      ...OWNERS_ONLY.filter((text) => !text.includes('SET paused')),
      `UPDATE holdfast.queues SET archive_retention = '0'`,
      'DELETE FROM holdfast.queues',
      `UPDATE holdfast.inbox_archive SET status = 'cancelled'`,
      'DELETE FROM holdfast.inbox_archive',
      'SELECT holdfast.inbox_verb_prune_archive_older(0, 1)',
      'DELETE FROM holdfast.inbox_idempotency',
      `UPDATE holdfast.inbox SET lease_expires_at = now()`,
      `INSERT INTO holdfast.workers (id) VALUES ('x')`,
      'DELETE FROM holdfast.workers',
      `UPDATE holdfast.inbox_effects SET value = '{}'`,
      `UPDATE holdfast.audit SET jobs = 0`,
      'SELECT holdfast.prune_audit(1)',
    ]);
    const { hf, pool } = members.operator;
    const engine = engineExecutor(pool, { prepare: false });
    const refused = { code: DENIED };
    await expect(claimAs(engine, 'thief', { types: ['work'] })).rejects.toMatchObject(refused);
    await expect(hf.createQueue('mine')).rejects.toMatchObject(refused);
    await expect(hf.configureQueue('inbox', { archiveRetention: '1d' })).rejects.toMatchObject(
      refused,
    );
  });
});

describe('the pruner', () => {
  test('deletes from the archive for good, which an operator may not by itself', async () => {
    const { url, user } = members.operator;
    await archiveJobs(db, 2);
    await db.rows(`UPDATE holdfast.inbox_archive SET completed_at = now() - interval '2 days'`);
    const prune = () => call(['archive', 'prune', '--older', '1d', '--yes', '--url', url]);
    const refused = await prune();
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.err).toContain(`GRANT holdfast_pruner TO ${user};`);
    expect(await db.rows('SELECT id FROM holdfast.inbox_archive')).toHaveLength(2);
    await alsoAs(user, 'pruner');
    expect(await prune()).toMatchObject({ code: 0, out: expect.stringContaining('2 pruned') });
    expect(await db.rows('SELECT id FROM holdfast.inbox_archive')).toEqual([]);
  });
});

describe('the audit', () => {
  test('counts on for whoever acts, in the rows of nobody else, and only upwards', async () => {
    const ids = (await db.hf.enqueueMany([1, 2, 3].map((n) => work.item({ n })))).map(
      ({ id }) => id,
    );
    await db.rows('TRUNCATE holdfast.audit');
    await db.hf.cancel(ids, { reason: 'the owner' });
    await members.operator.hf.archive.replay('all', { batch: 1, reason: 'in batches' });
    const rows = await db.rows<{ id: string; jobs: string; reason: string }>(
      'SELECT id, jobs, reason FROM holdfast.audit ORDER BY reason',
    );
    expect(rows).toMatchObject([
      { reason: 'in batches', jobs: '3' },
      { reason: 'the owner', jobs: '3' },
    ]);
    const count = (n: number, more: number) =>
      members.operator.pool.query('SELECT holdfast.count_act($1, $2) AS counted', [
        rows[n]?.id,
        more,
      ]);
    expect((await count(1, 5)).rows).toEqual([{ counted: false }]);
    expect((await count(0, -2)).rows).toEqual([{ counted: false }]);
    for (const role of ['viewer', 'producer'] as const)
      await denied(role, [
        `SELECT holdfast.count_act('${rows[0]?.id}', 1)`,
        'SELECT holdfast.prune_audit(1)',
      ]);
  });

  test('has the acts of a producer that declares on its schedules', async () => {
    const { hf, user } = members.producer;
    await alsoAs(user, 'declarer');
    await hf.schedule('nightly', { every: '1d', job: work, payload: {} });
    await hf.schedules.pause('nightly', { reason: 'a holiday' });
    const [act] = (await members.viewer.hf.audit({ act: 'pause_schedule' })).acts;
    expect(act).toMatchObject({ role: user, reason: 'a holiday' });
    await hf.schedules.delete('nightly');
  });
});

test('a user without any of the roles cannot even look', async () => {
  const user = `holdfast_test_nobody_${tag}`;
  await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
  const url = new URL(db.url);
  url.username = user;
  url.password = 'secret';
  const client = new pg.Client({ connectionString: url.toString() });
  await client.connect();
  for (const text of ['SELECT id FROM holdfast.inbox', `SELECT holdfast.inbox_enqueue('x', '{}')`])
    await expect(client.query(text)).rejects.toMatchObject({ code: DENIED });
  await client.end();
  await db.rows(`DROP ROLE ${user}`);
});
