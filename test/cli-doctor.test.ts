/** The doctor: a healthy system passes, and each fault that is planted is found, with its fix. */
import pg from 'pg';
import {
  afterAll,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest';
import { diagnose } from '../src/cli/commands/doctor.js';
import { Session } from '../src/cli/session.js';
import { startEmbedded } from '../src/embedded/index.js';
import { holdfast } from '../src/index.js';
import { type Finding, LIMITS, type Limits } from '../src/inspect/doctor.js';
import { judgeServer, readServer } from '../src/inspect/doctor-server.js';
import { judgeTable } from '../src/inspect/doctor-vacuum.js';
import { clearAll, plantJob, plantWorker } from './support/cli-plant.js';
import { proxied } from './support/cli-proxy.js';
import { run, values } from './support/cli-run.js';
import { testDatabase } from './support/database.js';
import { emptyDatabases } from './support/empty-database.js';
import { quietLogger } from './support/logger.js';

const db = testDatabase();
const makeDatabase = emptyDatabases();
beforeAll(() => db.hf.createQueue('outbox'));
beforeEach(async () => {
  await clearAll(db);
  await plantWorker(db, { id: 'w1' });
});

interface Ask {
  readonly url?: string;
  readonly limits?: Partial<Limits>;
  readonly folder?: string;
}

async function ask({ url = db.url, limits = {}, folder = '/nowhere' }: Ask = {}) {
  const session = new Session(url, 'holdfast');
  try {
    return await diagnose(session, { ...LIMITS, ...limits }, folder);
  } finally {
    await session.close();
  }
}

const ill = (findings: readonly Finding[]) => findings.filter(({ level }) => level !== 'ok');

/** What stands under one heading, when it is not well. */
async function found(check: string, options: Ask = {}): Promise<Finding[]> {
  return ill(await ask(options)).filter((finding) => finding.check === check);
}

test('a healthy system has no finding, and every check says what it saw', async () => {
  // A busy machine may be slow to answer; everything else must be well.
  const findings = await ask({ limits: { roundTripMs: 900 } });
  expect(ill(findings)).toEqual([]);
  expect(new Set(findings.map(({ check }) => check))).toEqual(
    new Set([
      'server version',
      'server role',
      'fsync',
      'full_page_writes',
      'synchronous_commit',
      'autovacuum',
      'statement_timeout',
      'connections',
      'pooling',
      'notifications',
      'round trip',
      'clock',
      'schema',
      'rights',
      'schema drift',
      'dead rows',
      'vacuum horizon',
      'oldest pending',
      'expired leases',
      'dead letters',
      'workers',
    ]),
  );
});

test('exit code 0 when well, 3 when there is a problem; lines for people, NDJSON for programs', async () => {
  const env = { DATABASE_URL: db.url };
  const well = await run(['doctor'], { env, cwd: '/tmp' });
  expect(well.code).toBe(0);
  expect(well.err).toMatch(/^(All \d+ checks are well\.|0 problem\(s\), .*)\n$/);
  await plantJob(db, { dueInMs: -3_600_000 });
  const sick = await run(['doctor'], { env, cwd: '/tmp' });
  expect(sick.code).toBe(3);
  expect(sick.out).toMatch(/^PROBLEM {2}oldest pending: .*\n {9}why: .*\n {9}fix: .*$/m);
  const json = values<Finding>((await run(['doctor', '--json'], { env, cwd: '/tmp' })).out);
  expect(json.find(({ level }) => level === 'problem')).toMatchObject({ check: 'oldest pending' });
});

test('a limit that the database sets for statements is noted, with whose it is', async () => {
  const name = new URL(db.url).pathname.slice(1);
  await db.rows(`ALTER DATABASE ${name} SET statement_timeout = '30s'`);
  onTestFinished(async () => {
    await db.rows(`ALTER DATABASE ${name} RESET statement_timeout`);
  });
  expect(await found('statement_timeout')).toMatchObject([
    { level: 'note', text: 'statement_timeout is 30 s for this database.' },
  ]);
});

test('it leaves nothing behind', async () => {
  await ask();
  const [left] = await db.rows<{ n: number }>(
    `SELECT count(*)::int AS n FROM pg_namespace WHERE nspname LIKE 'holdfast_doctor%'`,
  );
  expect(left?.n).toBe(0);
});

describe('the work', () => {
  const cases: [string, string, () => Promise<unknown>, Partial<Finding>, Partial<Limits>?][] = [
    [
      'a job that waits too long',
      'oldest pending',
      () => plantJob(db, { queue: 'outbox', dueInMs: -3_600_000 }),
      { level: 'problem', text: expect.stringContaining('"outbox" has waited for 1 h') },
    ],
    [
      'a paused queue',
      'paused',
      () => db.hf.pause(),
      { level: 'note', fix: 'holdfast queues resume inbox' },
    ],
    [
      'a lease that nobody took over',
      'expired leases',
      () => plantJob(db, { status: 'processing', leaseInMs: -5_000 }),
      { level: 'problem', text: expect.stringContaining('1 job of "inbox"') },
    ],
    [
      'a dead letter',
      'dead letters',
      () => plantJob(db, { status: 'dead_letter' }),
      { level: 'note', fix: expect.stringContaining('holdfast dead-letters retry') },
    ],
    [
      'many dead letters',
      'dead letters',
      () => plantJob(db, { status: 'dead_letter' }),
      { level: 'problem' },
      { deadLetters: 1 },
    ],
    [
      'jobs and no worker',
      'workers',
      async () => {
        await db.rows(`UPDATE holdfast.workers SET status = 'dead'`);
        await plantJob(db);
      },
      { level: 'problem', text: 'No worker is alive and 1 job wait.', fix: 'holdfast work' },
    ],
    [
      'no worker and no job',
      'workers',
      () => db.rows(`UPDATE holdfast.workers SET status = 'draining'`),
      { level: 'note' },
    ],
    [
      'a worker that is not heard any more',
      'workers',
      () => plantWorker(db, { id: 'frozen', silentMs: 630_000 }),
      { level: 'problem', text: expect.stringContaining('frozen (10 min ') },
    ],
    [
      'workers of mixed versions',
      'mixed versions',
      async () => {
        await plantWorker(db, { metadata: { version: '1.0.0' } });
        await plantWorker(db, { metadata: { version: '1.1.0' } });
      },
      { level: 'note', text: expect.stringContaining('1.0.0 (1), 1.1.0 (1)') },
    ],
    [
      'maintenance that nobody does',
      'maintenance',
      () =>
        db.rows(
          `UPDATE holdfast.queues SET maintained_at = now() - interval '1 hour' WHERE name = 'inbox'`,
        ),
      { level: 'problem', text: expect.stringContaining('1 h ago') },
    ],
  ];
  test.each(cases)('%s', async (_, check, plant, finding, limits = {}) => {
    await plant();
    onTestFinished(() =>
      db.rows('UPDATE holdfast.queues SET maintained_at = NULL').then(() => undefined),
    );
    const findings = await found(check, { limits });
    expect(findings).toEqual([expect.objectContaining({ check, ...finding })]);
    expect(findings[0]?.why).toBeTruthy();
    expect(findings[0]?.fix).toBeTruthy();
  });
});

describe('the schema', () => {
  async function fresh(): Promise<{ url: string; query: (text: string) => Promise<unknown> }> {
    const url = await makeDatabase();
    const hf = holdfast({ connectionString: url, logger: quietLogger });
    await hf.migrate();
    await hf.createQueue('outbox');
    await hf.close();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    return { url, query: (text) => client.query(text) };
  }

  test('that is missing is a problem with its fix, and the rest is still looked at', async () => {
    const findings = await ask({ url: await makeDatabase() });
    expect(ill(findings)).toMatchObject([
      { check: 'schema', level: 'problem', fix: 'holdfast migrate' },
    ]);
    expect(findings.some(({ check }) => check === 'fsync')).toBe(true);
  });

  const cases: [string, string, Partial<Finding>][] = [
    [
      'an index that is missing',
      'DROP INDEX holdfast.outbox_claim_idx',
      {
        level: 'problem',
        text: 'The index outbox_claim_idx is missing.',
        fix: expect.stringMatching(
          /^SET search_path = holdfast; CREATE INDEX outbox_claim_idx ON outbox .*;$/,
        ),
      },
    ],
    [
      'a constraint that was dropped',
      'ALTER TABLE holdfast.inbox DROP CONSTRAINT inbox_state_check',
      { level: 'problem', text: 'The constraint inbox.inbox_state_check is missing.' },
    ],
    [
      'a column of another type',
      'ALTER TABLE holdfast.inbox ALTER COLUMN claimed_by TYPE varchar(20)',
      { level: 'problem', text: 'The column inbox.claimed_by is not what the migrations make.' },
    ],
    [
      'an index that is not of the way in which the queue is read',
      `DROP INDEX holdfast.outbox_claim_idx; CREATE INDEX outbox_claim_idx ON holdfast.outbox
        (partition_bucket, partition_key COLLATE "C", position) WHERE NOT parked`,
      { level: 'problem', text: 'The index outbox_claim_idx is not what the migrations make.' },
    ],
    [
      'a function that was rewritten',
      `CREATE OR REPLACE FUNCTION holdfast.bucket_of(key text) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
        PARALLEL SAFE AS 'SELECT 7'`,
      {
        level: 'problem',
        text: 'The function bucket_of(key text) is not what the migrations make.',
      },
    ],
    [
      'a trigger that was switched off',
      'ALTER TABLE holdfast.workers DISABLE TRIGGER workers_joined',
      {
        level: 'problem',
        text: 'The trigger workers.workers_joined is not what the migrations make.',
      },
    ],
    [
      'settings of a table that were changed',
      'ALTER TABLE holdfast.inbox SET (fillfactor = 100)',
      { level: 'problem', text: 'The settings of table inbox is not what the migrations make.' },
    ],
    [
      'an index on what every claim writes',
      'CREATE INDEX mine ON holdfast.inbox (status)',
      { level: 'problem', fix: 'DROP INDEX holdfast.mine;' },
    ],
    [
      'an index with a predicate on what every claim writes',
      `CREATE INDEX mine ON holdfast.inbox (id) WHERE claimed_by IS NOT NULL`,
      { level: 'problem', fix: 'DROP INDEX holdfast.mine;' },
    ],
    [
      'an index that harms no claim',
      `CREATE INDEX mine ON holdfast.inbox ((payload ->> 'orderId'))`,
      { level: 'note', text: 'There is an extra index mine.' },
    ],
  ];
  test.each(cases)('%s has drifted', async (_, sql, finding) => {
    const { url, query } = await fresh();
    await query(sql);
    const findings = await found('schema drift', { url });
    expect(findings).toContainEqual(expect.objectContaining(finding));
  });

  test('what is printed to mend an index can be pasted', async () => {
    const { url, query } = await fresh();
    await query('DROP INDEX holdfast.outbox_claim_idx');
    await query('DROP INDEX holdfast.outbox_suspect_idx');
    await query('CREATE INDEX "My index" ON holdfast.inbox (status)');
    for (const { fix } of await found('schema drift', { url })) await query(fix as string);
    expect(await found('schema drift', { url })).toEqual([]);
  });

  test('a user who may not even enter the schema is told so, and the rest is still looked at', async () => {
    const user = `holdfast_stranger_${process.pid}`;
    await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
    onTestFinished(async () => void (await db.rows(`DROP ROLE ${user}`)));
    const url = new URL(db.url);
    [url.username, url.password] = [user, 'secret'];
    const findings = await ask({ url: url.toString() });
    expect(findings).toContainEqual(expect.objectContaining({ check: 'rights', level: 'problem' }));
    expect(findings.some(({ check }) => check === 'fsync')).toBe(true);
  });

  test('the order of a queue is a setting and no drift', async () => {
    const { url, query } = await fresh();
    await query(`UPDATE holdfast.queues SET ordering = 'key' WHERE name = 'outbox'`);
    expect(await found('schema drift', { url })).toEqual([]);
  });

  test('rights that are missing are named; a user who may not create is told what was not looked for', async () => {
    const user = `holdfast_doctor_${process.pid}`;
    await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
    onTestFinished(async () => {
      await db.rows(`DROP OWNED BY ${user}`);
      await db.rows(`DROP ROLE ${user}`);
    });
    await db.rows(`GRANT USAGE ON SCHEMA holdfast TO ${user}`);
    await db.rows(`GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO ${user}`);
    const url = new URL(db.url);
    [url.username, url.password] = [user, 'secret'];
    const findings = ill(await ask({ url: url.toString() }));
    const rights = findings.find(({ check }) => check === 'rights');
    expect(rights).toMatchObject({
      level: 'problem',
      text: expect.stringMatching(/lacks rights on .*inbox, /),
    });
    expect(findings.find(({ check }) => check === 'schema drift')).toMatchObject({ level: 'note' });
  });
});

describe('the line', () => {
  test('a transaction pooler between', async () => {
    const url = await proxied(db.url, { pid: 4711, deaf: true });
    const findings = ill(await ask({ url }));
    expect(findings).toMatchObject([
      { check: 'pooling', level: 'note', fix: expect.stringContaining('listenUrl') },
      { check: 'notifications', level: 'note', fix: expect.stringContaining('listenUrl') },
    ]);
  });

  test('notifications that do not arrive', async () => {
    const url = await proxied(db.url, { deaf: true });
    expect(await found('notifications', { url })).toMatchObject([{ level: 'problem' }]);
  });

  test('round trips that are long for the heartbeat', async () => {
    const url = await proxied(db.url, { delayMs: 40 });
    expect(await found('round trip', { url, limits: { roundTripMs: 20 } })).toMatchObject([
      { level: 'note' },
    ]);
    await plantWorker(db, { metadata: { heartbeatMs: 300, leaseMs: 90_000 } });
    expect(await found('round trip', { url })).toMatchObject([
      { level: 'problem', text: expect.stringContaining('heartbeats come every 300 ms') },
    ]);
  });

  test.each([
    [-3_600_000, 'problem', 'behind'],
    [10_000, 'note', 'ahead of'],
  ])('a clock that is off by %i ms', async (offMs, level, word) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + offMs });
    onTestFinished(() => void vi.useRealTimers());
    expect(await found('clock')).toMatchObject([{ level, text: expect.stringContaining(word) }]);
  });
});

describe('vacuum', () => {
  test('a transaction that stays open', async () => {
    const client = await db.pool.connect();
    onTestFinished(() => client.release(true));
    await client.query(
      `SET application_name = 'the culprit'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1`,
    );
    const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
    expect(await found('vacuum horizon')).toEqual([]);
    expect(await found('vacuum horizon', { limits: { horizonMs: 0 } })).toMatchObject([
      {
        level: 'problem',
        text: expect.stringContaining('the culprit'),
        fix: expect.stringContaining(`pg_terminate_backend(${rows[0].pid})`),
      },
    ]);
  });

  test('dead rows that are left lying, and autovacuum that is switched off for the table', async () => {
    await db.rows('ALTER TABLE holdfast.inbox SET (autovacuum_enabled = off)');
    onTestFinished(() =>
      db.rows('ALTER TABLE holdfast.inbox RESET (autovacuum_enabled)').then(() => undefined),
    );
    const client = await db.pool.connect();
    await client.query(`INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload)
      SELECT 'noop', 'k', 1, '{}' FROM generate_series(1, 2000)`);
    await client.query('DELETE FROM holdfast.inbox');
    await client.query('SELECT pg_stat_force_next_flush()');
    client.release();
    const findings = await found('dead rows', { limits: { deadRows: 1_000 } });
    expect(findings).toMatchObject([
      { level: 'problem', fix: 'ALTER TABLE holdfast.inbox RESET (autovacuum_enabled);' },
      { level: 'problem', text: expect.stringContaining('2,000 dead rows') },
    ]);
  });

  test('a table that is mostly empty space', () => {
    const size = { liveRows: 10, deadRows: 0, tableBytes: 3e9 } as Parameters<typeof judgeTable>[1];
    const vacuum = { vacuumedAt: null, disabled: false };
    const names = { schema: 'holdfast', queue: 'inbox' };
    expect(judgeTable(names, size, vacuum, LIMITS)).toMatchObject([
      { check: 'bloat', level: 'note', fix: expect.stringContaining('VACUUM FULL holdfast.inbox') },
    ]);
  });
});

describe('the server', () => {
  let server: Awaited<ReturnType<typeof startEmbedded>>;
  beforeAll(async () => {
    server = await startEmbedded({
      throwaway: true,
      settings: {
        fsync: 'off',
        full_page_writes: 'off',
        synchronous_commit: 'off',
        autovacuum: 'off',
        max_connections: 20,
        max_prepared_transactions: 5,
        wal_level: 'logical',
        shared_buffers: '32MB',
      },
    });
    const hf = holdfast({ connectionString: server.url, logger: quietLogger });
    await hf.migrate();
    await hf.close();
  }, 120_000);
  afterAll(() => server?.stop());

  test('one that may lose what it has accepted, and does not clean up', async () => {
    const findings = ill(await ask({ url: server.url }));
    for (const check of ['fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum']) {
      expect(findings.find((one) => one.check === check)).toMatchObject({
        level: 'problem',
        text: expect.stringContaining('off'),
        fix: expect.stringContaining(check),
      });
    }
  });

  test('one with hardly a connection left', async () => {
    const clients = Array.from(
      { length: 13 },
      () => new pg.Client({ connectionString: server.url }),
    );
    for (const client of clients) await client.connect();
    onTestFinished(async () => {
      for (const client of clients) await client.end();
    });
    expect(await found('connections', { url: server.url })).toMatchObject([
      { level: 'problem', text: expect.stringMatching(/^1[4-7] of 17 connections are in use\.$/) },
    ]);
  });

  test('a forgotten prepared transaction and an abandoned replication slot', async () => {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    onTestFinished(async () => {
      await client.query(`ROLLBACK PREPARED 'forgotten'`);
      await client.query(`SELECT pg_drop_replication_slot('abandoned')`);
      await client.end();
    });
    await client.query(`SELECT pg_create_logical_replication_slot('abandoned', 'pgoutput')`);
    await client.query(`BEGIN; CREATE TABLE x (); PREPARE TRANSACTION 'forgotten'`);
    const findings = await found('vacuum horizon', { url: server.url, limits: { horizonMs: 0 } });
    expect(findings.map(({ fix }) => fix).sort()).toEqual([
      `COMMIT PREPARED 'forgotten'; or ROLLBACK PREPARED 'forgotten';`,
      `Start its consumer again, or SELECT pg_drop_replication_slot('abandoned');`,
    ]);
  });

  test('one that is too old, or a replica', async () => {
    const session = new Session(db.url, 'holdfast');
    const facts = await session.read((reader) => readServer(reader, 'holdfast'));
    await session.close();
    const judge = (change: object) => ill(judgeServer({ ...facts, ...change }, LIMITS));
    expect(judge({})).toEqual([]);
    expect(judge({ major: 14, version: '14.9' })).toMatchObject([
      { check: 'server version', level: 'problem' },
    ]);
    expect(judge({ replica: true })).toMatchObject([{ check: 'server role', level: 'problem' }]);
  });
});

test('an ordinary user does not take a transaction of somebody else for a forgotten one', async () => {
  const user = `holdfast_ordinary_${process.pid}`;
  await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
  await db.rows(`GRANT USAGE ON SCHEMA holdfast TO ${user}`);
  await db.rows(`GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO ${user}`);
  onTestFinished(async () => {
    await db.rows(`DROP OWNED BY ${user}`);
    await db.rows(`DROP ROLE ${user}`);
  });
  const other = new pg.Client({ connectionString: db.url });
  await other.connect();
  onTestFinished(() => other.end());
  await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
  const url = new URL(db.url);
  [url.username, url.password] = [user, 'secret'];
  const horizon = await found('vacuum horizon', { url: url.toString() });
  expect(horizon).toMatchObject([{ level: 'note', fix: expect.stringContaining('pg_read_all') }]);
});
