/**
 * Somebody holds the lock of one row: a transaction that forgot to commit, or a human in psql. The other
 * jobs of the worker must not notice.
 */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { type Duration, job } from '../../packages/holdfast/src/index.js';
import { withTransaction } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const gated = job<object>('gated');
const quick = job<object>('quick');

async function withLockedJob(
  options: { lease: Duration; renewEvery: Duration },
  work: (ground: {
    open: () => void;
    stats: () => Record<string, number>;
    lockedId: string;
    human: pg.PoolClient;
  }) => Promise<void>,
): Promise<void> {
  await db.rows('TRUNCATE holdfast.inbox');
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const worker = db.hf
    .worker({ ...options, poll: '20ms', concurrency: 10, handleSignals: false })
    .handle(gated, () => gate)
    .handle(quick, () => {});
  const running = worker.run();
  const enqueued = await db.hf.enqueueMany(Array.from({ length: 6 }, () => gated.item({})));
  await until('all of them run', () => worker.stats.claimed === 6);
  const lockedId = enqueued[0]?.id as string;
  const human = await db.pool.connect();
  try {
    await human.query('BEGIN');
    await human.query('SELECT FROM holdfast.inbox WHERE id = $1 FOR UPDATE', [lockedId]);
    const stats = () => worker.stats as unknown as Record<string, number>;
    await work({ open, stats, lockedId, human });
  } finally {
    await human.query('ROLLBACK');
    human.release();
    open();
    await worker.stop();
    await running;
  }
}

test('a row that is locked for longer than the lease costs no other job its lease', async () => {
  await withLockedJob({ lease: '2s', renewEvery: '500ms' }, async ({ open, stats, lockedId }) => {
    await until('the lease of the locked job is over', async () => {
      const text =
        'SELECT FROM holdfast.inbox WHERE id = $1 AND lease_expires_at < clock_timestamp()';
      return (await db.rows(text, [lockedId])).length === 1;
    });
    open();
    await until('the other five are completed', () => stats().completed === 5);
    expect(stats().lost).toBeLessThanOrEqual(1);
  });
  const [archived] = await db.rows('SELECT max(attempts) AS attempts FROM holdfast.inbox_archive');
  expect(archived).toEqual({ attempts: 1 });
});

test('a row that is locked does not hold back the settling of the others, and settles when it is free', async () => {
  await withLockedJob({ lease: '60s', renewEvery: '20s' }, async ({ open, stats }) => {
    open();
    await db.hf.enqueueMany(Array.from({ length: 2_000 }, () => quick.item({})));
    await until('all the others are completed', () => stats().completed === 2_005);
  });
  const left = await db.rows('SELECT id FROM holdfast.inbox');
  expect(left).toEqual([]);
});

test('a row that was written and then locked costs none of those beside it its completion', async () => {
  await db.rows('TRUNCATE holdfast.inbox_archive');
  let seen: Record<string, number> = {};
  await withLockedJob({ lease: '60s', renewEvery: '20s' }, async ({ open, stats, human }) => {
    // The row stands elsewhere now: the others are completed at their places, and this one is waited for.
    await human.query('UPDATE holdfast.inbox SET headers = NULL WHERE id = $1', [
      (await human.query('SELECT min(id::text) AS id FROM holdfast.inbox')).rows[0].id,
    ]);
    open();
    await until('five are in the archive', async () => {
      return (await db.rows('SELECT id FROM holdfast.inbox_archive')).length === 5;
    });
    await until('they are known to be', () => stats().completed === 5);
    seen = { ...stats() };
  });
  expect(seen).toMatchObject({ completed: 5, lost: 0 });
});

test('a row that is locked is no outage: a worker that fell silent is declared dead meanwhile', async () => {
  await db.rows('TRUNCATE holdfast.inbox');
  await until('the server has been there for longer than the TTL', async () => {
    const text = `SELECT pg_postmaster_start_time() < now() - interval '9 s' AS old`;
    return (await db.rows(text))[0]?.old;
  });
  const held = gate();
  const { events } = start(db.hf, (w) => w.handle(gated, () => held.opened), {
    // Longer than any pause between two tries to settle: an outage would start it anew.
    ...{ ttl: '8s', heartbeat: '1s', maintenance: '100ms' },
  });
  const { id } = await db.hf.enqueue(gated, {});
  await until('it runs', () => events.some(({ kind }) => kind === 'started-job'));
  const human = await db.pool.connect();
  onTestFinished(async () => {
    await human.query('ROLLBACK');
    human.release();
  });
  await human.query('BEGIN');
  await human.query('SELECT FROM holdfast.inbox WHERE id = $1 FOR UPDATE', [id]);
  held.open();
  await until('its completion waits for the lock', () =>
    events.some((e) => e.kind === 'error' && (e.error as { code?: string }).code === '55P03'),
  );
  await db.rows(
    `INSERT INTO holdfast.workers (id, lock_key, status, last_seen_at, handles, metadata)
     VALUES ('silent', 1, 'alive', now() - interval '1 day', '{}', '{}')`,
  );
  // A TTL after its start; every try to settle that counted as an outage would put it off.
  await until('it is declared dead', async () => {
    const [row] = await db.rows(`SELECT status FROM holdfast.workers WHERE id = 'silent'`);
    return row?.status === 'dead';
  });
});

test('a connection whose BEGIN timed out is not used again', async () => {
  const pool = new pg.Pool({ connectionString: db.url, max: 1, query_timeout: 150 });
  pool.on('error', () => undefined);
  const late = withTransaction(pool, async () => 'done', 'SELECT pg_sleep(0.5); BEGIN');
  await expect(late).rejects.toThrow('Query read timeout');
  // Were the connection still there, this would run inside the transaction that nobody will commit.
  await pool.query("SELECT set_config('holdfast.x', '1', false)");
  const { rows } = await pool.query('SELECT now() = statement_timestamp() AS fresh');
  expect(rows).toEqual([{ fresh: true }]);
  await pool.end();
});
