/**
 * A job that takes its process down with it. A supervisor starts the process again whenever it dies, as
 * systemd or Kubernetes would.
 */
import { expect, test } from 'vitest';
import type { Enqueued } from '../../src/index.js';
import {
  type Child,
  type ChildWorkerOptions,
  QUICK,
  readyWorker,
  startWorker,
} from '../support/child.js';
import { type Ground, ground, jobs } from '../support/ground.js';
import { until } from '../support/until.js';

/** What the TTL would bring about a while later; the tests of the TTL are elsewhere. */
async function declareDead(db: Ground, worker: Child): Promise<void> {
  const { workerId } = await worker.hears('started');
  await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = $1`, [workerId]);
}

/** Keeps one worker process running until `done` holds. Returns how often it died. */
async function supervise(
  db: Ground,
  options: ChildWorkerOptions,
  done: () => Promise<boolean>,
): Promise<number> {
  const start = () => startWorker(db.url, options);
  let worker = start();
  let deaths = 0;
  await until(
    'the queue has nothing left to run',
    async () => {
      if (worker.exit) {
        expect(worker.exit, worker.describe()).toMatchObject({ signal: 'SIGABRT' });
        await declareDead(db, worker);
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

/** Leases are not at stake here. */
const PATIENT = { ...QUICK, lease: '60s', ttl: '60s' } as const;
/** Without housekeeping, nobody but the claims of others finds what a crash left behind. */
const RARELY_KEPT = { ...PATIENT, housekeeping: '60s' } as const;

test.each([
  { concurrency: 1, found: 'housekeeping', times: PATIENT },
  { concurrency: 10, found: 'housekeeping', times: PATIENT },
  { concurrency: 10, found: 'claims', times: RARELY_KEPT },
  { concurrency: 200, found: 'housekeeping', times: PATIENT },
])(
  'a job that aborts its process is buried after its attempts, and costs the others none ($concurrency at once, found by $found)',
  async ({ concurrency, times }) => {
    const db = await ground();
    const items = Array.from({ length: 200 }, (_, n) =>
      n === 100 ? jobs.poison.of({}, { maxAttempts: 3 }) : jobs.noop.of({}, { maxAttempts: 3 }),
    );
    const poison = (await db.hf.enqueueMany(items))[100]?.id as string;
    const deaths = await supervise(db, { ...times, concurrency }, async () => {
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

test('a job that ran alone without harm does not pay for the next one', async () => {
  const db = await ground();
  const first = await readyWorker(db.url, RARELY_KEPT);
  // Of one key, they lie together, and one claim takes both.
  const [harmless, deadly] = (await db.hf.enqueueMany([
    jobs.gated.of({ firstOnly: true }, { key: 'order:1' }),
    jobs.fatal.of({}, { key: 'order:1', maxAttempts: 1 }),
  ])) as [Enqueued, Enqueued];
  for (const { id } of [harmless, deadly]) await first.hears('handling', { id });
  first.signal('SIGKILL');
  await declareDead(db, first);

  // The harmless job ends at once when it is run again, but its completion cannot be written yet.
  const lock = await db.pool.connect();
  try {
    await lock.query('BEGIN; LOCK TABLE holdfast.inbox_archive IN EXCLUSIVE MODE');
    const second = await readyWorker(db.url, RARELY_KEPT);
    await second.hears('handling', { id: harmless.id, generation: 2 });
    // Should it start the deadly one meanwhile, a third worker finds both of them abandoned.
    const died = await until('it dies', () => second.exit, { timeoutMs: 1_000 }).catch(() => null);
    if (died) await declareDead(db, second);
    const third = await readyWorker(db.url, RARELY_KEPT);
    if (died) await third.hears('handling', { id: harmless.id });
    await lock.query('COMMIT');
    await until('the deadly one kills the second', () => second.exit);
    if (!died) await declareDead(db, second);
  } finally {
    lock.release(true);
  }
  await db.completed(1);
  expect(await db.hf.find(harmless.id)).toMatchObject({ status: 'completed', attempts: 1 });
  const buried = await until('the deadly one is buried', async () => {
    const row = await db.hf.find(deadly.id);
    return row?.status === 'dead_letter' && row;
  });
  expect(buried).toMatchObject({ attempts: 1 });
});

test('a job that lost its lease while it ran alone has spent no attempt if its process lives', async () => {
  const db = await ground();
  const crashed = await readyWorker(db.url, RARELY_KEPT);
  const { id } = await db.hf.enqueue(jobs.gated, {});
  await crashed.hears('handling', { id });
  crashed.signal('SIGKILL');
  await declareDead(db, crashed);
  const worker = await readyWorker(db.url, { ...RARELY_KEPT, lease: '1s', renewEvery: '300ms' });
  await worker.hears('handling', { id, generation: 2 });

  worker.signal('SIGSTOP');
  await until('its lease is over', async () => {
    const text = 'SELECT FROM holdfast.inbox WHERE lease_expires_at <= now()';
    return (await db.rows(text)).length === 1;
  });
  worker.signal('SIGCONT');
  await worker.hears('aborted', { id, generation: 2, code: 'LEASE_LOST' });
  await worker.hears('handling', { id, generation: 3 });
  worker.tell({ do: 'finish', id });
  await db.completed(1);
  expect(await db.hf.find(id)).toMatchObject({ status: 'completed', attempts: 1 });
});

test('a job that lost its lease while it ran alone does not pay for the next one', async () => {
  const db = await ground();
  const crashed = await readyWorker(db.url, RARELY_KEPT);
  // Of one key, they lie together, and one claim takes both.
  const [harmless, deadly] = (await db.hf.enqueueMany([
    jobs.gated.of({}, { key: 'order:1' }),
    jobs.fatal.of({}, { key: 'order:1', maxAttempts: 1 }),
  ])) as [Enqueued, Enqueued];
  for (const { id } of [harmless, deadly]) await crashed.hears('handling', { id });
  crashed.signal('SIGKILL');
  await declareDead(db, crashed);

  const second = await readyWorker(db.url, RARELY_KEPT);
  await second.hears('handling', { id: harmless.id, generation: 2 });
  await db.rows('UPDATE holdfast.inbox SET lease_expires_at = now() WHERE id = $1', [harmless.id]);
  await second.hears('aborted', { id: harmless.id, code: 'LEASE_LOST' });
  await until('the deadly one kills the second', () => second.exit);
  await declareDead(db, second);

  const third = await readyWorker(db.url, RARELY_KEPT);
  await third.hears('handling', { id: harmless.id, generation: 3 });
  third.tell({ do: 'finish', id: harmless.id });
  await db.completed(1);
  expect(await db.hf.find(harmless.id)).toMatchObject({ status: 'completed', attempts: 1 });
});
