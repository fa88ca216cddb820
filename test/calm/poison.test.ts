/**
 * One job that aborts its process among 199 innocents, on a fleet of three under a supervisor. The job ends as
 * a dead letter after its own attempts; the innocents pay nothing; the fleet goes on with its other work.
 */
import { expect } from 'vitest';
import { type CalmGround, CalmWorker, calmGround, figure, many } from '../support/calm.js';
import { long, longTest } from '../support/long.js';
import { until } from '../support/until.js';
import { watchersAreOld } from '../support/watchers.js';

const WORKERS = 3;
/** test/crash/poison.test.ts spends two. */
const ATTEMPTS = long(1, 2);
/** How long the other jobs take: three workers do about 150 of them in a second. */
const JOB_MS = 200;

/**
 * Starts a worker whenever one has died, as a supervisor does. The processes are ready before they are
 * needed: how long this machine takes to start Node is not what is measured.
 */
function supervise(db: CalmGround) {
  let stopped = false;
  const all: CalmWorker[] = [];
  const prepare = () => new CalmWorker(db.url, { spare: true });
  const spares = [prepare(), prepare()];
  const start = () => {
    const worker = spares.shift() ?? prepare();
    spares.push(prepare());
    all.push(worker);
    worker.tell({ do: 'go' });
    void worker.exited.then(() => !stopped && start());
  };
  for (let n = 0; n < WORKERS; n++) start();
  return {
    stop() {
      stopped = true;
    },
    ready: () => until('the fleet is up', () => all.every((one) => one.heard('started'))),
    get deaths() {
      return all.filter(({ exit }) => exit).length;
    },
  };
}

/** Keeps some jobs waiting, for as long as it is let. */
function feed(db: CalmGround): () => Promise<void> {
  let on = true;
  const fed = (async () => {
    while (on) {
      const [row] = await db.rows<{ waiting: number }>(
        `SELECT count(*)::int AS waiting FROM holdfast.inbox WHERE status = 'pending'`,
      );
      if ((row?.waiting as number) < 200)
        await db.hf.enqueueMany(many(100, db.jobs.quick, { ms: JOB_MS }));
      else await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  return () => {
    on = false;
    return fed;
  };
}

async function perSecond(db: CalmGround, from: Date, to: Date): Promise<number> {
  const [row] = await db.rows<{ done: number }>(
    `SELECT count(*)::int AS done FROM holdfast.inbox_archive
     WHERE completed_at >= $1 AND completed_at < $2`,
    [from, to],
  );
  return ((row?.done as number) * 1_000) / (+to - +from);
}

longTest('a job that aborts its process', async () => {
  const db = await calmGround();
  const fleet = supervise(db);
  try {
    await poisoned(db, fleet);
  } finally {
    fleet.stop();
  }
});

async function poisoned(db: CalmGround, fleet: ReturnType<typeof supervise>): Promise<void> {
  await fleet.ready();
  const stop = feed(db);
  await db.completed(50);
  const calmFrom = new Date();
  await db.completed(300);
  await watchersAreOld(db);
  const poisonedAt = new Date();
  const usual = await perSecond(db, calmFrom, poisonedAt);

  const items = many(200, db.jobs.quick, { ms: JOB_MS });
  const options = { maxAttempts: ATTEMPTS };
  items[100] = db.jobs.poison.item({}, options);
  const ids = (await db.hf.enqueueMany(items)).map(({ id }) => id);
  const poison = ids.splice(100, 1)[0] as string;
  await until(
    'it is a dead letter',
    async () => (await db.hf.job(poison))?.status === 'dead_letter',
    { timeoutMs: 50_000, everyMs: 50 },
  );
  const overAt = new Date();
  const meanwhile = await perSecond(db, poisonedAt, overAt);
  await stop();
  figure('from the poison to its dead letter', +overAt - +poisonedAt);
  figure('processes lost', fleet.deaths, '');
  figure('throughput meanwhile', (100 * meanwhile) / usual, '%');

  expect(await db.hf.job(poison)).toMatchObject({ attempts: ATTEMPTS });
  expect(fleet.deaths).toBeLessThanOrEqual(ATTEMPTS + 4);
  expect(meanwhile / usual).toBeGreaterThanOrEqual(0.5);
  await until('everything else is done', async () => {
    const left = await db.rows(`SELECT FROM holdfast.inbox WHERE status <> 'dead_letter'`);
    return left.length === 0;
  });
  // Neither the innocents nor any of the others have lost an attempt.
  const ends = await db.rows(
    `SELECT status, attempts, count(*) FILTER (WHERE id = ANY ($1))::int AS innocents
     FROM holdfast.inbox_archive GROUP BY 1, 2`,
    [ids],
  );
  expect(ends).toEqual([{ status: 'completed', attempts: 1, innocents: 199 }]);
}
