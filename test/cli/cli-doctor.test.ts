/** The doctor: a healthy system passes, and each fault that is planted is found, with its fix. */
import { type EventEmitter, once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
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
import { startEmbedded } from '../../packages/embedded/src/index.js';
import { Session } from '../../packages/holdfast/src/cli/session.js';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import {
  type Finding,
  LIMITS,
  type Limits,
} from '../../packages/holdfast/src/inspect/doctor/doctor.js';
import { judgeDrift } from '../../packages/holdfast/src/inspect/doctor/drift.js';
import { judgeQueues } from '../../packages/holdfast/src/inspect/doctor/queues.js';
import { judgeServer, readServer } from '../../packages/holdfast/src/inspect/doctor/server.js';
import { judgeBuckets } from '../../packages/holdfast/src/inspect/doctor/tables.js';
import { judgeTable } from '../../packages/holdfast/src/inspect/doctor/vacuum.js';
import { overview } from '../../packages/holdfast/src/inspect/queue/overview.js';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import { newId } from '../../packages/holdfast/src/schema/functions/job/new-id.sql.js';
import { clearAll, plantJob, plantWorker } from '../support/cli-plant.js';
import { proxied } from '../support/cli-proxy.js';
import { call, run, values } from '../support/cli-run.js';
import { cloneTemplate } from '../support/clone.js';
import { testDatabase } from '../support/database.js';
import { type Examination, examine, examineWith } from '../support/doctor.js';
import { emptyDatabases } from '../support/empty-database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const makeDatabase = emptyDatabases();
const startWorker = testWorkers();
beforeAll(() => db.hf.createQueue('outbox'));
beforeEach(async () => {
  await clearAll(db);
  await plantWorker(db, { id: 'w1' });
});

/** What a standby does: it takes the WAL, and says what its oldest reader needs. */
async function feedBack(url: string, start: string, xmin: number): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, replication: 'true' } as pg.ClientConfig);
  // What it is sent next may come with the answer to START_REPLICATION, and `pg` expects none of it.
  client.on('error', () => undefined);
  await client.connect();
  const { connection } = client as unknown as {
    connection: EventEmitter & {
      query(text: string): void;
      sendCopyFromChunk(chunk: Buffer): void;
    };
  };
  const started = once(connection, 'replicationStart');
  connection.query(start);
  await started;
  // Type, time, xmin and its epoch, and the same for catalogs.
  const message = Buffer.alloc(25);
  message.write('h');
  message.writeUInt32BE(xmin, 9);
  connection.sendCopyFromChunk(message);
  return client;
}

interface Ask extends Examination {
  readonly url?: string;
}

const ask = ({ url = db.url, ...options }: Ask = {}) => examine(url, options);

const ill = (findings: readonly Finding[]) => findings.filter(({ level }) => level !== 'ok');

/** What stands under one heading, when it is not well. */
async function found(check: string, options: Ask = {}): Promise<Finding[]> {
  const findings = await ask({ compared: check === 'schema drift', ...options });
  return ill(findings).filter((finding) => finding.check === check);
}

/** What of a fix is there to be pasted. */
function statementsOf(fix: string | null | undefined): string[] {
  if (fix?.startsWith('CREATE OR REPLACE FUNCTION')) return [fix];
  return (fix ?? '').split('\n').filter((line) => line.endsWith(';'));
}

/** Planted, found, mended by pasting what was printed, and gone. */
const MENDED: [string, string, string[], Partial<Finding>][] = [
  [
    'a table that a crash would empty',
    'unlogged tables',
    ['ALTER TABLE holdfast.outbox SET UNLOGGED'],
    { level: 'problem', text: 'holdfast.outbox is UNLOGGED.' },
  ],
  [
    'a table of idempotency keys that a crash would empty',
    'unlogged tables',
    ['ALTER TABLE holdfast.outbox_idempotency SET UNLOGGED'],
    { level: 'problem', why: expect.stringContaining('its job runs twice') },
  ],
  [
    'rows that policies hide',
    'row level security',
    [
      'ALTER TABLE holdfast.inbox ENABLE ROW LEVEL SECURITY',
      'ALTER TABLE holdfast.inbox FORCE ROW LEVEL SECURITY',
    ],
    { level: 'problem', text: expect.stringContaining('also for its owner') },
  ],
  [
    'a sequence that was not restored with its rows',
    'sequence',
    [`INSERT INTO holdfast.inbox (type, payload, position) VALUES ('t', '{}', 1000000)`],
    { level: 'problem', text: expect.stringContaining('positions up to 1,000,000') },
  ],
  [
    'a bucket that does not fit its key',
    'buckets',
    [
      `UPDATE holdfast.queues SET ordering = 'key' WHERE name = 'outbox'`,
      `INSERT INTO holdfast.outbox (type, payload, partition_key, partition_bucket, parked)
       VALUES ('t', '{}', 'order:9182', 7, false)`,
    ],
    { level: 'problem', text: expect.stringContaining('its key "order:9182" belongs to') },
  ],
];

test('what is wrong with tables and rows is found, and mended by what is printed', async () => {
  onTestFinished(async () => {
    await clearAll(db);
    await db.rows(`UPDATE holdfast.queues SET ordering = 'none'`);
  });
  for (const [, , plant] of MENDED) for (const sql of plant) await db.rows(sql);
  const checks = new Set(MENDED.map(([, check]) => check));
  const wrong = async () =>
    ill(await ask({ compared: false })).filter(({ check }) => checks.has(check));
  const findings = await wrong();
  for (const [what, check, , finding] of MENDED)
    expect(findings, what).toContainEqual(expect.objectContaining({ check, ...finding }));
  expect(findings).toHaveLength(MENDED.length);
  for (const { fix } of findings) for (const sql of statementsOf(fix)) await db.rows(sql);
  expect(await wrong()).toEqual([]);
});

test('rows that are not frozen for too long', async () => {
  const [one] = await found('wraparound', { limits: { wraparoundXids: 1 } });
  expect(one).toMatchObject({ level: 'problem', text: expect.stringContaining('not frozen') });
  for (const sql of statementsOf(one?.fix)) await db.rows(sql);
});

test('due jobs that nobody handles, and a queue by key whose buckets nobody owns, with the reason', async () => {
  onTestFinished(async () => {
    await clearAll(db);
    await db.rows(`UPDATE holdfast.queues SET ordering = 'none'`);
  });
  await plantJob(db, { type: 'mystery', version: 3, dueInMs: -120_000 });
  await db.rows(`UPDATE holdfast.queues SET ordering = 'key' WHERE name = 'outbox'`);
  await plantWorker(db, {
    id: 'gone',
    status: 'dead',
    silentMs: 60_000,
    handles: { outbox: { t: 1 } },
  });
  const findings = ill(await ask({ compared: false }));
  expect(findings.find(({ check }) => check === 'unhandled')).toMatchObject({
    level: 'problem',
    text: expect.stringContaining('mystery version 3 (2 min'),
  });
  expect(findings.find(({ check }) => check === 'bucket owners')).toMatchObject({
    level: 'problem',
    text: expect.stringMatching(/live workers \(1\) have no handler.*gone, which had one, is dead/),
  });
  await plantWorker(db, { id: 'there', handles: { outbox: { t: 1 } } });
  expect(await found('bucket owners')).toEqual([]);
});

test('a healthy system has no finding, and every check says what it saw', async () => {
  // A busy machine may be slow to answer; everything else must be well.
  const findings = await ask({ limits: { roundTripMs: 900 } });
  expect(ill(findings)).toEqual([]);
  // What is well is well up to a limit, which is named.
  for (const check of ['unhandled', 'schedules'])
    expect(findings.find((one) => one.check === check)?.text).toContain('more than 1 min');
  expect(new Set(findings.map(({ check }) => check))).toEqual(
    new Set([
      'locks',
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
      'unlogged tables',
      'row level security',
      'wraparound',
      'maintenance lock',
      'limit lock',
      'unhandled',
      'stopped',
      'schedules',
      'sequence',
      'buckets',
      'dead rows',
      'vacuum horizon',
      'oldest pending',
      'expired leases',
      'dead letters',
      'workers',
      'vanished workers',
      'leaked handlers',
      'refused outcomes',
      'payloads in logs',
      'WAL',
    ]),
  );
});

test('a count that is an estimate is called so', async () => {
  const session = new Session(db.url, 'holdfast');
  const seen = await session.read((reader) => overview(reader, 'holdfast'));
  await session.close();
  const queues = seen.queues.map((one) => ({
    queue: { ...one.queue, paused: true, maxPending: 10 },
    counts: { ...one.counts, pending: 70_000, approximate: true },
    ...{ rate: one.rate, stoppedMs: null },
  }));
  const texts = judgeQueues({ ...seen, queues }, LIMITS).map(({ text }) => text);
  expect(texts).toContain('The queue "inbox" is paused with about 70,000 jobs waiting.');
  expect(texts).toContain('About 70,000 jobs of "inbox" wait, and 10 may.');
});

test('exit code 0 when well, 3 when there is a problem; lines for people, NDJSON for programs', async () => {
  const env = { DATABASE_URL: db.url };
  const well = await call(['doctor'], { env });
  expect(well.code).toBe(0);
  expect(well.err).toMatch(/^(All \d+ checks are well\.|0 problem\(s\), .*)\n$/);
  await plantJob(db, { dueInMs: -3_600_000 });
  const sick = await run(['doctor'], { env, cwd: '/tmp' });
  expect(sick.code).toBe(3);
  expect(sick.out).toMatch(/^PROBLEM {2}oldest pending: .*\n {9}why: .*\n {9}fix: .*$/m);
  const json = values<Finding>((await call(['doctor', '--json'], { env })).out);
  const problems = json.filter(({ level }) => level === 'problem');
  // Nobody takes it, although a worker could: that is said too.
  expect(problems.map(({ check }) => check)).toEqual(['stopped', 'oldest pending']);
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
  const failing = (failed: number, completed: number) => ({
    load: { recent: { ms: 60_000, queues: { inbox: { failed, completed } } } },
  });
  const FAILED = [
    [30_000, 'Error: no order 81\n    at handler'],
    [60_000, 'Error: no order 82'],
    [-5_000, 'Error: timeout'],
  ] as const;
  const POISON = '0199a1c2-7d3e-7000-8000-000000009182';
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
      'a dead letter that killed its workers',
      'dead letters',
      () =>
        plantJob(db, {
          ...{ id: POISON, status: 'dead_letter', crashes: 5 },
          history: [{ outcome: 'vanished' }],
        }),
      {
        text: expect.stringContaining('1 job ended the process of its worker'),
        fix: expect.stringMatching(new RegExp(`^First .*\\nholdfast jobs discard ${POISON}\\n`)),
      },
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
      { level: 'problem', text: 'No worker is alive and 1 job waits.', fix: 'holdfast work' },
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
      'handlers that run on without their jobs',
      'leaked handlers',
      () =>
        plantWorker(db, { id: 'w9', metadata: { load: { leaked: { inbox: { send_mail: 3 } } } } }),
      {
        level: 'note',
        text: expect.stringContaining('3 handlers of send_mail (inbox) in worker w9'),
        fix: expect.stringContaining('holdfast workers drain w9'),
      },
    ],
    [
      'outcomes that the database refuses',
      'refused outcomes',
      () =>
        plantWorker(db, {
          id: 'w9',
          metadata: { load: { kept: { inbox: { jobs: 2, why: '42501 permission denied' } } } },
        }),
      {
        level: 'problem',
        text: expect.stringContaining('2 jobs of "inbox" in worker w9 (42501 permission denied)'),
      },
    ],
    [
      'attempts that mostly fail, with their most common error',
      'failing attempts',
      async () => {
        await plantWorker(db, { metadata: failing(150, 30) });
        await plantWorker(db, { metadata: failing(50, 0) });
        for (const [dueInMs, error] of FAILED) {
          const history = [{ attempt: 1, at: new Date(), outcome: 'failed' }];
          await plantJob(db, { attempts: 1, dueInMs, error, history });
        }
      },
      {
        level: 'problem',
        text:
          '200 of 230 attempts on "inbox" failed in the last minute, 3.3 a second. ' +
          'Most often, send_receipt: Error: no order #',
        fix: expect.stringContaining('holdfast queues pause inbox --type send_receipt'),
      },
    ],
    [
      'attempts of which many fail, in a queue where nothing waits',
      'failing attempts',
      () => plantWorker(db, { metadata: failing(30, 90) }),
      { level: 'note', text: expect.stringMatching(/^30 of 120 attempts .* 0\.5 a second\.$/) },
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
    [
      "a queue that no worker serves, whose maintenance is nobody's",
      'unserved',
      async () => {
        await db.rows('DELETE FROM holdfast.workers');
        await plantWorker(db, { handles: { elsewhere: { send_receipt: 1 } } });
        await db.rows(
          `UPDATE holdfast.queues SET maintained_at = now() - interval '1 hour' WHERE name = 'inbox'`,
        );
      },
      { level: 'note', text: expect.stringMatching(/^No live worker serves .*"inbox".* for 1 h;/) },
    ],
  ];
  test('few failures, or those of a worker that is not heard, are no finding', async () => {
    await plantWorker(db, { metadata: failing(9, 0) });
    await plantWorker(db, { metadata: failing(900, 0), silentMs: 60_000 });
    const all = await ask({ compared: false });
    const findings = all.filter(({ check }) => check === 'failing attempts');
    expect(findings).toMatchObject([
      { level: 'ok', text: 'inbox: 9 of 9 attempts in the last minute' },
    ]);
  });

  test('a worker whose handler always fails is found by what it reports', async () => {
    const broken = job('broken', { maxAttempts: 1 });
    await db.hf.enqueueMany(Array.from({ length: 12 }, () => broken.item({})));
    const fails = () => Promise.reject(new Error('the deploy is broken'));
    startWorker(db.hf, (one) => one.handle(broken, fails), { heartbeat: '100ms' });
    const finding = await until('the finding', async () =>
      (await found('failing attempts')).find(({ text }) => text.startsWith('12 of 12')),
    );
    expect(finding).toMatchObject({ level: 'problem', text: expect.stringContaining('broken: ') });
  });

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
    const { url, drop } = await cloneTemplate();
    onTestFinished(drop);
    const hf = holdfast({ connectionString: url, logger: quietLogger });
    await hf.createQueue('outbox');
    await hf.close();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    return { url, query: (text) => client.query(text) };
  }

  test('that is called like words in its functions has not drifted', async () => {
    const url = await makeDatabase();
    for (const schema of ['jobs', 'queue']) {
      const hf = holdfast({ connectionString: url, schema, logger: quietLogger });
      await hf.migrate();
      await hf.createQueue('outbox');
      await hf.close();
      const findings = await examineWith(new Session(url, schema));
      expect(findings.filter(({ check }) => check === 'schema drift')).toMatchObject([
        { level: 'ok' },
      ]);
    }
  });

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
      'DROP INDEX holdfast.outbox_line_idx',
      {
        level: 'problem',
        text: 'The index outbox_line_idx is missing.',
        fix: expect.stringMatching(
          /^CREATE INDEX CONCURRENTLY outbox_line_idx ON holdfast\.outbox .*;$/,
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
      `DROP INDEX holdfast.inbox_line_idx; CREATE INDEX inbox_line_idx ON holdfast.inbox
        (partition_bucket, partition_key COLLATE "C", position) WHERE NOT parked`,
      { level: 'problem', text: 'The index inbox_line_idx is not what the migrations make.' },
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
      { level: 'problem', fix: 'DROP INDEX CONCURRENTLY holdfast.mine;' },
    ],
    [
      'an index with a predicate on what every claim writes',
      `CREATE INDEX partly ON holdfast.inbox (id) WHERE claimed_by IS NOT NULL`,
      { level: 'problem', fix: 'DROP INDEX CONCURRENTLY holdfast.partly;' },
    ],
    [
      'an index that harms no claim',
      `CREATE INDEX harmless ON holdfast.inbox ((payload ->> 'orderId'))`,
      { level: 'note', text: 'There is an extra index harmless.' },
    ],
  ];
  test('what has drifted is found, each for what it is', async () => {
    const { url, query } = await fresh();
    for (const [, sql] of cases) await query(sql);
    const findings = await found('schema drift', { url });
    for (const [what, , finding] of cases)
      expect(findings, what).toContainEqual(expect.objectContaining(finding));
  });

  test('what is printed to mend the schema can be pasted, and shows where they differ', async () => {
    const { url, query } = await fresh();
    await query(`DROP INDEX holdfast.outbox_suspect_idx;
      DROP INDEX holdfast.outbox_line_idx;
      CREATE INDEX outbox_line_idx ON holdfast.outbox (priority, available_at) WHERE crashes < 2;
      CREATE INDEX "My index" ON holdfast.inbox (status);
      ALTER TABLE holdfast.inbox DROP CONSTRAINT inbox_state_check;
      ALTER TABLE holdfast.outbox_effects DROP CONSTRAINT outbox_effects_pkey;
      ALTER TABLE holdfast.inbox ALTER COLUMN position DROP DEFAULT;
      ALTER TABLE holdfast.inbox SET (fillfactor = 35, autovacuum_enabled = off);
      ALTER TABLE holdfast.workers DISABLE TRIGGER workers_joined;
      DROP TRIGGER workers_changed ON holdfast.workers`);
    await query(`CREATE OR REPLACE FUNCTION holdfast.bucket_of(key text) RETURNS integer LANGUAGE sql IMMUTABLE
      STRICT PARALLEL SAFE AS 'SELECT (holdfast.hash32(key) & 511)::integer'`);
    const drift = await found('schema drift', { url });
    expect(drift.length).toBe(10);
    expect(drift.find(({ text }) => text.includes('bucket_of'))?.why).toMatch(
      /& 511.*should be.*& 1023/,
    );
    const fixes = drift.flatMap(({ fix }) => statementsOf(fix));
    expect(
      fixes
        .filter((one) => /INDEX/.test(one))
        .every((one) => /CONCURRENTLY|RENAME|USING/.test(one)),
    ).toBe(true);
    for (const fix of fixes) await query(fix);
    expect(await found('schema drift', { url })).toEqual([]);
  });

  test('ids as they are made before Postgres 18 are noted after an upgrade, and others are a problem', () => {
    const body = /new_id\(\)[^;]*?AS \$fn\$([\s\S]*?)\$fn\$/.exec(newId.text)?.[1];
    const drifted = (is = '') =>
      judgeDrift('holdfast', [
        { kind: 'function', name: 'new_id()', how: 'changed', is, expected: '', made: 'CREATE' },
      ]);
    expect(drifted(`uuid v ${body}`)).toMatchObject([{ level: 'note' }]);
    expect(drifted('uuid v SELECT gen_random_uuid()')).toMatchObject([{ level: 'problem' }]);
  });

  test('a setting that is set again to what it was is no drift, nor is the order of a queue', async () => {
    const { url, query } = await fresh();
    await query('ALTER TABLE holdfast.inbox SET (fillfactor = 50)');
    await query(`UPDATE holdfast.queues SET ordering = 'key' WHERE name = 'outbox'`);
    expect(await found('schema drift', { url })).toEqual([]);
  });

  test('a role or a database that may only read: said, and all the rest is looked at', async () => {
    const { url, query } = await fresh();
    const name = new URL(url).pathname.slice(1);
    await query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    const findings = await ask({ url });
    const readOnly = findings.filter(({ check }) => check === 'read only');
    expect(readOnly).toMatchObject([
      { level: 'problem', text: expect.stringContaining('this database') },
    ]);
    expect(findings.find(({ check }) => check === 'schema drift')).toMatchObject({ level: 'ok' });
    for (const fix of statementsOf(readOnly[0]?.fix)) await query(fix);
    expect(await found('read only', { url })).toEqual([]);
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

  test('rights that are missing are named; a user who may not create is told what was not looked for', async () => {
    const user = `holdfast_doctor_${process.pid}`;
    await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
    onTestFinished(async () => {
      await db.rows(`DROP OWNED BY ${user}`);
      await db.rows(`DROP ROLE ${user}`);
    });
    await db.rows(`GRANT USAGE ON SCHEMA holdfast TO ${user}`);
    await db.rows(`GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO ${user}`);
    await db.rows(`REVOKE SELECT ON holdfast.outbox FROM ${user}`);
    const url = new URL(db.url);
    [url.username, url.password] = [user, 'secret'];
    const findings = ill(await ask({ url: url.toString() }));
    const rights = findings.find(({ check }) => check === 'rights');
    expect(rights).toMatchObject({
      level: 'problem',
      text: expect.stringMatching(/lacks SELECT on holdfast.outbox\.$/),
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
    const url = await proxied(db.url, { delayMs: 12 });
    expect(await found('round trip', { url, limits: { roundTripMs: 5 } })).toMatchObject([
      { level: 'note' },
    ]);
    await plantWorker(db, { metadata: { heartbeatMs: 100, leaseMs: 90_000 } });
    expect(await found('round trip', { url })).toMatchObject([
      { level: 'problem', text: expect.stringContaining('heartbeats come every 100 ms') },
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
    const names = { schema: 'holdfast', queue: 'inbox' };
    const judge = (rows: object, sizes: object, counted = true) =>
      judgeTable(
        names,
        {
          ...{ pending: 10, processing: 0, deadLetter: 0, approximate: false, ...rows },
          size: { liveRows: 10, deadRows: 0, expectedRows: 10, tableBytes: 3e9, ...sizes },
        } as Parameters<typeof judgeTable>[1],
        { vacuumedAt: null, counted, disabled: false },
        LIMITS,
      );
    expect(judge({}, {})).toMatchObject([
      { check: 'bloat', level: 'note', fix: expect.stringMatching(/^VACUUM \(TRUNCATE.*inbox;$/m) },
    ]);
    // After a reset the statistics know nothing of the rows that were there before.
    const reset = { approximate: true, pending: 50_000 };
    expect(judge(reset, { liveRows: 0, expectedRows: 0 }, false)).toMatchObject([{ level: 'ok' }]);
    expect(judge(reset, { liveRows: 0, expectedRows: 5_000_000 }, false)).toMatchObject([
      { level: 'ok' },
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
    const findings = ill(await ask({ url: server.url, compared: false }));
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
      {
        level: 'problem',
        text: expect.stringMatching(
          /^1[4-7] of 17 connections are in use\. Held: \d+ by "no name" \(user postgres, idle\)/,
        ),
      },
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
    expect(findings.flatMap(({ fix }) => statementsOf(fix)).sort()).toEqual([
      `ROLLBACK PREPARED 'forgotten';`,
      `SELECT pg_drop_replication_slot('abandoned');`,
    ]);
    // It holds its locks as well, and belongs to no session.
    await client.query(
      `BEGIN; LOCK TABLE holdfast.inbox IN SHARE MODE; PREPARE TRANSACTION 'it''s locked'`,
    );
    const [lock] = await found('locks', { url: server.url, limits: { lockedMs: 0 } });
    expect(lock?.text).toContain('holds ShareLock on inbox');
    for (const sql of statementsOf(lock?.fix)) await client.query(sql);
    expect(await found('locks', { url: server.url, limits: { lockedMs: 0 } })).toEqual([]);
  });

  test.each([
    ['a standby', ''],
    ['a standby with a slot', 'SLOT standby'],
  ])('%s that reports what it reads (hot_standby_feedback)', async (_, slot) => {
    const admin = new pg.Client({ connectionString: server.url });
    await admin.connect();
    if (slot) await admin.query(`SELECT pg_create_physical_replication_slot('standby')`);
    const { rows } = await admin.query(
      `SELECT pg_current_wal_lsn() AS at, pg_snapshot_xmin(pg_current_snapshot())::text AS xmin`,
    );
    const standby = await feedBack(
      server.url,
      `START_REPLICATION ${slot} PHYSICAL ${rows[0].at}`,
      Number(rows[0].xmin),
    );
    onTestFinished(async () => {
      await standby.end();
      if (slot) {
        await until('the slot is free', async () => {
          const { rows: left } = await admin.query('SELECT active FROM pg_replication_slots');
          return !left.some(({ active }) => active);
        });
        await admin.query(`SELECT pg_drop_replication_slot('standby')`);
      }
      await admin.end();
    });
    const horizon = () => found('vacuum horizon', { url: server.url, limits: { horizonXids: 1 } });
    await admin.query('CREATE TABLE IF NOT EXISTS y (); DROP TABLE y');
    const [one] = await until('the feedback arrived', async () => {
      const findings = await horizon();
      return findings.length > 0 ? findings : null;
    });
    expect(one).toMatchObject({
      level: 'problem',
      text: expect.stringContaining('standby (hot_standby_feedback)'),
      fix: expect.stringContaining('hot_standby_feedback = off'),
    });
  });

  test('a standby: said so, and everything is looked at that can be', async () => {
    writeFileSync(join(server.dataDir, 'standby.signal'), '');
    await server.restart();
    const findings = await ask({ url: server.url });
    expect(findings.find(({ check }) => check === 'server role')).toMatchObject({
      level: 'problem',
      text: expect.stringMatching(
        /^The server is a standby, .*only what can be read was looked at/,
      ),
    });
    expect(findings.find(({ check }) => check === 'schema drift')?.text).toContain('on a replica');
    expect(findings.filter(({ text }) => text.includes('could not be looked at'))).toEqual([]);
    expect(findings.map(({ check }) => check)).toEqual(
      expect.arrayContaining(['locks', 'workers', 'vacuum horizon']),
    );
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
    const full = (text: string, fix: string) => [
      { check: 'connections', text, fix: expect.stringContaining(fix) },
    ];
    expect(judge({ database: 'app', databaseLimit: 10, databaseConnections: 8 })).toMatchObject(
      full(
        '8 of 10 connections of the database "app" are in use.',
        'ALTER DATABASE "app" CONNECTION LIMIT -1;',
      ),
    );
  });

  test('one whose workers have a role with a connection limit', async () => {
    const user = `holdfast_few_${process.pid}`;
    await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret' CONNECTION LIMIT 1`);
    const url = new URL(db.url);
    [url.username, url.password] = [user, 'secret'];
    const client = new pg.Client({ connectionString: url.toString() });
    await client.connect();
    onTestFinished(async () => {
      await client.end();
      await db.rows(`DROP ROLE ${user}`);
    });
    expect(ill(await ask({}))).toMatchObject([
      {
        check: 'connections',
        text: `1 of 1 connections of the role "${user}" are in use. Held: 1 by "no name" (user ${user}, idle).`,
        fix: expect.stringContaining(`ALTER ROLE "${user}" CONNECTION LIMIT -1;`),
      },
    ]);
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

test('the fix of buckets leaves jobs with a group where they are', () => {
  const wrong = (bucketOf('a') + 1) % 1024;
  const row = { id: 'x', partitionKey: 'a', groupKey: null, partitionBucket: wrong, createdMs: 0 };
  expect(judgeBuckets({ schema: 'holdfast', queue: 'fair' }, true, [row])[0]?.fix).toContain(
    'WHERE partition_bucket <> holdfast.bucket_of(coalesce(group_key, partition_key))',
  );
});
