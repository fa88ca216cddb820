/**
 * A hundred tenants of a fair queue in a fleet of real processes: one of them has a mountain of jobs, and what the
 * others wait for theirs is compared with what they wait without it. When a handler began is written in the transaction
 * that completes its job. In short form it is counted how much of the mountain came before the others.
 */
import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { figure, percentile } from '../support/calm.js';
import { QUICK } from '../support/child.js';
import { fleetOf } from '../support/fleet.js';
import { type Ground, ground } from '../support/ground.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';

const WORKERS = long(2, 4);
const SMALL = 99;
const EACH = long(2, 20);
const BIG = long(2_000, 100_000);
const CONFIG = { options: { ...QUICK, concurrency: 8 }, handles: { witnessed: 1 } } as const;
const witnessed = job<{ ms: number }>('witnessed');

const WAITS = `
SELECT (extract(epoch FROM w.began - a.created_at) * 1000)::float8 AS ms
FROM witness AS w JOIN holdfast.inbox_archive AS a ON a.id = w.job WHERE w.key <> 'big'`;
const BIG_BEFORE = `
SELECT count(*)::int AS n FROM witness
WHERE key = 'big' AND began < (SELECT max(began) FROM witness WHERE key <> 'big')`;

/** Rows of the small tenants. */
async function serveSmall(db: Ground): Promise<number[]> {
  await db.rows('TRUNCATE witness');
  await db.hf.enqueueMany(
    Array.from({ length: SMALL * EACH }, (_, n) =>
      witnessed.item({ ms: 2 }, { partitionKey: `tenant:${n % SMALL}` }),
    ),
  );
  await until(
    'all small tenants are served',
    async () => {
      const [row] = await db.rows<{ n: number }>(
        `SELECT count(*)::int AS n FROM witness WHERE key <> 'big'`,
      );
      return row?.n === SMALL * EACH;
    },
    { timeoutMs: long(60_000, 600_000), everyMs: 100 },
  );
  const rows = await db.rows<{ ms: number }>(WAITS);
  return rows.map(({ ms }) => ms);
}

test(
  'what others wait for beside a tenant with a mountain of jobs is not twice what they wait for without it',
  async () => {
    const db = await ground();
    await db.pool.query(
      `CREATE TABLE witness (job uuid, key text, grp text, began timestamptz, ended timestamptz)`,
    );
    await db.hf.configureQueue('inbox', { fair: true });
    await fleetOf(WORKERS, db.url, CONFIG);
    const alone = percentile(await serveSmall(db), 0.99);
    await db.rows(
      `INSERT INTO holdfast.inbox (type, partition_key, payload)
       SELECT 'witnessed', 'big', '{"ms": 2}' FROM generate_series(1, $1::int)`,
      [BIG],
    );
    await until('the mountain is worked on', async () => {
      const [row] = await db.rows<{ n: number }>(
        `SELECT count(*)::int AS n FROM witness WHERE key = 'big'`,
      );
      return (row?.n as number) > 50;
    });
    const beside = percentile(await serveSmall(db), 0.99);
    figure('wait of the others alone, p99', alone, 'ms');
    figure('beside the mountain, p99', beside, 'ms');
    const [before] = await db.rows<{ n: number }>(BIG_BEFORE);
    expect(before?.n).toBeGreaterThan(0);
    // In turns it is about one for each round of keys.
    expect(before?.n).toBeLessThan(BIG / 2);
    if (long(false, true)) expect(beside).toBeLessThanOrEqual(2 * alone);
  },
  long(120_000, 1_200_000),
);
