/**
 * A concurrency and a rate while processes join, are killed and are frozen under load, and a rate that those which are
 * left use in full. What runs is written down by the handlers; the attempt of a process that vanished is over when the
 * queue took its job back. (What a frozen process does before it learns of that counts for nothing, and is no part of it.)
 */
import { expect } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { Child, QUICK } from '../support/child.js';
import { type Ground, ground } from '../support/ground.js';
import { mostWithin, NOTE_STARTS, type NotedStart, STARTS } from '../support/limited.js';
import { long, longTest } from '../support/long.js';
import { until } from '../support/until.js';

const LIMIT = 5;
const RATE = { limit: 100, per: '1s', burst: 20 };
const WORKERS = long(3, 8);
const KILLS = long(2, 200);
const limited = job<{ ms: number }>('limited');

const WITNESS = `
CREATE TABLE witness (job uuid, generation bigint, pid integer,
  started timestamptz NOT NULL DEFAULT clock_timestamp(), ended timestamptz, PRIMARY KEY (job, generation))`;

/** Attempts with their ends. A job that vanished has a line in its history, in the order of its generations. */
const ATTEMPTS = `
WITH jobs AS (
  SELECT id, history FROM holdfast.inbox_archive UNION ALL SELECT id, history FROM holdfast.inbox
), vanished AS (
  SELECT j.id, (v.entry ->> 'at')::timestamptz AS at
  FROM jobs AS j CROSS JOIN LATERAL jsonb_array_elements(coalesce(j.history, '[]')) AS v(entry)
  WHERE v.entry ->> 'outcome' = 'vanished'
), attempts AS (
  SELECT w.started, least(w.ended,
    (SELECT min(v.at) FROM vanished AS v WHERE v.id = w.job AND v.at > w.started)) AS ended
  FROM witness AS w
)
SELECT (extract(epoch FROM started) * 1000)::float8 AS started, (extract(epoch FROM ended) * 1000)::float8 AS ended
FROM attempts WHERE ended IS NOT NULL`;

async function mostAtOnce(db: Ground): Promise<number> {
  const attempts = await db.rows<{ started: number; ended: number }>(ATTEMPTS);
  const steps = attempts
    .flatMap(({ started, ended }) => [
      { at: started, by: 1 },
      { at: ended, by: -1 },
    ])
    .sort((a, b) => a.at - b.at || a.by - b.by);
  let [now, most] = [0, 0];
  for (const { by } of steps) {
    now += by;
    most = Math.max(most, now);
  }
  return most;
}

async function limitWorker(url: string): Promise<Child> {
  const options = { ...QUICK, concurrency: 4 };
  const child = new Child('limit-worker', {
    url,
    options,
    limit: { concurrency: LIMIT, rate: RATE },
  });
  await child.hears('started');
  return child;
}

/**
 * A rate alone, with enough work for some seconds. The burst is what half a second of a busy machine may cost. Two cores
 * carry about 340 jobs a second with eight processes that write down every start, so the rate is well below that.
 */
async function rateIsUsed(db: Ground): Promise<void> {
  const rate = long({ limit: 50, burst: 25 }, { limit: 200, burst: 100 });
  const jobs = long(2, 20) * rate.limit + rate.burst;
  await db.hf.limits.set({ type: 'limited' }, { rate: { ...rate, per: '1s' } });
  await db.rows('DELETE FROM claims_noted');
  await db.hf.enqueueMany(Array.from({ length: jobs }, () => limited.item({ ms: 0 })));
  await until(
    'all have run',
    async () => (await db.rows('SELECT FROM holdfast.inbox LIMIT 1')).length === 0,
    { timeoutMs: 60_000 },
  );
  const starts = await db.rows<NotedStart>(STARTS);
  expect(mostWithin(starts, 1_000)).toBeLessThanOrEqual(rate.limit + rate.burst);
  const times = starts.map(({ before }) => before);
  const seconds = (Math.max(...times) - Math.min(...times)) / 1_000;
  const reached = (starts.length - rate.burst) / seconds / rate.limit;
  if (process.env.CALM_FIGURES) console.error(`${(100 * reached).toFixed(1)} % of the rate`);
  // Beside other tests processes may get less than they need; test/limits/limits-worker.test.ts asks for more.
  expect(reached).toBeGreaterThan(long(0.5, 0.98));
}

const running = async (db: Ground) => {
  const [row] = await db.rows<{ n: number }>(
    `SELECT count(*)::int AS n FROM holdfast.inbox WHERE status = 'processing'`,
  );
  return row?.n as number;
};

longTest(
  'a concurrency and a rate are never exceeded and never leak while processes are killed and frozen',
  async () => {
    const db = await ground();
    await db.pool.query(WITNESS);
    await db.pool.query(NOTE_STARTS);
    let fleet = await Promise.all(Array.from({ length: WORKERS }, () => limitWorker(db.url)));
    let on = true;
    const producing = (async () => {
      while (on) {
        await db.hf.enqueueMany(Array.from({ length: 40 }, () => limited.item({ ms: 50 })));
        await until('the backlog is short', async () => {
          const [row] = await db.rows<{ n: number }>(
            'SELECT count(*)::int AS n FROM holdfast.inbox',
          );
          return !on || (row?.n as number) < 60;
        });
      }
    })();
    const ran = async () => {
      const [row] = await db.rows<{ n: number }>('SELECT count(*)::int AS n FROM witness');
      return row?.n as number;
    };
    for (let kill = 0; kill < KILLS; kill++) {
      const [victim, ...rest] = fleet as [Child, ...Child[]];
      const before = await ran();
      if (kill % 4 === 1) {
        victim.signal('SIGSTOP');
        await until('it is declared dead', async () => {
          const rows = await db.rows<{ status: string }>(
            'SELECT status FROM holdfast.workers WHERE id = $1',
            [victim.heard('started')?.workerId],
          );
          return rows[0]?.status === 'dead';
        });
        victim.signal('SIGCONT');
        await victim.hears('reregistered');
      }
      victim.signal('SIGKILL');
      fleet = [...rest, await limitWorker(db.url)];
      await until('the others go on', async () => (await ran()) > before + 5);
    }
    on = false;
    await producing;
    await until('all is done', async () => (await running(db)) === 0, { timeoutMs: 60_000 });
    expect(await mostAtOnce(db)).toBeLessThanOrEqual(LIMIT);

    // After all of this the limit is reached in full.
    await db.hf.enqueueMany(Array.from({ length: 3 * LIMIT }, () => limited.item({ ms: 400 })));
    await until('all places are taken', async () => (await running(db)) === LIMIT, { everyMs: 5 });
    await until('the queue is empty', async () => {
      const rows = await db.rows('SELECT FROM holdfast.inbox');
      return rows.length === 0;
    });
    expect(await mostAtOnce(db)).toBe(LIMIT);
    const starts = await db.rows<NotedStart>(STARTS);
    expect(mostWithin(starts, 1_000)).toBeLessThanOrEqual(RATE.limit + RATE.burst);
    await rateIsUsed(db);
  },
  long(120_000, 900_000),
);
