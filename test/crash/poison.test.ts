/**
 * A job that takes its process down with it. A supervisor starts the process again whenever it dies, as
 * systemd or Kubernetes would.
 */
import { expect, test } from 'vitest';
import { ALONE_FROM } from '../../packages/holdfast/src/claim/suspects.js';
import type { Enqueued, EnqueueItem } from '../../packages/holdfast/src/index.js';
import {
  type Child,
  type ChildWorkerOptions,
  QUICK,
  readyWorker,
  startWorker,
} from '../support/child.js';
import { blockedStatement, type Ground, ground, jobs } from '../support/ground.js';
import { long } from '../support/long.js';
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
/** Nobody but those who learn of a death recovers what it left behind. */
const RARELY_KEPT = { ...PATIENT, maintenance: '60s' } as const;
/** More than all groups in which suspects run together. */
const JOBS = long(80, 200);

const FLEETS = [
  { concurrency: 10, found: 'whoever learns of the death', times: RARELY_KEPT, attempts: 2 },
  // Each attempt costs a process.
  { concurrency: JOBS, found: 'maintenance', times: PATIENT, attempts: long(1, 2) },
];
test.each([
  ...FLEETS,
  ...long([], [{ concurrency: 1, found: 'maintenance', times: PATIENT, attempts: 2 }]),
])(
  'a job that aborts its process becomes a dead letter after its attempts, and costs the others none ($concurrency at once, found by $found)',
  async ({ concurrency, times, attempts }) => {
    const db = await ground();
    const items = Array.from({ length: JOBS }, (_, n) =>
      (n === JOBS / 2 ? jobs.poison : jobs.noop).item({}, { maxAttempts: attempts }),
    );
    const poison = (await db.hf.enqueueMany(items))[JOBS / 2]?.id as string;
    const deaths = await supervise(db, { ...times, concurrency }, async () => {
      const left = await db.rows(`SELECT id FROM holdfast.inbox WHERE status <> 'dead_letter'`);
      return left.length === 0;
    });

    // Twice among the others, then in two ever smaller groups, then alone for each of its attempts.
    expect(deaths).toBe(attempts + 4);
    expect(
      await db.rows('SELECT id, status::text, attempts, max_attempts FROM holdfast.inbox'),
    ).toEqual([{ id: poison, status: 'dead_letter', attempts, max_attempts: attempts }]);
    expect(
      await db.rows(
        `SELECT status::text, attempts, count(*)::int, count(DISTINCT id)::int AS jobs
         FROM holdfast.inbox_archive GROUP BY 1, 2`,
      ),
    ).toEqual([{ status: 'completed', attempts: 1, count: JOBS - 1, jobs: JOBS - 1 }]);
  },
  120_000,
);

test('the first crash of a job changes nothing: all of them run again at once, beside others', async () => {
  const db = await ground();
  const crashed = await readyWorker(db.url, PATIENT);
  const lost = await db.hf.enqueueMany(Array.from({ length: 8 }, () => jobs.gated.item({})));
  for (const { id } of lost) await crashed.hears('handling', { id });
  crashed.signal('SIGKILL');
  await declareDead(db, crashed);
  const worker = await readyWorker(db.url, { ...PATIENT, concurrency: 9 });
  for (const { id } of lost) await worker.hears('handling', { id, generation: 2 });
  const other = await db.hf.enqueue(jobs.noop, {});
  await db.completed(1);
  expect(await db.hf.job(other.id)).toMatchObject({ status: 'completed' });
  for (const { id } of lost) worker.tell({ do: 'finish', id });
  await db.completed(9);
  expect(await db.rows('SELECT DISTINCT attempts FROM holdfast.inbox_archive')).toEqual([
    { attempts: 1 },
  ]);
});

/** A job whose workers have vanished so often that it runs alone from now on. */
async function suspect(db: Ground, item: EnqueueItem): Promise<string> {
  const [{ id }] = (await db.hf.enqueueMany([item])) as [Enqueued];
  await db.rows('UPDATE holdfast.inbox SET crashes = $2 WHERE id = $1', [id, ALONE_FROM]);
  return id;
}

test('a job that ran alone without harm does not pay for the next one', async () => {
  const db = await ground();
  const harmless = await suspect(db, jobs.noop.item({}));
  // It ends at once, but its completion cannot be written yet.
  const lock = await db.pool.connect();
  try {
    await lock.query('BEGIN; LOCK TABLE holdfast.inbox_archive IN EXCLUSIVE MODE');
    const first = await readyWorker(db.url, RARELY_KEPT);
    await blockedStatement(db, 'inbox_archive');
    await db.hf.enqueue(jobs.poison, {});
    // Should it start the deadly one meanwhile, it vanishes with the other one in hand.
    const died = await until('it dies', () => first.exit, { timeoutMs: 1_000 }).catch(() => null);
    expect(died).toBeNull();
    await lock.query('COMMIT');
    await db.completed(1);
    expect(await db.hf.job(harmless)).toMatchObject({ status: 'completed', attempts: 1 });
    await until('the deadly one kills the worker', () => first.exit);
  } finally {
    lock.release(true);
  }
});

test('a job that lost its lease while it ran alone runs again, and has spent no attempt if its process lives', async () => {
  const db = await ground();
  const id = await suspect(db, jobs.gated.item({}));
  const options = { ...RARELY_KEPT, lease: '1s', renewEvery: '300ms', maintenance: '1s' } as const;
  const worker = await readyWorker(db.url, options);
  await worker.hears('handling', { id, generation: 1 });

  worker.signal('SIGSTOP');
  await until('its lease is over', async () => {
    const text = 'SELECT FROM holdfast.inbox WHERE lease_expires_at <= now()';
    return (await db.rows(text)).length === 1;
  });
  worker.signal('SIGCONT');
  await worker.hears('aborted', { id, generation: 1, code: 'LEASE_LOST' });
  await worker.hears('handling', { id, generation: 2 });
  worker.tell({ do: 'finish', id });
  await db.completed(1);
  expect(await db.hf.job(id)).toMatchObject({ status: 'completed', attempts: 1 });
});

test('a job that lost its lease while it ran alone does not pay for the next one', async () => {
  const db = await ground();
  const harmless = await suspect(db, jobs.gated.item({}));
  const first = await readyWorker(db.url, RARELY_KEPT);
  await first.hears('handling', { id: harmless, generation: 1 });
  const deadly = await db.hf.enqueue(jobs.poison, {}, { maxAttempts: 1 });
  await db.rows('UPDATE holdfast.inbox SET lease_expires_at = now() WHERE id = $1', [harmless]);
  await first.hears('aborted', { id: harmless, code: 'LEASE_LOST' });
  await until('the deadly one kills the first', () => first.exit);
  await db.hf.cancel([deadly.id]);
  await declareDead(db, first);

  const second = await readyWorker(db.url, PATIENT);
  await second.hears('handling', { id: harmless, generation: 2 });
  second.tell({ do: 'finish', id: harmless });
  await until('it is completed', async () => (await db.hf.job(harmless))?.status === 'completed');
  expect(await db.hf.job(harmless)).toMatchObject({ attempts: 1 });
});
