/**
 * Most of the fleet dies at once, again and again: a machine that restarts, or somebody who kills everything. The jobs
 * are not to blame, and run at full speed afterwards. What does kill its process is found all the same.
 */
import { expect, test } from 'vitest';
import {
  allNoted,
  type CalmGround,
  type CalmWorker,
  calmFleet,
  calmGround,
  calmWorker,
  figure,
  idsOf,
  lastAfter,
  many,
  nowMs,
} from '../support/calm.js';
import { long, longTest } from '../support/long.js';
import { until } from '../support/until.js';

const options = { concurrency: 20 };
const WORKERS = long(2, 3);
/** Two are enough to make suspects of jobs that are blamed. */
const KILLS = long(2, 5);
/** Of the whole fleet, around one deadly job. */
const KILLS_BESIDE = long(1, 3);

/** Kills all of them, and starts as many new ones. Returns those, and when they were up. */
async function killAll(db: CalmGround, fleet: readonly CalmWorker[]) {
  for (const worker of fleet) worker.signal('SIGKILL');
  await Promise.all(fleet.map((worker) => worker.exited));
  const next = await calmFleet(fleet.length, db.url, { options: { concurrency: 30 } });
  return { fleet: next, since: nowMs() };
}

/** Each job that ended was completed, with its first attempt. */
async function endedUnspent(db: CalmGround, count: number): Promise<void> {
  await db.completed(count);
  const ends = await db.rows(
    `SELECT status, attempts, count(*)::int FROM holdfast.inbox_archive GROUP BY 1, 2`,
  );
  expect(ends).toEqual([{ status: 'completed', attempts: 1, count }]);
}

test('jobs of a fleet that is killed again and again all run at once after each kill, unspent', async () => {
  const db = await calmGround();
  let fleet = await calmFleet(WORKERS, db.url, { options: { concurrency: 30 } });
  const ids = idsOf(await db.hf.enqueueMany(many(60, db.jobs.held)));
  await allNoted(fleet, 'start', ids);
  for (let kill = 1; kill <= KILLS; kill++) {
    const killed = await killAll(db, fleet);
    fleet = killed.fleet;
    const starts = await allNoted(fleet, 'start', ids);
    figure(`60 jobs run again after fleet-wide kill ${kill}`, lastAfter(starts, killed.since));
  }
  // None waits for another to end, and none was run alone.
  const held = await db.rows(`SELECT DISTINCT status, isolated, attempts FROM holdfast.inbox`);
  expect(held).toEqual([{ status: 'processing', isolated: false, attempts: 1 }]);
  for (const worker of fleet) worker.finish();
  await endedUnspent(db, 60);
}, 120_000);

test('a fleet that was away for longer than a lease blames nobody either', async () => {
  const db = await calmGround();
  let fleet = await calmFleet(2, db.url, { options });
  const ids = idsOf(await db.hf.enqueueMany(many(30, db.jobs.held)));
  await allNoted(fleet, 'start', ids);
  for (let away = 1; away <= long(2, 3); away++) {
    for (const worker of fleet) worker.signal('SIGKILL');
    await Promise.all(fleet.map((worker) => worker.exited));
    await until('their sessions have ended', async () => {
      const text = `SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND application_name LIKE 'holdfast %'`;
      return (await db.rows(text)).length === 0;
    });
    await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 minute'`);
    await db.rows(`UPDATE holdfast.workers SET last_seen_at = last_seen_at - interval '2 minutes',
      started_at = started_at - interval '3 minutes' WHERE status <> 'dead'`);
    fleet = await calmFleet(2, db.url, { options });
    await allNoted(fleet, 'start', ids);
  }
  // The second time makes the first of them suspects, for a moment.
  const rows = await db.rows<{ attempts: number; crashes: number }>(
    'SELECT DISTINCT attempts, crashes FROM holdfast.inbox ORDER BY crashes',
  );
  expect(rows.map(({ attempts }) => attempts)).toEqual(rows.map(() => 1));
  expect(rows.at(-1)?.crashes).toBeLessThanOrEqual(2);
}, 120_000);

/** Starts a worker whenever one has died, as a supervisor does, until it is told to stop. */
function supervise(db: CalmGround, count: number) {
  let stopped = false;
  const all: CalmWorker[] = [];
  const start = async (): Promise<void> => {
    // One that was just starting when the test ended is killed.
    const worker = await calmWorker(db.url, { options }).catch(() => null);
    if (!worker) return stopped ? undefined : start();
    all.push(worker);
    void worker.exited.then(() => (stopped ? undefined : start()));
  };
  for (let n = 0; n < count; n++) void start();
  return {
    live: () => all.filter(({ exit }) => !exit),
    deaths: () => all.filter(({ exit }) => exit).length,
    stop() {
      stopped = true;
    },
  };
}

const left = async (db: CalmGround) =>
  (await db.rows(`SELECT FROM holdfast.inbox WHERE status <> 'dead_letter'`)).length;

// In short test/crash/poison.test.ts has one among many.
test.each(
  long(
    [],
    [
      { soon: 'at once', payload: {} },
      { soon: 'after four seconds', payload: { ms: 4_000 } },
    ],
  ),
)(
  'jobs that kill every worker $soon end as dead letters, and others pay nothing',
  async ({ payload }) => {
    const db = await calmGround();
    const fleet = supervise(db, WORKERS);
    try {
      await until('the fleet is up', () => fleet.live().length === WORKERS);
      // Enough for each worker to start one of them at the same moment, again and again.
      const poison = idsOf(
        await db.hf.enqueueMany(
          Array.from({ length: 2 * WORKERS }, () =>
            db.jobs.poison.item(payload, { maxAttempts: 1 }),
          ),
        ),
      );
      await db.hf.enqueueMany(many(20, db.jobs.quick, { ms: 500 }));
      await until('all of them are dead letters', async () => (await left(db)) === 0, {
        timeoutMs: long(150_000, 400_000),
      });
      figure(`processes that ${2 * WORKERS} deadly jobs cost`, fleet.deaths(), '');
      const dead = await db.rows<{ id: string }>('SELECT id FROM holdfast.inbox');
      expect(idsOf(dead)).toEqual(poison);
      await endedUnspent(db, 20);
    } finally {
      fleet.stop();
    }
  },
  420_000,
);

longTest(
  'a deadly job ends as a dead letter also while the whole fleet is killed beside it',
  async () => {
    const db = await calmGround();
    const fleet = supervise(db, WORKERS);
    try {
      await until('the fleet is up', () => fleet.live().length === WORKERS);
      const item = db.jobs.poison.item({}, { maxAttempts: 1 });
      const [poison] = await db.hf.enqueueMany([item, ...many(20, db.jobs.quick, { ms: 500 })]);
      let kills = 0;
      let deathsBefore = 0;
      await until(
        'it is a dead letter',
        async () => {
          // After each death of its own making, everybody else dies too.
          const live = fleet.live();
          if (kills < KILLS_BESIDE && fleet.deaths() > deathsBefore && live.length === WORKERS) {
            kills++;
            for (const worker of live) worker.signal('SIGKILL');
            await Promise.all(live.map((worker) => worker.exited));
            deathsBefore = fleet.deaths();
          }
          return (await db.hf.job(poison?.id as string))?.status === 'dead_letter';
        },
        { timeoutMs: 100_000 },
      );
      expect(await db.hf.job(poison?.id as string)).toMatchObject({ attempts: 1 });
      await endedUnspent(db, 20);
      // One attempt and four crashes before it; a crash soon after a kill of all may be forgiven.
      figure('processes that one deadly job cost', fleet.deaths() - WORKERS * kills, '');
      expect(fleet.deaths() - WORKERS * kills).toBeLessThanOrEqual(1 + 4 + kills);
    } finally {
      fleet.stop();
    }
  },
  120_000,
);
