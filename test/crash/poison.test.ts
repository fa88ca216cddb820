/**
 * A job that takes its process down with it. A supervisor starts the process again whenever it dies, as
 * systemd or Kubernetes would.
 */
import { expect, test } from 'vitest';
import { QUICK, startWorker } from '../support/child.js';
import { type Ground, ground, jobs } from '../support/ground.js';
import { until } from '../support/until.js';

/** Keeps one worker process running until `done` holds. Returns how often it died. */
async function supervise(
  db: Ground,
  concurrency: number,
  done: () => Promise<boolean>,
): Promise<number> {
  const start = () => startWorker(db.url, { ...QUICK, concurrency });
  let worker = start();
  let deaths = 0;
  await until(
    'the queue has nothing left to run',
    async () => {
      if (worker.exit) {
        expect(worker.exit, worker.describe()).toMatchObject({ signal: 'SIGABRT' });
        deaths++;
        worker = start();
      }
      return done();
    },
    { timeoutMs: 60_000 },
  );
  worker.signal('SIGTERM');
  expect(await worker.exited, worker.describe()).toMatchObject({ code: 0 });
  return deaths;
}

test.each([1, 10, 200])(
  'a job that aborts its process is buried after its attempts, and costs the others none (concurrency %d)',
  async (concurrency) => {
    const db = await ground();
    const items = Array.from({ length: 200 }, (_, n) =>
      n === 100 ? jobs.poison.of({}, { maxAttempts: 3 }) : jobs.noop.of({}, { maxAttempts: 3 }),
    );
    const poison = (await db.hf.enqueueMany(items))[100]?.id as string;
    const deaths = await supervise(db, concurrency, async () => {
      const left = await db.rows(`SELECT id FROM holdfast.inbox WHERE status <> 'dead_letter'`);
      return left.length === 0;
    });

    // Once among the others, then alone for each of its attempts.
    expect(deaths).toBe(4);
    expect(
      await db.rows('SELECT id, status::text, attempts, max_attempts FROM holdfast.inbox'),
    ).toEqual([{ id: poison, status: 'dead_letter', attempts: 3, max_attempts: 3 }]);
    expect(
      await db.rows(
        `SELECT status::text, attempts, count(*)::int, count(DISTINCT id)::int AS jobs
         FROM holdfast.inbox_archive GROUP BY 1, 2`,
      ),
    ).toEqual([{ status: 'completed', attempts: 1, count: 199, jobs: 199 }]);
  },
  90_000,
);
