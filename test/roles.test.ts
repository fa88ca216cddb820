/**
 * docs/roles.sql as it is: each role can do its work, and nothing beyond it.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { GiveUp, type Holdfast, holdfast, job, RetryLater, Snooze } from '../src/index.js';
import { engineExecutor } from '../src/postgres/queryable.js';
import { claimAs } from './support/claiming.js';
import { testDatabase } from './support/database.js';
import { asAdmin } from './support/empty-database.js';
import { quietLogger } from './support/logger.js';
import { until } from './support/until.js';
import { testWorkers } from './support/workers.js';

const db = testDatabase();
const start = testWorkers();
const sql = readFileSync(new URL('../docs/roles.sql', import.meta.url), 'utf8');
const tag = randomBytes(4).toString('hex');
const work = job<{ n?: number }>('work', { retry: () => 0 });
const DENIED = '42501';

interface Member {
  readonly user: string;
  readonly pool: pg.Pool;
  readonly hf: Holdfast;
}
const members: Record<'producer' | 'worker' | 'viewer', Member> = {} as never;

beforeAll(async () => {
  await db.rows(sql);
  await db.rows(sql);
  for (const role of ['producer', 'worker', 'viewer'] as const) {
    const user = `holdfast_test_${role}_${tag}`;
    await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret' IN ROLE holdfast_${role}`);
    const url = new URL(db.url);
    url.username = user;
    url.password = 'secret';
    const connectionString = url.toString();
    const pool = new pg.Pool({ connectionString, max: 4 });
    pool.on('error', () => undefined);
    members[role] = { user, pool, hf: holdfast({ connectionString, logger: quietLogger }) };
  }
});

afterAll(async () => {
  for (const { user, pool, hf } of Object.values(members)) {
    await hf.close();
    await pool.end();
    await db.rows(`DROP OWNED BY ${user}`);
    await asAdmin((client) => client.query(`DROP ROLE ${user}`));
  }
  // The roles belong to the server; they go when no other database has granted them anything.
  for (const role of ['producer', 'worker', 'viewer']) {
    await db.rows(`DROP OWNED BY holdfast_${role}`);
    await asAdmin((client) => client.query(`DROP ROLE holdfast_${role}`)).catch(() => undefined);
  }
});

beforeEach(async () => {
  for (const table of [
    'inbox',
    'inbox_claims',
    'inbox_archive',
    'inbox_idempotency',
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
  'inbox_effects',
  'inbox_claims',
  'fleet',
  'workers',
  'queues',
  'migrations',
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

describe('the producer', () => {
  const enqueue = (n: number, idempotencyKey?: string) =>
    members.producer.hf.enqueue(work, { n }, idempotencyKey ? { idempotencyKey } : {});

  test('enqueues, with and without keys, alone and in bulk, in a transaction of its own', async () => {
    const { hf, pool } = members.producer;
    await enqueue(1);
    const first = await enqueue(2, 'k');
    expect(await enqueue(2, 'k')).toEqual({ id: first.id, deduplicated: true });
    await hf.enqueueMany([3, 4].map((n) => work.of({ n }, { delay: '1h', headers: { a: 'b' } })));
    await hf.enqueueMany([5, 6].map((n) => work.of({ n }, { idempotencyKey: `bulk:${n}` })));
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

  test('enqueues by the SQL function', async () => {
    const call = `SELECT id, deduplicated FROM holdfast.inbox_enqueue('work', '{"n": 1}',
      key => 'order:1', idempotency_key => 'sql', headers => '{"a": "b"}')`;
    const first = (await members.producer.pool.query(call)).rows[0];
    expect((await members.producer.pool.query(call)).rows).toEqual([
      { id: first.id, deduplicated: true },
    ]);
  });

  test('is told of a key that stands for other work, alone and in bulk', async () => {
    await enqueue(1, 'k');
    const mismatch = { code: 'IDEMPOTENCY_MISMATCH' };
    await expect(enqueue(2, 'k')).rejects.toMatchObject(mismatch);
    const items = [3, 4].map((n) => work.of({ n }, { idempotencyKey: n === 3 ? 'new' : 'k' }));
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
    await db.rows('UPDATE holdfast.queues SET maintained_at = NULL');
    await db.rows(`INSERT INTO holdfast.workers (id, status, last_seen_at)
      VALUES ('long gone', 'dead', now() - interval '30 days')`);
    await db.rows(`INSERT INTO holdfast.inbox_effects (job_id, name, value, generation, created_at)
      VALUES (gen_random_uuid(), 'old', '{}', 1, now() - interval '30 days')`);
    const { worker, events } = start(
      hf,
      (w) =>
        w.handle(work, async (ctx) => {
          const { n } = ctx.payload;
          if (n === 1) seen.push(await ctx.once('effect', () => 'done'));
          if (n === 2) await ctx.transaction((tx) => tx.query('SELECT 1'));
          if (n === 3) await ctx.enqueue(work, { n: 1 }, { idempotencyKey: 'child' });
          if (n === 4 && ctx.attempt === 1) throw new RetryLater(0);
          if (n === 5) throw new GiveUp('no');
          if (n === 6) throw new Snooze('1h');
        }),
      { maintenance: '50ms', lease: '10s', renewEvery: '100ms', heartbeat: '50ms', ttl: '5s' },
    );
    await db.hf.enqueueMany([1, 2, 3, 4, 5, 6].map((n) => work.of({ n })));
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
    expect(await db.rows(`SELECT id FROM holdfast.workers WHERE id = 'long gone'`)).toEqual([]);
    expect(await db.rows(`SELECT name FROM holdfast.inbox_effects WHERE name = 'old'`)).toEqual([]);
  });

  test('recovers and prunes what others left', async () => {
    await db.hf.enqueue(work, { n: 0 }, { key: 'lost' });
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
    ]);
    await expect(members.worker.hf.createQueue('mine')).rejects.toMatchObject({ code: DENIED });
    await expect(members.worker.hf.pause()).rejects.toMatchObject({ code: DENIED });
  });
});

describe('the viewer', () => {
  test('reads everything', async () => {
    const { id } = await db.hf.enqueue(work, { n: 1 });
    for (const table of TABLES) await members.viewer.pool.query(`SELECT * FROM holdfast.${table}`);
    expect(await members.viewer.hf.find(id)).toMatchObject({ payload: '{"n": 1}' });
    expect(await members.viewer.hf.migrationStates()).toMatchObject([{ id: 1, known: true }]);
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
