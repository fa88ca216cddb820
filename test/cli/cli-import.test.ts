/**
 * `holdfast import` from tables as pg-boss and graphile-worker make them (test/support/import; the packages themselves
 * are in `npm run test:import`): what is broken there, what runs beside it, and what cuts it short.
 */
import { readFileSync } from 'node:fs';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { call, run, start } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { emptyDatabases, onDatabase } from '../support/empty-database.js';
import { until } from '../support/until.js';

const db = testDatabase();
const empty = emptyDatabases();
const schemaOf = (name: string) =>
  readFileSync(new URL(`../support/import/${name}.sql`, import.meta.url), 'utf8');
const cli = (source: string, ...args: string[]) =>
  call(['import', source, '--url', db.url, ...args]);
const count = async (table: string) =>
  (await db.rows<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`))[0]?.n;

const QUEUE = `
  INSERT INTO pgboss.queue (name, policy, retry_limit, retry_delay, retry_backoff, expire_seconds, retention_seconds,
    deletion_seconds, partition, table_name)
  SELECT name, 'standard', 2, 0, false, 900, 1209600, 604800, false, 'job_common' FROM unnest($1::text[]) AS n(name)
  ON CONFLICT DO NOTHING`;
const PLANT = `INSERT INTO pgboss.job (name, data, policy)
  SELECT 'a', jsonb_build_object('n', n), 'standard' FROM generate_series(1, $1::integer) AS n`;

beforeAll(async () => {
  await db.rows(schemaOf('pg-boss'));
  await db.rows(schemaOf('graphile-worker'));
  await db.hf.createQueue('orders', { ordering: 'key' });
});
beforeEach(async () => {
  await db.rows(`TRUNCATE pgboss.job, pgboss.schedule, graphile_worker._private_jobs, graphile_worker._private_tasks,
    holdfast.inbox, holdfast.inbox_idempotency, holdfast.inbox_unique, holdfast.orders, holdfast.orders_idempotency,
    holdfast.orders_unique, holdfast.schedules`);
  await db.rows(QUEUE, [['a', 'b/c', 'long', 'fifo', 'short']]);
});

interface Planted {
  readonly name?: string;
  readonly data?: string;
  readonly policy?: string;
  readonly [column: string]: unknown;
}

async function plant(job: Planted): Promise<void> {
  const all = { name: 'a', data: '{}', policy: 'standard', ...job };
  const columns = Object.keys(all);
  await db.rows(
    `INSERT INTO pgboss.job (${columns.join(', ')}) VALUES (${columns.map((_, n) => `$${n + 1}`).join(', ')})`,
    Object.values(all),
  );
}

describe('pg-boss', () => {
  test('a broken job stays with its reason, and holds up no other', async () => {
    await plant({ data: '{"n": 1}' });
    await plant({ name: 'b/c' });
    await plant({ name: 'long', data: JSON.stringify('x'.repeat(2 ** 20)) });
    await plant({ data: '{"__proto__": 1}' });
    await plant({ start_after: 'infinity' });
    await plant({ singleton_key: 'k'.repeat(600) });
    await plant({ keep_until: '2001-01-01' });
    await plant({ blocked: true });
    await plant({ data: '12345678901234567890.123' });
    const said = await cli('pg-boss', '--yes');
    expect(said.code).toBe(0);
    expect(said.out).toMatch(/b\/c +created +1 +- +its type is no usable name/);
    expect(said.out).toMatch(/long +created +1 +- +its payload is larger than 1048576 bytes/);
    expect(said.out).toMatch(/a +created +1 +- +its payload cannot be stored/);
    expect(said.out).toMatch(/a +created +1 +- +it is never due/);
    expect(said.out).toMatch(/a +created +1 +- +its unique key is unusable/);
    expect(said.out).toMatch(/a +created +1 +- +pg-boss deletes it unrun/);
    expect(said.out).toMatch(/a +created +1 +- +waits for other jobs of a flow/);
    expect(said.err).toContain('2 jobs and 0 schedules moved; 7 jobs left there');
    const rows = await db.rows('SELECT payload::text FROM holdfast.inbox ORDER BY position');
    expect(rows).toEqual([{ payload: '{"n": 1}' }, { payload: '12345678901234567890.123' }]);
    const again = await cli('pg-boss', '--yes', '--map', 'b/c=b_c');
    expect(again.err).toContain('1 job and 0 schedules moved; 6 jobs left there');
  });

  test('keys: one at a time becomes the partition key, once becomes a key of ours, none gets lost', async () => {
    const order = { created_on: '2026-01-01T00:00:01Z' };
    await plant({
      name: 'fifo',
      policy: 'key_strict_fifo',
      singleton_key: 'o1',
      data: '2',
      created_on: '2026-01-01T00:00:02Z',
    });
    await plant({
      name: 'fifo',
      policy: 'key_strict_fifo',
      singleton_key: 'o1',
      data: '1',
      ...order,
    });
    await plant({ group_id: 'tenant:7', data: '3' });
    await plant({ singleton_key: 'receipt', data: '4', ...order });
    await plant({ singleton_key: 'receipt', data: '5' });
    await plant({ name: 'short', policy: 'short', singleton_key: 's', data: '6' });
    expect((await cli('pg-boss', '--yes', '--queue', 'orders', '--batch', '1')).code).toBe(0);
    const jobs = await db.rows<{ payload: number }>(`
      SELECT payload, partition_key, idempotency_key FROM holdfast.orders ORDER BY position`);
    const of = (payload: number) => jobs.find((job) => job.payload === payload);
    expect(jobs).toHaveLength(6);
    expect(jobs.filter(({ payload }) => payload < 3).map(({ payload }) => payload)).toEqual([1, 2]);
    expect(of(1)).toMatchObject({ partition_key: 'o1', idempotency_key: null });
    expect(of(3)).toMatchObject({ partition_key: 'tenant:7' });
    expect(of(4)).toMatchObject({ idempotency_key: 'receipt' });
    expect(of(5)).toMatchObject({ idempotency_key: null });
    expect(await db.rows('SELECT type, key FROM holdfast.orders_unique')).toEqual([
      { type: 'short', key: 's' },
    ]);
  });

  test('a job that failed there does not stand for the one that waits under its key', async () => {
    const one = { policy: 'exclusive', singleton_key: 'k' };
    await plant({ ...one, state: 'failed', created_on: '2026-01-01T00:00:00Z' });
    await plant(one);
    expect((await cli('pg-boss', '--yes', '--failed')).err).toContain(
      '2 jobs and 0 schedules moved',
    );
    const rows = await db.rows('SELECT status FROM holdfast.inbox ORDER BY status');
    expect(rows).toEqual([{ status: 'pending' }, { status: 'dead_letter' }]);
  });

  test('--key makes the partition key of the payload, and says what a queue by time does with it', async () => {
    await plant({ data: '{"orderId": 7, "of": {"tenant": "t"}}' });
    await plant({ data: '{"orderId": 8}' });
    const said = await cli('pg-boss', '--yes', '--key', 'order:{of.tenant}:{orderId}');
    expect(said.err).toContain('1 job: this queue is read by time');
    const keys = await db.rows(
      'SELECT partition_key FROM holdfast.inbox WHERE partition_key <> id::text',
    );
    expect(keys).toEqual([{ partition_key: 'order:t:7' }]);
  });

  test('a schedule that cannot be meant stays, and one of ours is not overwritten', async () => {
    const schedule =
      'INSERT INTO pgboss.schedule (name, key, kind, cron, timezone) VALUES ($1, $2, $3, $4, $5)';
    await db.rows(schedule, ['a', '', 'cron', '0 3 * * *', 'UTC']);
    await db.rows(schedule, ['a', 'k', 'cron', '99 3 * * *', 'UTC']);
    await db.rows(schedule, ['a', 'z', 'cron', '0 3 * * *', 'Mars/Phobos']);
    await db.rows(schedule, ['a', 'r', 'rrule', 'FREQ=DAILY', 'UTC']);
    await db.rows(schedule, ['short', '', 'cron', '0 3 * * *', 'UTC']);
    await db.rows(`INSERT INTO holdfast.schedules (name, queue, type, cron, payload, declared_by, next_instant, next_at)
      VALUES ('short', 'inbox', 'short', '0 4 * * *', '{}', 'app', now(), now())`);
    const said = await cli('pg-boss', '--yes');
    expect(said.err).toContain('1 schedule moved');
    expect(said.out).toMatch(/a +schedule +1 +- .*99 3/);
    expect(said.out).toMatch(/a +schedule +1 +- .*Mars/);
    expect(said.out).toMatch(/a +schedule +1 +- +is an RRULE/);
    expect(said.out).toMatch(/short +schedule +1 +- .*declared in code/);
    expect(await count('pgboss.schedule')).toBe(4);
  });

  test('what a worker holds is left to it, and what another import runs is refused', async () => {
    await db.rows(PLANT, [3]);
    const client = await db.pool.connect();
    await client.query(`BEGIN; SELECT FROM pgboss.job WHERE data ->> 'n' = '2' FOR UPDATE`);
    expect((await cli('pg-boss', '--yes')).err).toContain('2 jobs and 0 schedules moved');
    await client.query(
      `ROLLBACK; BEGIN; SELECT pg_advisory_xact_lock(hashtext('holdfast.import'), hashtext('holdfast'))`,
    );
    expect(await cli('pg-boss', '--yes')).toMatchObject({
      code: 1,
      err: expect.stringContaining('Another import into schema "holdfast" is running'),
    });
    await client.query('ROLLBACK');
    client.release();
    expect((await cli('pg-boss', '--yes')).err).toContain('1 job and 0 schedules moved');
    expect(await count('holdfast.inbox')).toBe(3);
  });

  test.each(['SIGINT', 'SIGKILL'] as const)(
    '%s in the middle: the same command goes on, and nothing is doubled',
    async (signal) => {
      const all = 2_000;
      await db.rows(PLANT, [all]);
      const args = ['import', 'pg-boss', '--url', db.url, '--yes', '--batch', '20'];
      const first = start(args);
      await until('some jobs are here', async () => (await count('holdfast.inbox')) !== 0);
      first.child.kill(signal);
      const ended = await first.ended;
      if (signal === 'SIGINT')
        expect(ended).toMatchObject({ code: 130, err: expect.stringContaining('Interrupted') });
      await until('its sessions are gone', async () => {
        const sessions = `pg_stat_activity
          WHERE application_name = 'holdfast cli' AND datname = current_database()`;
        return (await count(sessions)) === 0;
      });
      const there = (await count('pgboss.job')) as number;
      expect(there).toBeGreaterThan(0);
      expect(((await count('holdfast.inbox')) as number) + there).toBe(all);
      expect((await run(args)).code).toBe(0);
      expect(await count('holdfast.inbox')).toBe(all);
      expect(await count(`(SELECT DISTINCT payload FROM holdfast.inbox) AS p`)).toBe(all);
    },
  );

  test('another database: written here and then taken out there; a crash in between doubles nothing', async () => {
    const from = await empty();
    const there = <Row>(text: string, params: unknown[] = []) =>
      onDatabase(from, async (client) => (await client.query(text, params)).rows as Row[]);
    await there(schemaOf('pg-boss'));
    await there(QUEUE, [['a']]);
    await there(PLANT, [10]);
    // The deletes are lost, as when the command dies after the first commit.
    await there(
      `CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'lost' USING ERRCODE = '57P01'; END $$`,
    );
    await there(
      'CREATE TRIGGER lose BEFORE DELETE ON pgboss.job_common FOR EACH ROW EXECUTE FUNCTION lose()',
    );
    expect((await cli('pg-boss', '--from', from, '--yes')).code).toBe(1);
    expect(await count('holdfast.inbox')).toBe(10);
    await there('DROP TRIGGER lose ON pgboss.job_common');
    const again = await cli('pg-boss', '--from', from, '--yes');
    expect(again.out).toMatch(/a +created +10 +a +moved by an earlier import/);
    expect(await count('holdfast.inbox')).toBe(10);
    expect(await there('SELECT id FROM pgboss.job')).toEqual([]);
  });

  test('--keep leaves them, says so, and moves none twice', async () => {
    await db.rows(PLANT, [3]);
    const said = await cli('pg-boss', '--yes', '--keep');
    expect(said.err).toContain('3 jobs and 0 schedules copied');
    expect(said.err).toContain('its workers must not run any more');
    expect((await cli('pg-boss', '--yes', '--keep')).err).toContain('0 jobs');
    expect([await count('holdfast.inbox'), await count('pgboss.job')]).toEqual([3, 3]);
  });

  test('nothing there, a right that is missing, an older pg-boss: each is said', async () => {
    const none = await cli('pg-boss', '--from-schema', 'nowhere');
    expect(none.err).toContain('no pg-boss in schema "nowhere"');
    await db.rows('CREATE ROLE import_nobody LOGIN');
    try {
      const url = new URL(db.url);
      await db.rows(`ALTER ROLE import_nobody PASSWORD 'x'`);
      [url.username, url.password] = ['import_nobody', 'x'];
      const refused = await cli('pg-boss', '--from', url.toString());
      expect(refused).toMatchObject({
        code: 1,
        err: expect.stringMatching(
          /permission denied for schema pgboss.*Nothing was moved: it takes/s,
        ),
      });
      await db.rows(
        'GRANT USAGE ON SCHEMA pgboss TO import_nobody; GRANT SELECT ON ALL TABLES IN SCHEMA pgboss TO import_nobody',
      );
      await db.rows(PLANT, [1]);
      expect((await cli('pg-boss', '--from', url.toString())).code).toBe(0);
      const writes = await cli('pg-boss', '--from', url.toString(), '--yes');
      expect(writes.code).toBe(1);
      expect(writes.err).toContain('SELECT, UPDATE and DELETE');
    } finally {
      await db.rows('DROP OWNED BY import_nobody; DROP ROLE import_nobody');
    }
    await db.rows('UPDATE pgboss.version SET version = 20');
    const old = await cli('pg-boss');
    await db.rows('UPDATE pgboss.version SET version = 46');
    expect(old.code).toBe(1);
    expect(old.err).toContain('older than those of pg-boss 10');
  });
});

describe('graphile-worker', () => {
  test('a payload that JSON allows and Postgres does not store stays', async () => {
    await db.rows(`INSERT INTO graphile_worker._private_tasks (identifier) VALUES ('t')`);
    const add = `INSERT INTO graphile_worker._private_jobs (task_id, payload)
      SELECT id, $1::json FROM graphile_worker._private_tasks`;
    await db.rows(add, ['{"n": 1}']);
    await db.rows(add, ['{"nul": "\\u0000"}']);
    await db.rows(add, ['{"half": "\\ud800"}']);
    await db.rows(add, [`{"tiny": 1e-${'9'.repeat(6)}}`]);
    await db.rows(add, ['{"n": 2}']);
    const said = await cli('graphile-worker', '--yes');
    expect(said.err).toContain('2 jobs and 0 schedules moved; 3 jobs left there');
    expect(said.out).toMatch(/t +waiting +2 +- +its payload cannot be stored/);
    expect(said.out).toMatch(/t +waiting +1 +- +Postgres cannot store its payload/);
  });

  test('rows that row security hides are not taken for none', async () => {
    await db.rows(`CREATE ROLE import_nobody LOGIN PASSWORD 'x'`);
    try {
      await db.rows(
        'GRANT USAGE ON SCHEMA graphile_worker TO import_nobody; GRANT ALL ON ALL TABLES IN SCHEMA graphile_worker TO import_nobody',
      );
      const url = new URL(db.url);
      [url.username, url.password] = ['import_nobody', 'x'];
      const said = await cli('graphile-worker', '--from', url.toString());
      expect(said).toMatchObject({ code: 1, err: expect.stringContaining('Row security hides') });
    } finally {
      await db.rows('DROP OWNED BY import_nobody; DROP ROLE import_nobody');
    }
  });
});
