/**
 * Maintenance: what vanished workers held comes back, what is past its retention goes, and of a fleet one
 * does it, a batch at a time.
 */
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { claimSuspects } from '../../packages/holdfast/src/claim/suspects.js';
import { findGone } from '../../packages/holdfast/src/fleet/liveness.js';
import { fleetView } from '../../packages/holdfast/src/fleet/registry.js';
import { job } from '../../packages/holdfast/src/index.js';
import { isolate } from '../../packages/holdfast/src/lease/marks.js';
import { maintenanceLock, winElection } from '../../packages/holdfast/src/maintenance/election.js';
import {
  forgetDeadClaims,
  PAGES_A_ROUND,
  recoverJobs,
} from '../../packages/holdfast/src/maintenance/recover.js';
import { sweepDeadWorkers } from '../../packages/holdfast/src/maintenance/sweep.js';
import { enginePool, withTransaction } from '../../packages/holdfast/src/postgres/connect/pool.js';
import type { Names } from '../../packages/holdfast/src/postgres/names.js';
import { type Executor, engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { load } from '../../packages/holdfast/src/postgres/statement.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { release } from '../../packages/holdfast/src/settle/release.js';
import { maintenanceServices } from '../../packages/holdfast/src/worker/services/maintenance.js';
import { newRecovery } from '../../packages/holdfast/src/worker/services/recovery.js';
import { systemTime } from '../../packages/holdfast/src/worker/time.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { buffers, explainedAndUndone, planSession } from '../support/plans.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const work = job<object>('work');
const types = ['work'];
const TTL_MS = 500;
let engine: pg.Pool;

beforeAll(() => {
  engine = enginePool({ connectionString: db.url }, 10, quietLogger);
});
afterAll(() => engine.end());

const TABLES = [
  'inbox',
  'inbox_claims',
  'inbox_archive',
  'inbox_idempotency',
  'inbox_effects',
  'workers',
];
const again = () => db.rows(`UPDATE holdfast.queues SET maintained_at = NULL, serviced_at = '{}'`);

beforeEach(async () => {
  for (const table of TABLES) await db.rows(`DELETE FROM holdfast.${table}`);
  await again();
  await db.hf.resume();
});

/** What a worker does that wins the election. Null: it was not elected. */
async function round(names: Names = INBOX, pool: pg.Pool = engine) {
  const on = engineExecutor(pool, { prepare: true });
  const dead: string[] = [];
  const done = new Map<string, number>();
  const withBitmaps = <Value>(work: (tx: Executor) => Promise<Value>) =>
    withTransaction(
      pool,
      (client) => work(engineExecutor(client, { prepare: true })),
      'BEGIN; SET LOCAL enable_bitmapscan = on',
    );
  const given = { names, workerId: 'sweeper', ttlMs: TTL_MS, maySweep: true };
  const recovery = newRecovery({
    ...{ schema: names.schema, engine: on, workerId: () => given.workerId, time: systemTime },
    ...{ emit() {}, reportError() {}, log: quietLogger },
  });
  onTestFinished(() => recovery.stop());
  const services = maintenanceServices(60_000, recovery, (ids) => void dead.push(...ids));
  const due = await winElection(on, names, 60_000, services);
  if (!due) return null;
  for (const { name, run } of services)
    if (due.has(name)) done.set(name, await run({ ...given, engine: on, withBitmaps }));
  const pruned = [...done].reduce((sum, [name, n]) => sum + (name.startsWith('prune') ? n : 0), 0);
  return { dead, recovered: done.get('recover'), pruned };
}

async function claimed(options: { maxAttempts?: number } = {}, by = 'w1') {
  await db.hf.enqueue(work, {}, options);
  const [row] = await claimAs(db.engine, by, { types });
  return heldOf(row!);
}

const expire = () =>
  db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second'
    WHERE status = 'processing'`);
const rowOf = async (id: string) =>
  (await db.rows('SELECT * FROM holdfast.inbox WHERE id = $1', [id]))[0]!;

describe('recovery', () => {
  test('a job whose lease ran out is pending again, at its old place, with no attempt spent', async () => {
    const { id } = await claimed();
    const before = await rowOf(id);
    await expire();
    expect(await round()).toMatchObject({ recovered: 1 });
    const row = await rowOf(id);
    expect(row).toMatchObject({
      status: 'pending',
      claimed_by: null,
      claimed_at: null,
      lease_expires_at: null,
      attempts: 0,
      crashes: 1,
      lease_generation: '1',
      last_error: expect.stringContaining('w1 vanished'),
      history: [{ attempt: 1, worker: 'w1', outcome: 'vanished', spent: false }],
    });
    expect(row.available_at).toEqual(before.available_at);
    expect(row.position).toEqual(before.position);
  });

  test('a job whose lease lives is left alone', async () => {
    const { id } = await claimed();
    const before = await rowOf(id);
    expect(await round()).toMatchObject({ recovered: 0 });
    expect(await rowOf(id)).toEqual(before);
  });

  test.each([
    ['lately', '1 minute'],
    ['hours ago, and nobody missed it', '3 hours'],
  ])(
    'a job of a worker that died %s comes back at once, however long its lease',
    async (_, ago) => {
      const mine = await claimed({}, 'alive');
      const { id } = await claimed({}, 'silent');
      await db.rows(
        `INSERT INTO holdfast.workers (id, last_seen_at)
       VALUES ('silent', now() - $1::interval), ('alive', now())`,
        [ago],
      );
      expect(await round()).toMatchObject({ recovered: 1, dead: ['silent'] });
      expect(await rowOf(id)).toMatchObject({ status: 'pending', attempts: 0 });
      expect(await rowOf(mine.id)).toMatchObject({ status: 'processing', claimed_by: 'alive' });
    },
  );

  test('a crash while the job ran alone spends the attempt, and makes it a dead letter if that was the last', async () => {
    const first = await claimed({ maxAttempts: 2 });
    const last = await claimed({ maxAttempts: 1 });
    for (const held of [first, last]) await isolate(db.engine, INBOX, 'w1', held);
    await begun();
    await expire();
    expect(await round()).toMatchObject({ recovered: 2 });
    expect(await rowOf(first.id)).toMatchObject({ status: 'pending', attempts: 1, crashes: 1 });
    expect(await rowOf(last.id)).toMatchObject({
      status: 'dead_letter',
      attempts: 1,
      last_error: expect.stringContaining('vanished'),
      history: [{ outcome: 'vanished', spent: true }],
    });
    expect(await claimAs(db.engine, 'w2', { types })).toHaveLength(1);
  });

  /** As a worker claims it after a crash, whether it is a suspect by then or not. */
  async function claimAgain(number: number): Promise<boolean> {
    if ((await claimAs(db.engine, 'w1', { types })).length > 0) return false;
    const terms = { workerId: 'w1', leaseMs: 90_000, number, finished: [], limit: 100 };
    const { jobs, alone } = await claimSuspects(db.engine, INBOX, {
      ...terms,
      versions: { work: 1 },
    });
    expect(jobs).toHaveLength(1);
    return alone;
  }

  /** The handlers of all that is claimed were called. */
  const begun = () =>
    db.rows(`UPDATE holdfast.inbox SET started = true WHERE status = 'processing'`);

  test('a crash in company never makes a dead letter, though it was the last attempt; one alone does', async () => {
    const { id } = await claimed({ maxAttempts: 1 });
    const alone: boolean[] = [];
    for (let crash = 1; crash <= 4; crash++) {
      await begun();
      await expire();
      await again();
      await round();
      expect(await rowOf(id)).toMatchObject({ status: 'pending', attempts: 0, crashes: crash });
      alone.push(await claimAgain(1_000_000 + crash));
    }
    expect(alone).toEqual([false, false, false, true]);
    await begun();
    await expire();
    await again();
    await round();
    expect(await rowOf(id)).toMatchObject({ status: 'dead_letter', attempts: 1, crashes: 5 });
  });

  test('a job that took its worker along twenty times becomes a dead letter, though it never ran alone', async () => {
    const { id } = await claimed();
    await db.rows('UPDATE holdfast.inbox SET crashes = 18, started = true');
    await expire();
    await round();
    expect(await rowOf(id)).toMatchObject({ status: 'pending', crashes: 19 });
    await claimAgain(1);
    await db.rows('UPDATE holdfast.inbox SET isolated = false, started = true');
    await expire();
    await again();
    await round();
    expect(await rowOf(id)).toMatchObject({ status: 'dead_letter', attempts: 0, crashes: 20 });
  });

  test('what a dead worker held is found behind any backlog, and its claims are forgotten with it', async () => {
    const held = await claimed({}, 'gone');
    const mine = await claimed({}, 'alive');
    await db.rows(`INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, available_at, parked)
      SELECT 'work', 'k', 0, '{}', now() - interval '1 hour', false FROM generate_series(1, 20000)`);
    await db.rows(
      `INSERT INTO holdfast.workers (id, status) VALUES ('gone', 'dead'), ('alive', 'alive')`,
    );
    expect(await round()).toMatchObject({ recovered: 1 });
    expect(await rowOf(held.id)).toMatchObject({ status: 'pending', crashes: 1 });
    expect(await rowOf(mine.id)).toMatchObject({ status: 'processing' });
    expect(await db.rows('SELECT worker_id, jobs FROM holdfast.inbox_claims')).toEqual([
      { worker_id: 'alive', jobs: [mine.id] },
    ]);
  });

  test.each([
    ['recover', recoverJobs],
    ['forget claims', forgetDeadClaims],
  ])('to %s reads what is held, and not what waits', async (_, statement) => {
    await claimed({}, 'alive');
    await db.rows(`INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, parked)
      SELECT 'work', 'k', 0, '{}', false FROM generate_series(1, 20000)`);
    await db.rows('UPDATE holdfast.inbox_claims SET claimed_at = now() - interval $$1 hour$$');
    const session = await planSession(db.url);
    onTestFinished(() => session.end());
    // Whether the statistics know of the backlog or not.
    for (const knows of [false, true]) {
      if (knows) await db.rows('ANALYZE holdfast.inbox');
      const text = ['1000', "'sweeper'", '1', "'(0,0)'", "'(0,0)'", "'{}'"].reduce(
        (on, value, nth) => on.replaceAll(`$${nth + 1}`, value),
        statement.text,
      );
      const { rows } = await session.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`);
      expect(buffers(rows[0]['QUERY PLAN'][0].Plan)).toBeLessThan(60);
    }
  });

  /** As programs in other languages do it: without a row in `inbox_claims`. */
  const claimByHand = (id: string, expiresIn: string) =>
    db.rows(
      `UPDATE holdfast.inbox SET status = 'processing', claimed_by = 'by hand', attempts = attempts + 1,
         lease_expires_at = now() + $2::interval, lease_generation = lease_generation + 1
       WHERE id = $1`,
      [id, expiresIn],
    );
  const nobodys = job<object>('nobodys');

  test('a claim made by hand comes back when its lease is over, though nobody handles its type', async () => {
    // Earlier tests have left a large table behind.
    await db.rows('TRUNCATE holdfast.inbox');
    const { id } = await db.hf.enqueue(nobodys, {});
    await claimByHand(id, '1 minute');
    expect(await round()).toMatchObject({ recovered: 0 });
    await expire();
    await again();
    expect(await round()).toMatchObject({ recovered: 1 });
    expect(await rowOf(id)).toMatchObject({ status: 'pending', attempts: 0, claimed_by: null });
  });

  test('a claim made by hand comes back also beside a worker that handles something else', async () => {
    const { id } = await db.hf.enqueue(nobodys, {});
    await claimByHand(id, '-1 second');
    start(db.hf, (worker) => worker.handle(work, () => undefined), { maintenance: '200ms' });
    await until('it waits again', async () => (await rowOf(id)).status === 'pending');
  });

  test('in a large queue a round reads a bounded part of it, and the next ones go on from there', async () => {
    await db.rows('TRUNCATE holdfast.inbox');
    const waiting = (jobs: number) =>
      db.rows(
        `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, parked)
         SELECT 'nobodys', 'k', 0, jsonb_build_object('text', repeat('x', 1000)), false
         FROM generate_series(1, $1::int)`,
        [jobs],
      );
    await waiting(14_000);
    const { id } = await db.hf.enqueue(nobodys, {});
    await waiting(10);
    await claimByHand(id, '-1 second');
    const [size] = await db.rows<{ pages: number }>(
      `SELECT (pg_relation_size('holdfast.inbox') / 8192)::int AS pages`,
    );
    const pages = size?.pages as number;
    expect(pages).toBeGreaterThan(2 * PAGES_A_ROUND);
    const session = await planSession(db.url);
    onTestFinished(() => session.end());
    await session.query(`PREPARE recover AS ${load(recoverJobs, INBOX).text}`);
    const params = [1_000, 'me', 1, '(2000,0)', '(4000,0)', '{}'];
    const plan = await explainedAndUndone(session, 'recover', params);
    expect(buffers(plan)).toBeLessThan(PAGES_A_ROUND + 100);

    const recovered: (number | undefined)[] = [];
    for (let read = 0; read < pages; read += PAGES_A_ROUND) {
      recovered.push((await round())?.recovered);
      await db.rows('UPDATE holdfast.queues SET maintained_at = NULL');
      await db.rows(`UPDATE holdfast.queues SET serviced_at = serviced_at - 'recover'`);
    }
    expect(recovered.at(-1)).toBe(1);
    // And then from the front.
    await claimByHand(id, '-1 second');
    const first = await db.rows<{ id: string }>(
      'SELECT id FROM holdfast.inbox ORDER BY ctid LIMIT 1',
    );
    await claimByHand(first[0]?.id as string, '-1 second');
    expect(await round()).toMatchObject({ recovered: 1 });
    expect(await rowOf(first[0]?.id as string)).toMatchObject({ status: 'pending' });
    await db.rows('TRUNCATE holdfast.inbox');
  });

  test('a suspect whose lease ran out comes back although nobody remembers its claim', async () => {
    const { id } = await claimed();
    await db.rows('UPDATE holdfast.inbox SET crashes = 2, started = true');
    await db.rows('DELETE FROM holdfast.inbox_claims');
    expect(await round()).toMatchObject({ recovered: 0 });
    await expire();
    await again();
    expect(await round()).toMatchObject({ recovered: 1 });
    expect(await rowOf(id)).toMatchObject({ status: 'pending', crashes: 3, attempts: 0 });
  });

  test('a suspect whose worker lost its lease, and lives, comes back', async () => {
    const { id } = await db.hf.enqueue(work, {}, { delay: '1h' });
    await db.rows('UPDATE holdfast.inbox SET crashes = 4, available_at = now() WHERE id = $1', [
      id,
    ]);
    // The worker must not take the round itself, which is due when none was ever made.
    await db.rows('UPDATE holdfast.queues SET maintained_at = now()');
    const generations: number[] = [];
    const rare = { maintenance: '1h', lease: '10s', renewEvery: '50ms' } as const;
    const first = start(
      db.hf,
      (w) =>
        w.handle(work, async ({ id: job, fenceToken, signal }) => {
          if (job !== id) return;
          generations.push(fenceToken);
          if (fenceToken > 1) return;
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        }),
      rare,
    );
    await until('it runs', () => generations.length === 1);
    await expire();
    await until('it is lost', () => first.worker.stats.lost === 1);
    // It goes on, and forgets the claims that it has finished.
    for (let n = 1; n <= 3; n++) {
      await db.hf.enqueue(work, {});
      await until('it goes on', () => first.worker.stats.completed === n);
    }
    await again();
    expect(await round()).toMatchObject({ recovered: 1 });
    await until('it runs again', () => generations.length === 2);
    await until('it is completed', async () => (await db.hf.job(id))?.status === 'completed');
  });

  test('the history of a job that vanishes again and again stays bounded', async () => {
    const { id } = await claimed();
    await db.rows(
      `UPDATE holdfast.inbox
       SET history = (SELECT jsonb_agg(jsonb_build_object('attempt', n)) FROM generate_series(1, 20) AS n)`,
    );
    await expire();
    await round();
    const { history } = (await rowOf(id)) as { history: object[] };
    expect(history).toHaveLength(20);
    expect(history[0]).toEqual({ attempt: 2 });
    expect(history[19]).toMatchObject({ outcome: 'vanished' });
  });

  test('it works on a paused queue, and on types that nobody handles', async () => {
    const { id } = await claimed();
    await expire();
    await db.hf.pause();
    const { worker } = start(db.hf, (w) => w.handle(job('other'), () => undefined), {
      maintenance: '50ms',
    });
    await until('it is pending', async () => (await rowOf(id)).status === 'pending');
    expect(worker.stats.claimed).toBe(0);
  });

  test('a row that somebody has locked is passed over, not waited for', async () => {
    const locked = await claimed();
    const free = await claimed();
    await expire();
    const other = await db.pool.connect();
    await other.query('BEGIN');
    await other.query('SELECT 1 FROM holdfast.inbox WHERE id = $1 FOR UPDATE', [locked.id]);
    expect(await round()).toMatchObject({ recovered: 1 });
    await other.query('ROLLBACK');
    other.release();
    expect(await rowOf(free.id)).toMatchObject({ status: 'pending' });
    expect(await rowOf(locked.id)).toMatchObject({ status: 'processing' });
  });
});

describe('the registry', () => {
  const statuses = async () =>
    Object.fromEntries(
      (await db.rows('SELECT id, status FROM holdfast.workers')).map((row) => [row.id, row.status]),
    );

  test('silent workers are declared dead, alive and draining ones alike, and the others are not', async () => {
    await db.rows(`INSERT INTO holdfast.workers (id, status, last_seen_at) VALUES
      ('fresh', 'alive', now()), ('silent', 'alive', now() - interval '1 minute'),
      ('leaving', 'draining', now()), ('stuck', 'draining', now() - interval '1 minute'),
      ('dead', 'dead', now() - interval '1 minute')`);
    const report = await round();
    expect([...(report?.dead ?? [])].sort()).toEqual(['silent', 'stuck']);
    expect(await statuses()).toEqual({
      fresh: 'alive',
      silent: 'dead',
      leaving: 'draining',
      stuck: 'dead',
      dead: 'dead',
    });
    expect(await findGone(db.engine, INBOX, 'silent', {})).toMatchObject({ beat: false });
    expect(await findGone(db.engine, INBOX, 'fresh', {})).toMatchObject({ beat: true });
    expect(await statuses()).toMatchObject({ silent: 'dead' });
  });

  test('a worker with a longer TTL is judged by its own', async () => {
    await db.rows(
      `INSERT INTO holdfast.workers (id, last_seen_at, metadata) VALUES
        ('patient', now() - interval '5 seconds', '{"ttlMs": 30000}'),
        ('quick', now() - interval '5 seconds', '{"ttlMs": 1000}'),
        ('odd', now() - interval '5 seconds', '{"ttlMs": "30 seconds"}')`,
    );
    const dead = await sweepDeadWorkers(db.engine, INBOX, 'me', 2_000);
    expect(dead.sort()).toEqual(['odd', 'quick']);
  });

  test('whatever a worker says about itself in its metadata, its death is noticed', async () => {
    const odd = ['{"left": "behind"}', '{"left": 1}', '{"left": null}', '[]', '"text"', null];
    for (const [n, metadata] of odd.entries()) {
      await db.rows(
        `INSERT INTO holdfast.workers (id, status, metadata) VALUES ($1, 'dead', $2::jsonb)`,
        [`odd ${n}`, metadata],
      );
    }
    const { dead } = await fleetView(db.engine, INBOX);
    expect([...dead].sort()).toEqual(odd.map((_, n) => `odd ${n}`));
  });

  test("a worker's own metadata cannot hide its death", async () => {
    const { worker, stop } = start(db.hf, (w) => w.handle(work, () => undefined), {
      metadata: { left: true, pid: 'mine', version: '1.2.0' },
    });
    const row = await until('it is registered', async () => {
      const [found] = await db.rows('SELECT * FROM holdfast.workers WHERE id = $1', [worker.id]);
      return found;
    });
    expect(row.metadata).toMatchObject({ version: '1.2.0' });
    await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = $1`, [worker.id]);
    expect((await fleetView(db.engine, INBOX)).dead).toEqual([row.id]);
    await stop();
  });

  test('the dead are forgotten after a week', async () => {
    await db.rows(`INSERT INTO holdfast.workers (id, status, last_seen_at) VALUES
      ('long gone', 'dead', now() - interval '8 days'), ('lately', 'dead', now() - interval '6 days')`);
    await round();
    expect(await statuses()).toEqual({ lately: 'dead' });
  });
});

describe('pruning', () => {
  const keyed = async (idempotencyKey: string) => {
    await db.hf.enqueue(work, {}, { idempotencyKey });
    return heldOf((await claimAs(db.engine, 'w1', { types }))[0]!);
  };
  const expireKey = (key: string) =>
    db.rows('UPDATE holdfast.inbox_idempotency SET expires_at = now() WHERE key = $1', [key]);

  test('an idempotency key is kept for its retention, and as long as its job is in the queue', async () => {
    const done = await keyed('done');
    const young = await keyed('young');
    const running = await keyed('running');
    const dead = await keyed('dead');
    await complete(db.engine, INBOX, 'w1', [done, young]);
    await deadLetter(db.engine, INBOX, 'w1', [{ ...dead, error: 'x', summary: 'x' }]);
    await db.hf.enqueue(work, {}, { idempotencyKey: 'waiting' });
    for (const key of ['done', 'running', 'dead', 'waiting']) await expireKey(key);
    expect(await round()).toMatchObject({ pruned: 1 });
    const keys = await db.rows('SELECT key FROM holdfast.inbox_idempotency ORDER BY key');
    expect(keys.map(({ key }) => key)).toEqual(['dead', 'running', 'waiting', 'young']);
    expect(await rowOf(running.id)).toMatchObject({ status: 'processing' });
  });

  test('what cannot be pruned is said, and does not keep the rest', async () => {
    await complete(db.engine, INBOX, 'w1', [await keyed('done')]);
    await expireKey('done');
    await db.rows(`INSERT INTO holdfast.inbox_effects (job_id, name, value, generation, created_at)
      VALUES (gen_random_uuid(), 'old', '{}', 1, now() - interval '30 days')`);
    await db.rows(
      `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'kept'; END $$`,
    );
    await db.rows(
      'CREATE TRIGGER kept BEFORE DELETE ON holdfast.inbox_effects FOR EACH ROW EXECUTE FUNCTION refuse()',
    );
    const { events } = start(db.hf, (w) => w.handle(work, () => undefined));
    await until('its round is over', () =>
      events.find((event) => event.kind === 'maintained' && event.pruned === 1),
    );
    expect(events.filter(({ kind }) => kind === 'error')).toEqual([
      expect.objectContaining({
        what: 'prune effect markers of inbox',
        error: expect.objectContaining({ message: 'kept' }),
      }),
    ]);
    await db.rows('DROP TRIGGER kept ON holdfast.inbox_effects');
  });

  test('an effect marker is kept for its retention, and as long as its job is in the queue', async () => {
    const gone = crypto.randomUUID();
    const alive = (await claimed()).id;
    for (const [id, name, age] of [
      [gone, 'old', '8 days'],
      [gone, 'young', '6 days'],
      [alive, 'old', '80 days'],
    ]) {
      await db.rows(
        `INSERT INTO holdfast.inbox_effects (job_id, name, value, generation, created_at)
         VALUES ($1, $2, '{}', 1, now() - $3::interval)`,
        [id, name, age],
      );
    }
    expect(await round()).toMatchObject({ pruned: 1 });
    const left = await db.rows('SELECT job_id, name FROM holdfast.inbox_effects');
    expect(left).toHaveLength(2);
    expect(left).not.toContainEqual({ job_id: gone, name: 'old' });
  });
});

describe('one pair of hands', () => {
  test('of eight workers at once, one does the round; the next comes an interval later', async () => {
    const held = await claimed();
    for (let rounds = 1; rounds <= 10; rounds++) {
      await expire();
      const reports = await Promise.all(Array.from({ length: 8 }, () => round()));
      expect(reports.filter((report) => report !== null)).toMatchObject([{ recovered: 1 }]);
      expect(await rowOf(held.id)).toMatchObject({ status: 'pending', crashes: 1 });
      expect(await round()).toBeNull();
      await db.rows('UPDATE holdfast.inbox SET crashes = 0');
      await claimAs(db.engine, 'w1', { types });
      await again();
    }
  });

  test('while another session holds the lock, nothing is done', async () => {
    const { id } = await claimed();
    await expire();
    const other = await db.pool.connect();
    await other.query('BEGIN');
    await other.query('SELECT pg_advisory_xact_lock($1, $2)', maintenanceLock(INBOX));
    expect(await round()).toBeNull();
    expect(await rowOf(id)).toMatchObject({ status: 'processing' });
    await other.query('ROLLBACK');
    other.release();
    expect(await round()).toMatchObject({ recovered: 1 });
  });

  test('queues have their rounds apart from each other', async () => {
    await db.hf.createQueue('outbox');
    expect(await round()).not.toBeNull();
    expect(await round({ schema: 'holdfast', queue: 'outbox' })).not.toBeNull();
    expect(await round({ schema: 'holdfast', queue: 'outbox' })).toBeNull();
  });
});

describe('in batches', () => {
  /** Notes how many rows each statement of a kind touched. */
  async function watch(table: string, event: 'UPDATE' | 'DELETE') {
    await db.rows('DROP TABLE IF EXISTS touched');
    await db.rows('CREATE TABLE touched (n int)');
    await db.rows(`CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN INSERT INTO public.touched SELECT count(*) FROM old_rows; RETURN NULL; END $$`);
    await db.rows(`CREATE OR REPLACE TRIGGER note AFTER ${event} ON holdfast.${table}
      REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION note()`);
    return async () => {
      await db.rows(`DROP TRIGGER note ON holdfast.${table}`);
      return (await db.rows('SELECT n FROM touched')).map(({ n }) => n as number);
    };
  }

  test('12,000 effect markers are pruned in one round, at most 5,000 in a statement', async () => {
    await db.rows(`INSERT INTO holdfast.inbox_effects (job_id, name, value, generation, created_at)
      SELECT holdfast.new_id(), 'x', '{}', 1, now() - interval '8 days' FROM generate_series(1, 12000)`);
    const touched = await watch('inbox_effects', 'DELETE');
    expect(await round()).toMatchObject({ pruned: 12_000 });
    expect(Math.max(...(await touched()))).toBeLessThanOrEqual(5_000);
    expect(await db.rows('SELECT job_id FROM holdfast.inbox_effects LIMIT 1')).toEqual([]);
  });

  test('unique keys that stand for a job do not keep those behind them from being pruned', async () => {
    const { id } = await db.hf.enqueue(work, {});
    await db.rows(
      `INSERT INTO holdfast.inbox_unique (type, key, jobs, prune_at)
       SELECT 'work', 'k' || n, ARRAY[CASE WHEN n % 4000 = 1 THEN $1::uuid ELSE holdfast.new_id() END],
         now() - interval '1 hour' + n * interval '1 millisecond' FROM generate_series(1, 12000) AS n`,
      [id],
    );
    expect(await round()).toMatchObject({ pruned: 11_997 });
    expect(await db.rows('DELETE FROM holdfast.inbox_unique RETURNING key')).toHaveLength(3);
  });

  test('2,500 orphans are recovered in one round, at most 1,000 in a statement', async () => {
    await db.hf.enqueueMany(Array.from({ length: 2_500 }, () => work.item({})));
    await claimAs(db.engine, 'w1', { types, limit: 2_500 });
    await expire();
    const touched = await watch('inbox', 'UPDATE');
    expect(await round()).toMatchObject({ recovered: 2_500 });
    expect(Math.max(...(await touched()))).toBeLessThanOrEqual(1_000);
  });

  test('also if some of them stand in two claims of their worker', async () => {
    await db.hf.enqueueMany(Array.from({ length: 2_500 }, () => work.item({})));
    const first = await claimAs(db.engine, 'w1', { types, limit: 10 });
    await release(db.engine, INBOX, 'w1', first.map(heldOf));
    await claimAs(db.engine, 'w1', { types, limit: 2_500 });
    await expire();
    expect(await round()).toMatchObject({ recovered: 2_500 });
  });
});
