/**
 * One session idle in a transaction on `inbox` and one DDL behind it: whoever asks is told who it is within seconds, and
 * what is not locked is still seen.
 */
import pg from 'pg';
import { beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { ending } from '../../packages/holdfast/src/cli/errors.js';
import { Session } from '../../packages/holdfast/src/cli/session.js';
import { holdfast } from '../../packages/holdfast/src/index.js';
import { type Finding, LIMITS } from '../../packages/holdfast/src/inspect/doctor/doctor.js';
import {
  judgeLocks,
  judgeMaintenanceLock,
} from '../../packages/holdfast/src/inspect/doctor/locks.js';
import { explainJob } from '../../packages/holdfast/src/inspect/explain/explain.js';
import { overview } from '../../packages/holdfast/src/inspect/queue/overview.js';
import { readLocks } from '../../packages/holdfast/src/inspect/reading/locks.js';
import { maintenanceLock } from '../../packages/holdfast/src/maintenance/election.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { clearAll, plantJob, plantWorker } from '../support/cli-plant.js';
import { call, type Ran } from '../support/cli-run.js';
import { asking, eventsOf } from '../support/dashboard.js';
import { INBOX, testDatabase } from '../support/database.js';
import { examine, examineWith } from '../support/doctor.js';
import { quietLogger } from '../support/logger.js';
import { readScrape } from '../support/prometheus.js';
import { until } from '../support/until.js';

const db = testDatabase();
beforeAll(() => db.hf.createQueue('outbox'));
beforeEach(async () => {
  await clearAll(db);
  await plantWorker(db, { id: 'w1' });
});

async function session(application: string): Promise<pg.Client & { pid: number }> {
  const client = new pg.Client({ connectionString: db.url, application_name: application });
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end());
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  return Object.assign(client, { pid: rows[0].pid as number });
}

/** Somebody looked at the table and went to lunch; a deploy wants to change it. */
async function lockedOut() {
  const culprit = await session('report');
  await culprit.query('BEGIN');
  await culprit.query('SELECT count(*) FROM holdfast.inbox');
  const deploy = await session('deploy');
  await deploy.query('BEGIN');
  const changed = deploy.query('LOCK TABLE holdfast.inbox IN ACCESS EXCLUSIVE MODE').catch(String);
  await until('the deploy waits', async () => {
    const rows = await db.rows('SELECT FROM pg_locks WHERE NOT granted AND pid = $1', [deploy.pid]);
    return rows.length > 0;
  });
  return { culprit, deploy, changed };
}

/** What its connections are asked from now on, in order. */
function statementsSentBy({ pool }: Session): string[] {
  const sent: string[] = [];
  pool.on('connect', (client) => {
    const query = client.query as (...args: unknown[]) => unknown;
    client.query = ((what: string | { text: string }, ...rest: unknown[]) => {
      sent.push(typeof what === 'string' ? what : what.text);
      return query.call(client, what, ...rest);
    }) as typeof client.query;
  });
  return sent;
}

const asksWhoLocks = (text: string) => text.includes('pg_blocking_pids');

/** What the doctor says of locks first, without its other checks. */
const locks = async () =>
  judgeLocks(await readLocks(db.plain, 'holdfast'), { ...LIMITS, waitMs: 0 })[0];

const statementsOf = (fix: string | null | undefined) =>
  (fix ?? '').split('\n').filter((line) => line.endsWith(';'));

test('the doctor names who blocks whom first, every check that it could not make, and still makes the others', async () => {
  await plantJob(db, { queue: 'outbox', dueInMs: -3_600_000 });
  const { culprit, deploy } = await lockedOut();
  const asked = new Session(db.url, 'holdfast');
  const sent = statementsSentBy(asked);
  const findings = await examineWith(asked, { limits: { waitMs: 0 } });
  // Once to judge, and once for all the checks that meet the lock.
  expect(sent.filter(asksWhoLocks)).toHaveLength(2);
  expect(findings[0]).toMatchObject({
    check: 'locks',
    level: 'problem',
    text: expect.stringMatching(
      new RegExp(
        `^Session ${culprit.pid} \\(report, .*idle in transaction for .*blocks 1 session .*SELECT count.*` +
          `Session ${deploy.pid} \\(deploy, .*waits for AccessExclusiveLock on inbox for .*LOCK TABLE`,
      ),
    ),
  });
  const unseen = findings.filter(({ text }) => text.includes('could not be looked at'));
  expect(unseen.map(({ check }) => check)).toContain('jobs of inbox');
  expect(
    unseen.every(({ text }) => text.includes(`${culprit.pid}`) || text.includes('lock timeout')),
  ).toBe(true);
  // The other queue is seen, and so are the server and the fleet.
  expect(findings.find(({ check }) => check === 'oldest pending')?.text).toContain(
    '"outbox" has waited',
  );
  const well = findings.filter(({ level }) => level === 'ok').map(({ check }) => check);
  expect(well).toEqual(expect.arrayContaining(['fsync', 'workers', 'rights', 'vacuum horizon']));
  for (const sql of statementsOf(findings[0]?.fix)) await db.rows(sql);
  await until('the deploy has its lock', async () => {
    const rows = await db.rows('SELECT FROM pg_locks WHERE NOT granted AND pid = $1', [deploy.pid]);
    return rows.length === 0;
  });
});

test('status and explain say who it is, within seconds', async () => {
  const id = await plantJob(db);
  const { culprit } = await lockedOut();
  const asked = new Session(db.url, 'holdfast');
  onTestFinished(() => asked.close());
  const answers = await Promise.allSettled([
    asked.read((reader) => overview(reader, 'holdfast')),
    asked.read((reader) => explainJob(reader, 'holdfast', id)),
    db.hf.explain(id),
  ]);
  for (const answer of answers) {
    const error = answer.status === 'rejected' ? answer.reason : null;
    expect(error).toMatchObject({ code: 'LOCKED', cause: { code: '55P03' } });
    const { text, exit } = ending(error);
    expect(exit).toBe(1);
    expect(text).toMatch(
      /^The table holdfast\.inbox is locked\. Nothing was done: session \d+ \(report,/,
    );
    expect(text).toContain(`SELECT pg_terminate_backend(${culprit.pid});`);
  }
  // The queue that is not locked answers.
  const seen = await asked.read((reader) => overview(reader, 'holdfast', { queues: ['outbox'] }));
  expect(seen.queues).toHaveLength(1);
});

test('status, top, queues ls and workers ls show what is not locked, and name what is', async () => {
  await plantJob(db, { queue: 'outbox' });
  const { culprit } = await lockedOut();
  const run = (line: string) => call([...line.split(' '), '--url', db.url]);
  const end = `SELECT pg_terminate_backend(${culprit.pid});`;
  const said = expect.stringMatching(
    /The queue "inbox" could not be read\. The table .* is locked: /,
  );
  // Each waits for the lock for as long as it would alone.
  const lines = ['status', 'top --once', 'queues ls --json', 'workers ls --json'];
  const [status, top, queues, workers] = (await Promise.all(lines.map(run))) as [
    Ran,
    Ran,
    Ran,
    Ran,
  ];
  expect(status).toMatchObject({ code: 1, out: expect.stringMatching(/^outbox +1 /m), err: said });
  expect(status.err).toContain(end);
  expect(status.out).toContain('1 worker alive; it holds at least 0 jobs');
  expect(top).toMatchObject({ code: 1, out: said });
  expect(top.out).toMatch(/^outbox +1 [\s\S]*^w1 +alive +.* \? /m);
  expect(queues).toMatchObject({ code: 1, err: said });
  expect(JSON.parse(queues.out)).toMatchObject({ queue: 'outbox', pending: 1 });
  expect(workers).toMatchObject({ code: 1, err: said });
  expect(JSON.parse(workers.out)).toMatchObject({ id: 'w1', state: 'alive', held: null });
});

test('hf.queues, hf.workers and the dashboard show what is not locked, and say why the rest is not', async () => {
  await plantJob(db, { queue: 'outbox' });
  const { culprit } = await lockedOut();
  const hf = holdfast({ connectionString: db.url, logger: quietLogger });
  onTestFinished(() => hf.close());
  const stream = eventsOf(
    await asking(hf).handle(
      new Request('http://localhost/api/events', { headers: { host: 'localhost' } }),
    ),
  );
  onTestFinished(() => stream.close());
  const [queues, workers, event] = await Promise.all([hf.queues(), hf.workers(), stream.next()]);
  const unreadable = expect.stringMatching(
    new RegExp(`^The table holdfast\\.inbox is locked: .*pg_terminate_backend\\(${culprit.pid}\\)`),
  );
  expect(queues).toMatchObject([
    { queue: 'inbox', paused: false, createdAt: expect.any(Date), pending: null, unreadable },
    { queue: 'outbox', pending: 1, unreadable: null },
  ]);
  expect(workers).toMatchObject([{ id: 'w1', state: 'alive', held: null, expired: null }]);
  expect(event).toMatchObject({
    event: 'snapshot',
    data: {
      snapshot: {
        queues: [{ queue: 'outbox', pending: 1 }],
        unreadable: [{ queue: 'inbox', unreadable }],
        workers: [{ id: 'w1', held: null }],
      },
    },
  });
  expect(event?.data.snapshot.problems).toContainEqual({
    level: 'bad',
    text: expect.stringMatching(/^Queue inbox could not be read\. The table .* is locked: /),
    link: 'health',
  });
});

test('who holds the lock is asked with the settings and the time limit of a reading', async () => {
  await lockedOut();
  const asked = new Session(db.url, 'holdfast');
  onTestFinished(() => asked.close());
  const sent = statementsSentBy(asked);
  const seen = asked.read((reader) => overview(reader, 'holdfast', { queues: ['inbox'] }));
  await expect(seen).rejects.toMatchObject({ code: 'LOCKED' });
  const before = sent.slice(0, sent.findIndex(asksWhoLocks));
  expect(before.at(-1)).toMatch(/BEGIN.* READ ONLY;[\s\S]*jit = off;[\s\S]*statement_timeout = \d/);
});

test('a scrape of a locked queue: the database is up, the error is named, the other queues are there', async () => {
  await lockedOut();
  const metrics = collectMetrics(db.hf, { freshFor: 0, timeout: '30s' });
  onTestFinished(() => metrics.close());
  const scrape = readScrape(await metrics.text());
  expect(scrape.value('holdfast_database_up')).toBe(1);
  expect(scrape.value('holdfast_scrape_error', { queue: 'inbox', error: 'locked' })).toBe(1);
  expect(scrape.value('holdfast_jobs_pending', { queue: 'inbox' })).toBeUndefined();
  expect(scrape.value('holdfast_jobs_pending', { queue: 'outbox' })).toBe(0);
  expect(scrape.value('holdfast_workers', { status: 'alive' })).toBe(1);
});

test('who waits for a table of his own after an enqueue has nothing to do with the queue', async () => {
  await db.rows('CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1), (2)');
  onTestFinished(async () => void (await db.rows('DROP TABLE orders')));
  const holder = await session('report');
  await holder.query('BEGIN; UPDATE orders SET id = id WHERE id = 1');
  const shop = await session('shop');
  await shop.query('BEGIN');
  await shop.query(`INSERT INTO holdfast.inbox (type, payload) VALUES ('t', '{}')`);
  const update = shop.query('UPDATE orders SET id = id WHERE id = 1').catch(String);
  const waits = async ({ pid }: { pid: number }) =>
    (await db.rows('SELECT FROM pg_locks WHERE NOT granted AND pid = $1', [pid])).length > 0;
  await until('the shop waits for its order', () => waits(shop));
  expect(await locks()).toMatchObject({ level: 'ok' });
  // A change of the queue waits for the shop, and so for whoever the shop waits for.
  const deploy = await session('deploy');
  const changed = deploy.query('BEGIN; LOCK TABLE holdfast.inbox').catch(String);
  await until('the deploy waits', () => waits(deploy));
  const found = await locks();
  expect(found?.text).toMatch(new RegExp(`^Session ${holder.pid} \\(report,`));
  expect(found?.text).toContain('waits for a lock outside of this schema');
  for (const line of statementsOf(found?.fix)) await db.rows(line);
  await update;
  await shop.query('ROLLBACK');
  await changed;
});

test('who waits for a key that another one is inserting waits for that one', async () => {
  const first = await session('first');
  await first.query('BEGIN');
  const key = `INSERT INTO holdfast.inbox_idempotency (key, job_id, fingerprint, expires_at)
    VALUES ('k', gen_random_uuid(), '', now())`;
  await first.query(key);
  const second = await session('second');
  const inserted = second.query(key).catch(String);
  await until('the second waits', async () => {
    const rows = await db.rows('SELECT FROM pg_locks WHERE NOT granted AND pid = $1', [second.pid]);
    return rows.length > 0;
  });
  const found = await locks();
  expect(found?.text).toMatch(new RegExp(`^Session ${first.pid} .*blocks 1 session`));
  expect(found?.text).toContain('waits for a row of inbox_idempotency');
  await first.query('ROLLBACK');
  await inserted;
  await db.rows('DELETE FROM holdfast.inbox_idempotency');
});

test('who sits idle in a transaction on a queue is noted, before anybody waits for him', async () => {
  const culprit = await session('psql');
  await culprit.query('BEGIN');
  await culprit.query(`UPDATE holdfast.inbox SET last_error = 'x' WHERE false`);
  const examined = (limits = {}) => examine(db.url, { limits, compared: false });
  expect(await examined()).toContainEqual(expect.objectContaining({ check: 'locks', level: 'ok' }));
  const [one] = await examined({ idleMs: 0 });
  expect(one).toMatchObject({
    check: 'locks',
    level: 'note',
    text: expect.stringMatching(/touched inbox.*its last statement: UPDATE holdfast\.inbox/),
    fix: expect.stringContaining(`pg_terminate_backend(${culprit.pid})`),
  });
});

test.each([
  ['the advisory lock', `SELECT pg_advisory_xact_lock(${maintenanceLock(INBOX).join(', ')})`],
  ['a row of the table queues', `UPDATE holdfast.queues SET paused = paused WHERE name = 'inbox'`],
])('who holds what maintenance needs: %s', async (_, sql) => {
  const culprit = await session('psql');
  await culprit.query('BEGIN');
  await culprit.query(sql);
  const held = async (lockedMs: number): Promise<Finding[]> => {
    const findings = await examine(db.url, { limits: { lockedMs }, compared: false });
    return findings.filter(
      ({ check, level }) => check === 'maintenance lock' && level === 'problem',
    );
  };
  expect(await held(3_600_000)).toEqual([]);
  const [one] = await held(0);
  expect(one?.text).toMatch(
    new RegExp(`^Session ${culprit.pid} \\(psql, .*maintenance of "inbox" needs`),
  );
  for (const line of statementsOf(one?.fix)) await db.rows(line);
  expect(await held(0)).toEqual([]);
});

test('a user who may not see since when it is held goes by when maintenance last began', async () => {
  const user = `holdfast_hidden_${process.pid}`;
  await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA holdfast TO ${user};
    GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO ${user}`);
  onTestFinished(async () => void (await db.rows(`DROP OWNED BY ${user}; DROP ROLE ${user}`)));
  const url = new URL(db.url);
  [url.username, url.password] = [user, 'secret'];
  const culprit = await session('psql');
  await culprit.query('BEGIN');
  await culprit.query(`SELECT pg_advisory_xact_lock(${maintenanceLock(INBOX).join(', ')})`);
  await db.rows(`UPDATE holdfast.queues SET maintained_at = now() - interval '1 minute'`);
  const found = (await examine(url.href)).find(
    ({ check, text }) => check === 'maintenance lock' && text.includes('inbox'),
  );
  expect(found).toMatchObject({
    level: 'problem',
    text: expect.stringMatching(new RegExp(`^Session ${culprit.pid} .*the last began 1 min.* ago`)),
  });
  // Of a round that has just begun it is no news.
  const holder = { what: 'the lock', pid: '1', application: 'x', userName: 'y' };
  const hidden = [{ ...holder, state: null, openMs: null }];
  expect(judgeMaintenanceLock('inbox', hidden, LIMITS, 9_000)).toMatchObject([{ level: 'ok' }]);
});

test('an index that is mended as it is printed keeps nobody from enqueueing', async () => {
  await db.rows('DROP INDEX holdfast.outbox_dead_idx');
  const drift = (await examine(db.url)).find(
    ({ check, level }) => check === 'schema drift' && level === 'problem',
  );
  const writer = await session('writer');
  await writer.query('BEGIN');
  await writer.query(`INSERT INTO holdfast.outbox (type, payload) VALUES ('t', '{}')`);
  const mender = await session('mender');
  const mended = mender.query(statementsOf(drift?.fix)[0] as string);
  await until('the index waits for the writer', async () => {
    const rows = await db.rows('SELECT FROM pg_locks WHERE NOT granted AND pid = $1', [mender.pid]);
    return rows.length > 0;
  });
  await db.rows(
    `SET lock_timeout = 1000; INSERT INTO holdfast.outbox (type, payload) VALUES ('t', '{}'); RESET lock_timeout`,
  );
  await writer.query('COMMIT');
  await mended;
  expect((await examine(db.url)).find(({ check }) => check === 'schema drift')).toMatchObject({
    level: 'ok',
  });
});
