/** One key with nine jobs of ten: it is worked through in order, and the other keys do not wait for it. */
import { expect, test } from 'vitest';
import { type FleetWorker, fleetOf } from '../support/fleet.js';
import { type Ground, ground } from '../support/ground.js';
import { long } from '../support/long.js';
import { withoutDisk } from '../support/order-log.js';
import { until } from '../support/until.js';

const PER_KEY = long(2, 20);
const KEYS = 1_000;
const HOT = 9 * KEYS * PER_KEY;
const TOTAL = HOT + KEYS * PER_KEY;

/** The hot key's jobs were there first. */
async function enqueueAll(db: Ground): Promise<void> {
  await db.rows(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload)
     SELECT 'hot', 'hot', holdfast.bucket_of('hot'), jsonb_build_object('n', n)
     FROM generate_series(0, $1::int - 1) AS n`,
    [HOT],
  );
  await db.rows(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload)
     SELECT 'noop', key, bucket, jsonb_build_object('n', n)
     FROM (SELECT 'order:' || k AS key, holdfast.bucket_of('order:' || k) AS bucket
           FROM generate_series(1, $1::int) AS k OFFSET 0) AS keys, generate_series(0, $2::int - 1) AS n`,
    [KEYS, PER_KEY],
  );
}

interface Run {
  readonly from: number;
  readonly to: number;
}

/** How often a number of the hot key was not started right after the one before it; once is the first. */
async function hotBreaks(fleet: readonly FleetWorker[]): Promise<number> {
  const all: Run[] = [];
  for (const worker of fleet) {
    worker.tell({ do: 'hotRuns' });
    const { runs } = (await worker.hears('hotRuns')) as unknown as { runs: Run[] };
    expect(runs.toSorted((a, b) => a.from - b.from)).toEqual(runs);
    all.push(...runs);
  }
  all.sort((a, b) => a.from - b.from);
  // The key may have changed hands when the second worker joined; then another goes on where one ended.
  return all.filter(({ from }, place) => from !== (all[place - 1]?.to ?? -2) + 1).length;
}

test('a hot key beside 1,000 others does not hold them up', async () => {
  const db = await ground();
  await withoutDisk(db);
  await db.hf.configureQueue('inbox', { ordering: 'key' });
  await enqueueAll(db);
  const fleet = await fleetOf(2, db.url, {
    options: { concurrency: 20, batchSize: 1_000, prefetch: 1_000 },
  });
  await until(
    'the queue is empty',
    async () => (await db.rows('SELECT FROM holdfast.inbox LIMIT 1')).length === 0,
    { timeoutMs: 170_000, everyMs: 200 },
  );
  const [done] = await db.rows<{ hot: number; others: number; before: number }>(
    `SELECT count(*) FILTER (WHERE partition_key = 'hot')::int AS hot,
       count(*) FILTER (WHERE partition_key <> 'hot')::int AS others,
       count(*) FILTER (WHERE partition_key = 'hot' AND completed_at <= (
         SELECT max(completed_at) FROM holdfast.inbox_archive WHERE partition_key <> 'hot'))::int AS before
     FROM holdfast.inbox_archive WHERE attempts = 1`,
  );
  expect(done).toMatchObject({ hot: HOT, others: TOTAL - HOT });
  // When the last of the others was done, most of the hot key was still waiting.
  expect(done?.before).toBeLessThan(HOT / 2);
  expect(await hotBreaks(fleet)).toBe(1);
  const [order] = await db.rows(
    `SELECT count(*)::int AS overtaken FROM (
       SELECT (payload ->> 'n')::int AS n, max((payload ->> 'n')::int) OVER (
         PARTITION BY partition_key ORDER BY completed_at
         RANGE BETWEEN UNBOUNDED PRECEDING AND '1 microsecond' PRECEDING) AS highest_before
       FROM holdfast.inbox_archive) AS done
     WHERE n < highest_before`,
  );
  expect(order).toEqual({ overtaken: 0 });
}, 180_000);
