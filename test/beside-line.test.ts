/** A key with a long line does not hold up those that share its bucket, in a queue without order. */
import { beforeEach, expect, test } from 'vitest';
import { type BesideProbe, claimBeside } from '../src/claim/claim-beside.js';
import { job } from '../src/index.js';
import { bucketOf } from '../src/job/key.js';
import { INBOX, testDatabase } from './support/database.js';
import { until } from './support/until.js';

const db = testDatabase();
const BUCKET = bucketOf('hot');
/** Keys that fall into the bucket of `hot`. */
const NEIGHBOURS = Array.from({ length: 20_000 }, (_, n) => `order:${n}`).filter(
  (key) => bucketOf(key) === BUCKET,
);

async function add(key: string, count: number): Promise<void> {
  await db.rows(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, available_at)
     SELECT 'noop', $1, $2, jsonb_build_object('n', n), now() - interval '1 minute'
     FROM generate_series(1, $3::int) AS n`,
    [key, BUCKET, count],
  );
}

const beside = (probe: Partial<BesideProbe> = {}, limit = 100) =>
  claimBeside(db.engine, INBOX, {
    probe: {
      ...{ priority: 2, bucket: BUCKET, afterAt: '-infinity', afterPosition: 0 },
      ...{ without: ['hot'], atEnd: false, reach: 1_000, ...probe },
    },
    ...{ workerId: 'w', limit, leaseMs: 60_000, versions: { noop: 1 }, above: {} },
    ...{ deadWorkers: [], cursorLagMs: 2_000 },
  });

beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive'));

test('what stands behind the line is taken, in its order, and the line is left', async () => {
  const [one = '', two = ''] = NEIGHBOURS;
  await add('hot', 300);
  await add(one, 2);
  await add('hot', 300);
  await add(two, 3);
  const { jobs, end } = await beside();
  expect(jobs.map((row) => row.partitionKey)).toEqual([one, one, two, two, two]);
  expect(end).toBe(null);
  expect(await beside()).toMatchObject({ jobs: [], end: null });
  const [left] = await db.rows(
    `SELECT count(*)::int AS n FROM holdfast.inbox WHERE status = 'pending' AND partition_key = 'hot'`,
  );
  expect(left).toEqual({ n: 600 });
});

test('a stretch ends where it says, and the next goes on from there', async () => {
  const [one = ''] = NEIGHBOURS;
  await add('hot', 250);
  await add(one, 1);
  let place = { at: '-infinity', position: 0 };
  const found: number[] = [];
  for (let n = 0; n < 3; n++) {
    const { jobs, end } = await beside({
      ...{ reach: 100, afterAt: place.at, afterPosition: place.position },
    });
    found.push(jobs.length);
    if (end) place = end;
  }
  expect(found).toEqual([0, 0, 1]);
});

test('from its end a line is read back, as far as it is asked for', async () => {
  const [one = '', two = ''] = NEIGHBOURS;
  await add('hot', 100);
  await add(one, 1);
  await add('hot', 100);
  await add(two, 3);
  await add('hot', 5);
  const near = await beside({ atEnd: true, reach: 20 });
  expect(near.jobs.map((row) => row.partitionKey)).toEqual([two, two, two]);
  const positions = near.jobs.map((row) => row.cursorPosition);
  expect(positions).toEqual([...positions].sort((a, b) => a - b));
  expect((await beside({ atEnd: true, reach: 20 })).jobs).toEqual([]);
  const far = await beside({ atEnd: true });
  expect(far.jobs.map((row) => row.partitionKey)).toEqual([one]);
});

test('a paused queue, a job that somebody locks and one of another type are left alone', async () => {
  const [one = '', two = '', three = ''] = NEIGHBOURS;
  await add(one, 1);
  await add(two, 1);
  await add(three, 1);
  await db.rows(`UPDATE holdfast.inbox SET type = 'other' WHERE partition_key = $1`, [two]);
  await db.rows('UPDATE holdfast.queues SET paused = true');
  expect((await beside()).jobs).toEqual([]);
  await db.rows('UPDATE holdfast.queues SET paused = false');
  const holder = await db.pool.connect();
  await holder.query('BEGIN');
  await holder.query('SELECT FROM holdfast.inbox WHERE partition_key = $1 FOR UPDATE', [three]);
  const { jobs } = await beside();
  await holder.query('ROLLBACK');
  holder.release();
  expect(jobs.map((row) => row.partitionKey)).toEqual([one]);
});

test('the neighbours of a hot key are done while most of its line still waits', async () => {
  const HOT = 60_000;
  await add('hot', HOT);
  for (const key of NEIGHBOURS.slice(0, 5)) await add(key, 20);
  const worker = db.hf.worker({ handleSignals: false, onEvent: () => {} });
  worker.handle(job('noop'), () => {});
  const running = worker.run();
  const left = async (others: boolean) => {
    const [row] = await db.rows<{ n: number }>(
      `SELECT count(*)::int AS n FROM holdfast.inbox WHERE (partition_key <> 'hot') = $1`,
      [others],
    );
    return row?.n ?? 0;
  };
  await until('the neighbours are done', async () => (await left(true)) === 0, { everyMs: 20 });
  const waiting = await left(false);
  await worker.stop();
  await running;
  expect(waiting).toBeGreaterThan(HOT / 2);
});
