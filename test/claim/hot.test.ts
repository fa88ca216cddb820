/**
 * Claims, renewals and marks are HOT: they touch no index, in queues that are read by time and by key, and
 * beside the indexes on suspects and dead letters. A migration that breaks it must not pass.
 */
import pg from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { isolateJob } from '../../packages/holdfast/src/lease/marks.js';
import { renew } from '../../packages/holdfast/src/lease/renew.js';
import { engineConfig } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { type Executor, engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { release } from '../../packages/holdfast/src/settle/release.js';
import { allPast } from '../support/all-past.js';
import { claimByTime, claimSuspected, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { claimInOrder } from '../support/ordered.js';

const db = testDatabase();
const work = job<object>('work');
const versions = { work: 1 };
const JOBS = 1_000;
/** As many claims as a worker makes of them by default. */
const BATCH = 250;
/** As long as the names of containers are. */
const ME = 'receipts-7d9c5b6f4d-x2x9z-12345-abcdef';

beforeEach(async () => {
  await db.rows('TRUNCATE holdfast.inbox');
  // An autovacuum that analyses just then holds a snapshot, and a held snapshot is a test of its own. There is
  // room on the page for what a claim writes: then only an index on it can keep an update from being HOT.
  await db.rows('ALTER TABLE holdfast.inbox SET (autovacuum_enabled = off, fillfactor = 35)');
});

interface Updates {
  readonly all: number;
  readonly hot: number;
}

/**
 * The updates that `statements` made to the queue, by the server's own count of a transaction. The counts of the
 * table as a whole arrive late, and with those of other sessions.
 */
async function updatesBy(
  statements: (engine: Executor) => Promise<unknown>,
  transactions = 1,
): Promise<Updates> {
  const client = new pg.Client(engineConfig({ connectionString: db.url }));
  await client.connect();
  const engine = engineExecutor(client, { prepare: true });
  const counted = async (): Promise<Updates> => {
    const { rows } = await client.query(
      `SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS hot
       FROM pg_stat_xact_user_tables WHERE schemaname = 'holdfast' AND relname = 'inbox'`,
    );
    return rows[0];
  };
  const sum = { all: 0, hot: 0 };
  try {
    for (let n = 0; n < transactions; n++) {
      await client.query('BEGIN');
      // What the session has not reported yet is counted, too.
      const before = await counted();
      await statements(engine);
      const after = await counted();
      await client.query('COMMIT');
      sum.all += after.all - before.all;
      sum.hot += after.hot - before.hot;
    }
    return sum;
  } finally {
    await client.end();
  }
}

/**
 * What others do on the server can keep a page from being pruned for a moment (a transaction that runs,
 * a page that is being written to disk), and then its rows move. So a few tries are allowed; an index
 * on what is updated would fail every one of them.
 */
async function hotAtLast(count: number, statements: (engine: Executor) => Promise<unknown>) {
  let updates: Updates = { all: 0, hot: 0 };
  for (let tries = 0; tries < 10 && (tries === 0 || updates.hot < count); tries++) {
    await allPast(db.rows);
    updates = await updatesBy(statements);
    expect(updates.all).toBe(count);
  }
  expect(updates).toEqual({ all: count, hot: count });
}

const enqueue = (payload: object = { order: 9182, email: 'someone@example.com' }) =>
  db.hf.enqueueMany(
    Array.from({ length: JOBS }, (_, n) => work.item(payload, { partitionKey: `order:${n}` })),
  );

const claimSome = { time: claimByTime, key: claimInOrder };

const claimThem = (by: 'time' | 'key') => async (engine: Executor) => {
  const held: { id: string; generation: number }[] = [];
  while (held.length < JOBS) {
    const { jobs } = await claimSome[by](engine, ME, { versions, limit: BATCH });
    expect(jobs).toHaveLength(BATCH);
    held.push(...jobs.map(heldOf));
  }
  return held.sort((a, b) => (a.id < b.id ? -1 : 1));
};

describe.each([
  ['time', 'none'],
  ['key', 'key'],
] as const)('in a queue that is read by %s', (by, ordering) => {
  beforeEach(() => db.hf.configureQueue('inbox', { ordering }));

  test('the claims of 1,000 jobs are HOT', async () => {
    await enqueue();
    expect(await updatesBy(claimThem(by))).toEqual({ all: JOBS, hot: JOBS });
  });

  test.each([
    ['small', { id: 1 }],
    ['of a kilobyte', { text: 'x'.repeat(1_000) }],
    ['of eight kilobytes, kept out of line', { text: randomText(8_000) }],
  ])('also when their payloads are %s', async (_, payload) => {
    await enqueue(payload);
    expect(await updatesBy(claimThem(by))).toEqual({ all: JOBS, hot: JOBS });
  });

  test('renewals and marks are HOT, time and again', async () => {
    await enqueue();
    const held = await claimThem(by)(db.engine);
    for (let round = 0; round < 5; round++) {
      await hotAtLast(JOBS, (engine) => renew(engine, INBOX, ME, held, 90_000));
    }
    await hotAtLast(200, async (engine) => {
      for (const one of held.slice(0, 200))
        await engine.run(isolateJob, INBOX, [ME, one.id, one.generation, true]);
    });
  });

  test('claims are HOT while another session keeps a snapshot open, and nothing can be pruned', async () => {
    await enqueue();
    const other = await db.pool.connect();
    await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await other.query('SELECT count(*) FROM holdfast.inbox');
    const claims = await updatesBy(claimThem(by)).finally(() => other.release(true));
    expect(claims).toEqual({ all: JOBS, hot: JOBS });
  });

  test('a release is HOT', async () => {
    await enqueue();
    const held = await claimThem(by)(db.engine);
    await hotAtLast(100, (engine) => release(engine, INBOX, ME, held.splice(0, 100)));
  });

  test('a claim of suspects is HOT beside the index that has them', async () => {
    await enqueue();
    await db.rows('UPDATE holdfast.inbox SET crashes = 2');
    await hotAtLast(16, async (engine) => {
      const { jobs } = await claimSuspected(engine, ME, { versions });
      await complete(engine, INBOX, ME, jobs.map(heldOf));
    });
  });
});

test('in a steady trickle nearly all claims are HOT with the settings of the schema', async () => {
  await db.hf.configureQueue('inbox', { ordering: 'none' });
  await db.rows('ALTER TABLE holdfast.inbox SET (fillfactor = 50)');
  const trickle = () =>
    db.hf.enqueueMany(Array.from({ length: 5 }, () => work.item({ order: 9182 })));
  await trickle();
  const updates = await updatesBy(async (engine) => {
    const { jobs } = await claimByTime(engine, ME, { versions });
    await complete(engine, INBOX, ME, jobs.map(heldOf));
    await trickle();
  }, 200);
  expect(updates.all).toBe(1_000);
  expect(updates.hot).toBeGreaterThan(900);
});

function randomText(length: number): string {
  let text = '';
  while (text.length < length) text += Math.random().toString(36).slice(2);
  return text.slice(0, length);
}
