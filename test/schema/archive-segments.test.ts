/** The archive in segments: what is past the retention goes as a whole, and nobody waits for it. */
import pg from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { finishedByIds } from '../../packages/holdfast/src/inspect/job/archive.js';
import { showJob, showJobRow } from '../../packages/holdfast/src/inspect/job/show.js';
import { pruneArchive, pruneSegments } from '../../packages/holdfast/src/maintenance/prune.js';
import { replay } from '../../packages/holdfast/src/operate/replay.js';
import { dropQueue } from '../../packages/holdfast/src/schema/drop-queue.js';
import { age, archiveJobs, segments } from '../support/archive.js';
import { INBOX, testDatabase } from '../support/database.js';
import { buffers, explained, planSession } from '../support/plans.js';
import { until } from '../support/until.js';

const db = testDatabase();
const prune = () => pruneArchive(db.engine, INBOX);

beforeEach(async () => {
  await db.rows(`UPDATE holdfast.queues SET archive_retention = '8 days' WHERE name = 'inbox'`);
  // What tests before left is dropped.
  await age(db, '90 days');
  await prune();
  await age(db, '90 days');
  await prune();
  await db.rows('DELETE FROM holdfast.inbox_archive');
  await db.rows('DELETE FROM holdfast.inbox_idempotency');
  await db.rows('DELETE FROM holdfast.inbox');
});

const last = async () =>
  Number(
    Object.keys(await segments(db))
      .sort((a, b) => +a - +b)
      .at(-1),
  );
const rowsOn = (client: pg.ClientBase) => ({
  rows: async (text: string, params?: unknown[]) => (await client.query(text, params)).rows,
});

/** Whoever holds this while it is open keeps vacuum from removing anything that was deleted since. */
async function openTransaction(...texts: string[]) {
  const client = await db.pool.connect();
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  for (const text of ['SELECT txid_current()', ...texts]) await client.query(text);
  return async () => {
    await client.query('COMMIT');
    client.release();
  };
}

test('a job is kept for its retention, and at most an eighth longer', async () => {
  const first = await last();
  const [job] = await archiveJobs(db, 1);
  const known = async () => (await db.hf.job(job!.id)) !== null;
  // The segment goes on for an eighth of the retention, then it is closed; for the whole of it, it stays.
  await age(db, '-1000 years');
  await db.rows(
    `UPDATE holdfast.queues SET archive_segments = jsonb_build_object($1::integer, now() - interval '23 hours')`,
    [first],
  );
  await prune();
  expect(await last()).toBe(first);
  await age(db, '1 hour');
  await prune();
  expect(await segments(db)).toEqual({ [first]: 1, [first + 1]: 0 });
  await archiveJobs(db, 2);
  await age(db, '7 days 23:59:00');
  expect(await prune()).toBe(0);
  expect(await known()).toBe(true);
  await age(db, '1 minute');
  expect(await prune()).toBeGreaterThanOrEqual(1);
  expect(await known()).toBe(false);
  expect(await segments(db)).toMatchObject({ [first + 1]: 2 });
  expect(Object.keys(await segments(db))).not.toContain(String(first));
});

test('an empty segment goes on, so an archive that is not used stays as it is', async () => {
  const before = await segments(db);
  await age(db, '365 days');
  expect(await prune()).toBe(0);
  expect(await segments(db)).toEqual(before);
});

test('a retention that is changed holds at once; without one all goes', async () => {
  const first = await last();
  await archiveJobs(db, 3);
  await age(db, '1 day');
  await prune();
  await archiveJobs(db, 4);
  await age(db, '2 days');
  await db.hf.configureQueue('inbox', { archiveRetention: '36h' });
  await prune();
  expect(await segments(db)).toEqual({ [first + 1]: 4, [first + 2]: 0 });
  await db.hf.configureQueue('inbox', { archiveRetention: 0 });
  await until('all is gone', async () => {
    await prune();
    return (await db.rows('SELECT id FROM holdfast.inbox_archive LIMIT 1')).length === 0;
  });
});

describe('what a round reads', () => {
  test('is next to nothing when nothing is old, after two retentions, while a transaction is open', async () => {
    const release = await openTransaction();
    for (let eighth = 0; eighth < 17; eighth++) {
      await archiveJobs(db, 2_000);
      await age(db, '1 day');
      await prune();
    }
    await archiveJobs(db, 100);
    const held = await segments(db);
    expect(Object.keys(held).length).toBeLessThanOrEqual(10);
    const session = await planSession(db.url);
    await session.query(`PREPARE pruning AS ${pruneSegments.text}`);
    // The first call of a session reads the catalog too.
    await explained(session, 'pruning', []);
    expect(buffers(await explained(session, 'pruning', []))).toBeLessThanOrEqual(10);
    expect(await segments(db)).toEqual(held);

    // One job is found in the segment and the block range that has it.
    await session.query('SET enable_bitmapscan = on');
    await session.query(`PREPARE showing AS ${showJobRow.text}`);
    const ids = await db.rows<{ id: string }>(
      'SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM holdfast.inbox_archive) AS a WHERE n % 997 = 5',
    );
    const pages = await db.rows<{ pages: number }>(
      `SELECT sum(pg_relation_size(relid) / 8192)::integer AS pages FROM pg_partition_tree('holdfast.inbox_archive') WHERE isleaf`,
    );
    expect(pages[0]!.pages).toBeGreaterThan(400);
    for (const { id } of ids) {
      await explained(session, 'showing', [id, true]);
      const plan = await explained(session, 'showing', [id, true]);
      expect(buffers(plan)).toBeLessThanOrEqual(180);
    }
    await session.end();
    await release();
  });
});

describe('nobody waits for it', () => {
  test('while somebody reads the archive for long, jobs are archived and the next round tries again', async () => {
    const first = await last();
    await archiveJobs(db, 1);
    await age(db, '1 day');
    const release = await openTransaction('SELECT count(*) FROM holdfast.inbox_archive');
    const settling = new pg.Client({ connectionString: db.url, options: '-c lock_timeout=1s' });
    await settling.connect();
    // Behind the lock that the round waits for, and no longer than the round does.
    const [took, waited] = await Promise.all([prune(), archiveJobs(rowsOn(settling), 1)]);
    await settling.end();
    expect(took).toBe(0);
    expect(waited).toHaveLength(1);
    expect(await last()).toBe(first);
    await release();
    await prune();
    expect(await segments(db)).toEqual({ [first]: 2, [first + 1]: 0 });
  });

  test('a segment is closed only when those who wrote into it have ended', async () => {
    const first = await last();
    await archiveJobs(db, 1);
    await age(db, '1 day');
    const writer = await db.pool.connect();
    await writer.query('BEGIN');
    await archiveJobs(rowsOn(writer), 1);
    await prune();
    expect(await last()).toBe(first);
    await writer.query('COMMIT');
    writer.release();
    await prune();
    expect(await segments(db)).toEqual({ [first]: 2, [first + 1]: 0 });
  });

  test('of several rounds at once, one begins the next segment', async () => {
    const first = await last();
    await archiveJobs(db, 1);
    await age(db, '1 day');
    await Promise.all(Array.from({ length: 8 }, prune));
    await prune();
    expect(await last()).toBe(first + 1);
  });

  test('a segment that is being vacuumed is dropped in a later round', async () => {
    const first = await last();
    await archiveJobs(db, 1);
    await age(db, '1 day');
    await prune();
    await age(db, '9 days');
    const release = await openTransaction(
      `LOCK TABLE holdfast.inbox_archive_${first} IN SHARE UPDATE EXCLUSIVE MODE`,
    );
    expect(await prune()).toBe(0);
    expect(await segments(db)).toMatchObject({ [first]: 1 });
    await release();
    expect(await prune()).toBe(1);
    expect(await segments(db)).not.toHaveProperty(String(first));
  });
});

/** Two segments with a row at the same place each: the ids of the older and of the younger. */
async function samePlaces(jobs = 3) {
  const old = await archiveJobs(db, jobs);
  await age(db, '1 day');
  await prune();
  const young = await archiveJobs(db, jobs);
  return { old: old.map(({ id }) => id), young: young.map(({ id }) => id) };
}

describe('a place in one segment is a place in the others', () => {
  /** As the first release does it; packages/holdfast/src/maintenance/prune.ts of then. */
  const OLD_RELEASE = `
WITH gone AS (
  DELETE FROM holdfast.inbox_archive AS t
  WHERE t.ctid = ANY (ARRAY(
    SELECT old.ctid FROM holdfast.inbox_archive AS old
    WHERE old.completed_at < now() - (SELECT q.archive_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')
    LIMIT $1::integer
    ))
  RETURNING 1
)
SELECT count(*) AS pruned FROM gone`;

  test('a worker of the first release deletes what is old and nothing else', async () => {
    const { old, young } = await samePlaces();
    await db.rows(
      `UPDATE holdfast.inbox_archive SET completed_at = now() - interval '9 days' WHERE id = ANY ($1)`,
      [old],
    );
    // The update has moved the rows on: the younger ones are moved too.
    await db.rows('UPDATE holdfast.inbox_archive SET attempts = 2 WHERE id = ANY ($1)', [young]);
    const places = await db.rows('SELECT DISTINCT ctid::text FROM holdfast.inbox_archive');
    expect(places).toHaveLength(3);
    const client = new pg.Client({ connectionString: db.url });
    await client.connect();
    const { rows } = await client.query({
      name: 'prune_archive',
      text: OLD_RELEASE,
      values: [5_000],
    });
    await client.end();
    expect(rows).toEqual([{ pruned: '3' }]);
    const left = await db.rows<{ id: string }>('SELECT id FROM holdfast.inbox_archive ORDER BY id');
    expect(left.map(({ id }) => id)).toEqual([...young].sort());
  });

  test('a replay brings back what it was asked for, and leaves one whose key is taken', async () => {
    const { old, young } = await samePlaces(2);
    await db.rows(
      `UPDATE holdfast.inbox_archive SET idempotency_key = 'taken', status = 'cancelled' WHERE id = $1`,
      [old[0]],
    );
    await db.rows(`UPDATE holdfast.inbox_archive SET status = 'cancelled' WHERE id = $1`, [
      young[0],
    ]);
    await db.rows(
      `INSERT INTO holdfast.inbox_idempotency VALUES ('taken', gen_random_uuid(), 'x', now() + interval '1 day')`,
    );
    const found = await finishedByIds(db.plain, INBOX, [old[0]!, young[0]!]);
    expect(new Set(found.map(({ ctid }) => ctid)).size).toBe(1);
    expect(await replay(db.plain, INBOX, found)).toEqual(
      expect.arrayContaining([
        { id: old[0], keyTaken: true, moved: false },
        { id: young[0], keyTaken: false, moved: true },
      ]),
    );
    expect(await showJob(db.plain, 'holdfast', ['inbox'], old[0]!)).toMatchObject({
      archived: true,
    });
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([{ id: young[0] }]);
  });
});

test('a queue that is dropped takes the segments along, and one that is made begins with its own', async () => {
  await db.hf.createQueue('outbox');
  await archiveJobs(db, 1, '0', 'outbox');
  await age(db, '9 days', 'outbox');
  await pruneArchive(db.engine, { schema: 'holdfast', queue: 'outbox' });
  expect(await segments(db, 'outbox')).toEqual({ 0: 1, 1: 0 });
  const client = await db.pool.connect();
  expect(await dropQueue(client, 'holdfast', 'outbox')).toMatchObject({ archived: 1 });
  client.release();
  const left = await db.rows(`SELECT relname FROM pg_class WHERE relname LIKE 'outbox%'`);
  expect(left).toEqual([]);
  await db.hf.createQueue('outbox');
  expect(await segments(db, 'outbox')).toEqual({ 0: 0 });
});
