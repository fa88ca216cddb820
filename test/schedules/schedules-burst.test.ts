/** Thousands of schedules due at one instant: none is dropped because the ticker is busy, and none is written twice. */
import pg from 'pg';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { engineOptions } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { load } from '../../packages/holdfast/src/postgres/statement.js';
import {
  keepBacklog,
  readDue,
  writeDueTicks,
  writeTicks,
} from '../../packages/holdfast/src/schedule/tick.js';
import { newScheduleTicker } from '../../packages/holdfast/src/worker/services/schedules.js';
import { systemTime } from '../../packages/holdfast/src/worker/time.js';
import { INBOX, testDatabase } from '../support/database.js';
import { explained, paramsOf } from '../support/plans.js';
import { until } from '../support/until.js';

const db = testDatabase();
const COUNT = 4_000;

beforeEach(async () => {
  await db.rows('TRUNCATE holdfast.schedules, holdfast.inbox, holdfast.inbox_idempotency');
  await db.rows(`UPDATE holdfast.queues SET serviced_at = '{}'`);
});

interface Burst {
  readonly count?: number;
  readonly ago?: string;
  readonly catchUp?: 'none' | 'last' | 'all';
  readonly overlap?: 'allow' | 'skip';
}

/** Each has a cron line of its own and its next time in some days. */
async function due({ count = COUNT, ago = '0', catchUp = 'none', overlap = 'allow' }: Burst = {}) {
  await db.rows(
    `INSERT INTO holdfast.schedules (name, queue, type, payload, cron, timezone, catch_up, overlap, next_instant, next_at)
     SELECT 's' || n, 'inbox', 'beat', '{}', concat(n % 60, ' ', n / 60 % 24, ' ', 1 + n / 1440 % 28, ' * *'),
       'Europe/Lisbon', $3, $4, at, at
     FROM generate_series(1, $1::int) AS n, (SELECT date_trunc('second', now()) - $2::interval) AS t(at)`,
    [count, ago, catchUp, overlap],
  );
}

/** So much time passes for the schedules and for what the queue remembers. */
const passes = (time: string) =>
  db.rows(`
    WITH moved AS (UPDATE holdfast.schedules SET next_instant = next_instant - interval '${time}',
      next_at = next_at - interval '${time}' WHERE next_at < now())
    UPDATE holdfast.queues SET serviced_at = coalesce((SELECT jsonb_object_agg(s.key, s.value::timestamptz
      - interval '${time}') FROM jsonb_each_text(serviced_at) AS s), '{}')`);

/** As a worker runs it, by the real clock. */
function startTicker(wrote: () => Promise<unknown> = async () => undefined): void {
  const ticker = newScheduleTicker({
    queues: ['inbox'],
    read: (queues, limit) => readDue(db.engine, INBOX, queues, limit),
    behind: (queue) => keepBacklog(db.engine, { ...INBOX, queue }),
    async write(_, ticks) {
      const moved = await writeTicks(db.engine, INBOX, ticks);
      await wrote();
      return moved;
    },
    ...{ membership: { leads: true, size: 2 }, listening: () => true, time: systemTime },
    ...{ emit: () => undefined, reportError: (_, error) => expect(error).toBeUndefined() },
  });
  onTestFinished(() => ticker.stop());
  ticker.start();
}

async function sums() {
  const [row] = await db.rows<{
    ticks: number;
    missed: number;
    skipped: number;
    jobs: number;
    keys: number;
  }>(
    `SELECT sum(ticks)::int AS ticks, sum(missed)::int AS missed, sum(skipped)::int AS skipped,
       (SELECT count(*)::int FROM holdfast.inbox) AS jobs,
       (SELECT count(DISTINCT idempotency_key)::int FROM holdfast.inbox) AS keys FROM holdfast.schedules`,
  );
  return row as NonNullable<typeof row>;
}

const allDone = () =>
  until(
    'all are written',
    async () => (await readDue(db.engine, INBOX, ['inbox'], 1)).queues.size === 0,
  );

test('a ticker that takes half a minute for them drops none, though nothing is caught up', async () => {
  await due();
  // Each statement takes eight seconds; the last ones are 24 seconds late when they are read.
  startTicker(() => passes('8 seconds'));
  await allDone();
  expect(await sums()).toMatchObject({ ticks: COUNT, missed: 0, jobs: COUNT, keys: COUNT });
});

test('another worker that comes to help, or takes over, drops none either', async () => {
  await due();
  const { queues } = await readDue(db.engine, INBOX, ['inbox'], 1_000);
  await keepBacklog(db.engine, INBOX);
  await writeTicks(db.engine, INBOX, queues.get('inbox') ?? []);
  await passes('9 seconds');
  await keepBacklog(db.engine, INBOX);
  await passes('9 seconds');
  // The first one is gone now. Its last word is 9 seconds old.
  startTicker();
  await allDone();
  expect(await sums()).toMatchObject({ ticks: COUNT, missed: 0, jobs: COUNT });
});

test('when nobody has been at work for ten seconds, what is left was missed', async () => {
  await due();
  await keepBacklog(db.engine, INBOX);
  await passes('11 seconds');
  startTicker();
  await allDone();
  expect(await sums()).toMatchObject({ ticks: 0, missed: COUNT, jobs: 0 });
});

test('what is set back by hand is no backlog', async () => {
  await keepBacklog(db.engine, INBOX);
  await due({ count: 10, ago: '1 minute' });
  startTicker();
  await allDone();
  expect(await sums()).toMatchObject({ ticks: 0, missed: 10 });
});

test('a queue that somebody changes in a long transaction does not hold ticks up', async () => {
  await due({ count: 1_500 });
  const client = await db.pool.connect();
  onTestFinished(() => client.release());
  await client.query(`BEGIN; UPDATE holdfast.queues SET paused = false WHERE name = 'inbox'`);
  startTicker();
  await allDone();
  await client.query('ROLLBACK');
  expect(await sums()).toMatchObject({ ticks: 1_500, missed: 0 });
});

test.each(['last', 'all'] as const)(
  'three tickers at once write each once: catch up %s',
  async (catchUp) => {
    await due({ catchUp, ago: '1 hour' });
    for (let n = 0; n < 3; n++) startTicker();
    await allDone();
    expect(await sums()).toMatchObject({ ticks: COUNT, missed: 0, jobs: COUNT, keys: COUNT });
  },
);

test('overlaps are skipped at that size too', async () => {
  await due({ overlap: 'skip' });
  startTicker();
  await allDone();
  await db.rows(`DELETE FROM holdfast.inbox AS i USING holdfast.schedules AS s
    WHERE s.last_job = i.id AND substr(s.name, 2)::int % 2 = 0`);
  await db.rows(`UPDATE holdfast.schedules SET next_instant = at, next_at = at
    FROM (SELECT clock_timestamp()) AS t(at)`);
  startTicker();
  await allDone();
  expect(await sums()).toMatchObject({
    ticks: 1.5 * COUNT,
    skipped: COUNT / 2,
    missed: 0,
    jobs: COUNT,
  });
});

test('a plan that was made before there were schedules finds each by its name', async () => {
  const session = new pg.Client({ connectionString: db.url, options: engineOptions() });
  await session.connect();
  onTestFinished(() => session.end());
  await session.query('ALTER TABLE holdfast.schedules SET (autovacuum_enabled = off)');
  await session.query('ANALYZE holdfast.schedules, holdfast.inbox_idempotency');
  await session.query(`PREPARE ticks AS ${load(writeDueTicks, INBOX).text}`);
  await session.query(`EXPLAIN EXECUTE ticks(${Array(9).fill('NULL').join(', ')})`);
  await due();
  const { queues } = await readDue(db.engine, INBOX, ['inbox'], 1_000);
  const params = await paramsOf((catcher) => writeTicks(catcher, INBOX, queues.get('inbox') ?? []));
  const plan = JSON.stringify(await explained(session, 'ticks', params));
  // As many visits as there are ticks, and not as many as there are pairs.
  expect(plan).not.toContain('schedules_due_idx');
  expect(plan).toContain('schedules_pkey');
  expect((await sums()).ticks).toBe(1_000);
});
