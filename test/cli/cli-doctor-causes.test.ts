/** Causes that lie beside the tables: settings of roles, connections, clocks, the server's log and its WAL. */
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { judgeLogging } from '../../packages/holdfast/src/inspect/doctor/cause/logging.js';
import { judgeRoleSettings } from '../../packages/holdfast/src/inspect/doctor/cause/role-settings.js';
import {
  judgeArchiver,
  judgeSlots,
  judgeWal,
} from '../../packages/holdfast/src/inspect/doctor/cause/wal.js';
import { type Finding, LIMITS } from '../../packages/holdfast/src/inspect/doctor/doctor.js';
import { judgeLocks } from '../../packages/holdfast/src/inspect/doctor/locks.js';
import { listWorkers } from '../../packages/holdfast/src/inspect/fleet/workers.js';
import { readLocks } from '../../packages/holdfast/src/inspect/reading/locks.js';
import { readingOn } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { clearAll, plantJob, plantWorker } from '../support/cli-plant.js';
import { call } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { type Examination, examine } from '../support/doctor.js';
import { readScrape } from '../support/prometheus.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
beforeEach(async () => {
  await clearAll(db);
  await plantWorker(db, { id: 'w1' });
});

async function found(check: string, options: Examination = {}): Promise<Finding[]> {
  const findings = await examine(db.url, { compared: false, ...options });
  return findings.filter((one) => one.check === check && one.level !== 'ok');
}

const statementsOf = (fix: string | null | undefined) =>
  (fix ?? '').split('\n').filter((line) => line.endsWith(';'));

describe('settings of a role that works here', () => {
  const user = `holdfast_slow_${process.pid}`;
  let client: pg.Client;
  beforeEach(async () => {
    await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
    const url = new URL(db.url);
    [url.username, url.password] = [user, 'secret'];
    client = new pg.Client({ connectionString: url.toString(), application_name: 'holdfast' });
    await client.connect();
  });
  afterEach(async () => {
    await client.end();
    await db.rows(`DROP ROLE ${user}`);
  });

  const SETTINGS = [
    ['statement_timeout', "'50ms'", 'statement_timeout', 'problem'],
    ['statement_timeout', "'5s'", 'statement_timeout', 'note'],
    ['lock_timeout', "'5ms'", 'lock_timeout', 'problem'],
    [
      'idle_in_transaction_session_timeout',
      "'1s'",
      'idle_in_transaction_session_timeout',
      'problem',
    ],
    ['default_transaction_read_only', 'on', 'read only', 'problem'],
    ['synchronous_commit', 'off', 'synchronous_commit', 'problem'],
    ['search_path', 'shop, pg_catalog', 'search_path', 'problem'],
  ] as const;

  test('that harm are found, each with whose it is, and mended by what is printed', async () => {
    const { pathname } = new URL(db.url);
    for (const where of ['', ` IN DATABASE ${pathname.slice(1)}`]) {
      for (const [name, value, check, level] of SETTINGS) {
        await db.rows(`ALTER ROLE ${user}${where} SET ${name} = ${value}`);
        const findings = await settings();
        expect(findings, name).toMatchObject([
          { check, level, text: expect.stringContaining(`for the role ${user}`) },
        ]);
        for (const sql of statementsOf(findings[0]?.fix)) await db.rows(sql);
        expect(await settings()).toEqual([]);
      }
    }
  });

  test('that do no harm are not spoken of', async () => {
    await db.rows(`ALTER ROLE ${user} SET statement_timeout = '1min';
      ALTER ROLE ${user} SET idle_in_transaction_session_timeout = '5min';
      ALTER ROLE ${user} SET lock_timeout = '2s'; ALTER ROLE ${user} SET search_path = shop, public`);
    expect(await settings()).toEqual([]);
  });

  /** Only this check: the rest of the doctor is slower. */
  async function settings(): Promise<Finding[]> {
    const { readRoleSettings } = await import(
      '../../packages/holdfast/src/inspect/doctor/cause/role-settings.js'
    );
    return judgeRoleSettings(await readRoleSettings(db.engine, 'holdfast', [user]));
  }

  test('are looked for by the doctor', async () => {
    await db.rows(`ALTER ROLE ${user} SET statement_timeout = '50ms'`);
    expect(await found('statement_timeout')).toMatchObject([{ level: 'problem' }]);
  });
});

test('limits of the user who asks do not end the questions', async () => {
  const name = new URL(db.url).pathname.slice(1);
  await db.rows(`ALTER DATABASE ${name} SET idle_in_transaction_session_timeout = '1min'`);
  onTestFinished(
    async () =>
      void (await db.rows(`ALTER DATABASE ${name} RESET idle_in_transaction_session_timeout`)),
  );
  const pool = new pg.Pool({ connectionString: db.url, max: 1 });
  onTestFinished(() => pool.end());
  const text = `SELECT current_setting('idle_in_transaction_session_timeout') AS limit`;
  expect((await pool.query(text)).rows).toEqual([{ limit: '1min' }]);
  const { rows } = await readingOn(pool, (client) => client.query(text), {});
  expect(rows).toEqual([{ limit: '0' }]);
});

test('few connections are left: who has them is said', async () => {
  const [one] = await found('connections', { limits: { connectionShare: 0 } });
  expect(one?.text).toMatch(/ Held: \d+ by ".*" \(user \w+, (idle|active)[^)]*\)/);
});

test('who waits for a lock and enqueues is counted; a superuser’s session needs one to end it', async () => {
  const holder = new pg.Client({ connectionString: db.url });
  await holder.connect();
  await holder.query('BEGIN; LOCK TABLE holdfast.inbox IN SHARE MODE');
  const enqueued = db.hf.enqueue(job('t'), {}).catch(() => undefined);
  await until('it waits', async () => {
    const text = `SELECT FROM pg_locks WHERE NOT granted AND relation = 'holdfast.inbox'::regclass`;
    return (await db.rows(text)).length > 0;
  });
  const sessions = judgeLocks(await readLocks(db.engine, 'holdfast'), { ...LIMITS, waitMs: 0 });
  await holder.query('ROLLBACK');
  await holder.end();
  await enqueued;
  expect(sessions).toMatchObject([
    {
      text: expect.stringContaining('blocks 1 session, one of which enqueues'),
      fix: expect.stringMatching(
        /superuser: pg_signal_backend is not enough.*\nSELECT pg_terminate/,
      ),
    },
  ]);
});

describe('clocks', () => {
  test.each([
    [90_000, 'problem', 'is 1 min 29 s ahead'],
    [-10_000, 'note', 'is 9 s behind'],
  ])('of a worker that is off by %i ms', async (aheadMs, level, words) => {
    await plantWorker(db, { id: 'w9', metadata: { clock: { aheadMs, withinMs: 500 } } });
    expect(await found('clock')).toMatchObject([
      { level, text: expect.stringContaining(`w9 ${words}`) },
    ]);
  });

  test('of a worker that is as far off as the way there takes is not spoken of', async () => {
    await plantWorker(db, { metadata: { clock: { aheadMs: 5_000, withinMs: 5_000 } } });
    expect(await found('clock')).toEqual([]);
  });

  test('of a producer that is ahead', async () => {
    const later = (Date.now() + 3_600_000).toString(16).padStart(12, '0');
    const id = `${later.slice(0, 8)}-${later.slice(8)}-7000-8000-000000000001`;
    await plantJob(db, { id });
    expect(await found('clock')).toMatchObject([
      { level: 'note', text: expect.stringContaining('the clock of who enqueued it is ahead') },
    ]);
  });

  test('are told by workers', async () => {
    const { worker } = start(db.hf, (w) => w.handle(job('t'), () => undefined), {
      heartbeat: '50ms',
    });
    const clock = await until('it tells', async () => {
      const rows = await listWorkers(db.engine, 'holdfast', {});
      const { metadata } = rows.find(({ id }) => id === worker.id) ?? {};
      return (metadata as { clock?: { aheadMs: number; withinMs: number } } | undefined)?.clock;
    });
    // One machine, one clock.
    expect(Math.abs(clock.aheadMs)).toBeLessThanOrEqual(clock.withinMs + 1_000);
  });
});

describe('the server’s log', () => {
  const QUIET = {
    statements: 'none',
    slowMs: -1,
    sampleMs: -1,
    parameters: -1,
    onError: 0,
    sampled: false,
  };

  test.each([
    ['nothing is logged', QUIET, []],
    ['all is logged without parameters', { ...QUIET, statements: 'all', parameters: 0 }, []],
    ['all is logged', { ...QUIET, statements: 'all' }, ['problem']],
    ['what writes is logged', { ...QUIET, statements: 'mod', parameters: 100 }, ['problem']],
    ['all with its duration', { ...QUIET, slowMs: 0 }, ['problem']],
    ['what is slow', { ...QUIET, slowMs: 1_000 }, ['note']],
    ['parameters of errors', { ...QUIET, onError: -1 }, ['note']],
  ] as const)('%s', (_, logging, levels) => {
    const findings = judgeLogging(logging).filter(({ level }) => level !== 'ok');
    expect(findings.map(({ level }) => level)).toEqual(levels);
  });

  test('is looked at, and mended by what is printed', async () => {
    const name = new URL(db.url).pathname.slice(1);
    await db.rows(`ALTER DATABASE ${name} SET log_statement = 'mod'`);
    const check = 'payloads in logs';
    const [one] = await found(check);
    expect(one).toMatchObject({
      level: 'problem',
      text: expect.stringContaining('log_statement is mod'),
    });
    onTestFinished(async () => {
      await db.rows(`ALTER DATABASE ${name} RESET log_statement`);
      await db.rows('ALTER SYSTEM RESET log_parameter_max_length');
      await db.rows('SELECT pg_reload_conf()');
    });
    for (const sql of statementsOf(one?.fix)) await db.rows(sql);
    await until('the server has read it', async () => (await found(check)).length === 0);
  });
});

describe('the WAL', () => {
  const GB = 1024 ** 3;

  test('that a slot holds is said, and what is printed lets it go', async () => {
    const name = `holdfast_${process.pid}`;
    await db.rows(`SELECT pg_create_physical_replication_slot('${name}', true)`);
    const slot = { name, active: false, walStatus: 'extended', bytes: 3 * GB };
    const [one] = judgeSlots([slot]);
    expect(one).toMatchObject({
      level: 'problem',
      text: expect.stringContaining('holds 3.0 GB of WAL'),
    });
    for (const sql of statementsOf(one?.fix)) await db.rows(sql);
    expect(await db.rows(`SELECT FROM pg_replication_slots WHERE slot_name = '${name}'`)).toEqual(
      [],
    );
    expect(
      judgeSlots([
        { ...slot, bytes: 10_000 },
        { ...slot, active: true },
      ]),
    ).toEqual([]);
    expect(judgeSlots([{ ...slot, walStatus: 'lost', bytes: null }])).toHaveLength(1);
  });

  test('that cannot be archived, or is far more than it should be', () => {
    const failing = { archives: true, failing: true, wal: '0000000100000001', archivedMs: 60_000 };
    expect(judgeArchiver(failing)).toMatchObject([{ level: 'problem' }]);
    expect(judgeArchiver({ ...failing, failing: false })).toEqual([]);
    expect(judgeArchiver({ ...failing, archives: false })).toEqual([]);
    expect(judgeWal({ bytes: 9 * GB, wanted: GB })).toMatchObject([{ level: 'problem' }]);
    expect(judgeWal({ bytes: 2 * GB, wanted: GB })).toMatchObject([{ level: 'ok' }]);
  });
});

test('a scrape that is slow is no database that is down', async () => {
  const source = {
    onEvent: () => () => undefined,
    gauges: () => new Promise<never>(() => undefined),
  };
  const slow = collectMetrics(
    { ...source, migrationStates: () => db.hf.migrationStates() },
    { timeout: '1ms', freshFor: 0 },
  );
  for (let n = 0; n < 2; n++) {
    const scrape = readScrape(await slow.text());
    expect(scrape.value('holdfast_database_up')).toBe(1);
    expect(scrape.value('holdfast_scrape_error', { queue: '', error: 'slow' })).toBe(1);
  }
  const away = collectMetrics(
    { ...source, migrationStates: () => Promise.reject(new Error('gone')) },
    { timeout: '1ms', freshFor: 0 },
  );
  expect(readScrape(await away.text()).value('holdfast_database_up')).toBe(0);
});

test('groups of dead letters say what they leave out', async () => {
  await db.rows(`INSERT INTO holdfast.inbox (type, payload, status, available_at, parked, last_error, partition_key, partition_bucket)
    SELECT 't' || n, '{}', 'dead_letter', 'infinity', true, 'no', 'k', holdfast.bucket_of('k') FROM generate_series(1, 103) AS n`);
  const ran = await call(['dead-letters', 'groups', '--url', db.url]);
  expect(ran.err).toContain('Only the largest 100 of 103 groups of "inbox" are shown.');
  expect(ran.err).not.toContain('were read');
});

test('the time that a dead worker was up has an end', async () => {
  await db.rows(`INSERT INTO holdfast.workers (id, status, started_at, last_seen_at, left_at)
    VALUES ('left', 'dead', now() - interval '2 hours', now() - interval '1 hour', now() - interval '1 hour'),
      ('lost', 'dead', now() - interval '2 hours', now() - interval '1 hour', NULL)`);
  const rows = await listWorkers(db.engine, 'holdfast', { withDead: true });
  for (const id of ['left', 'lost'])
    expect(rows.find((row) => row.id === id)?.upMs).toBe(3_600_000);
});
