/**
 * Jobs that come back without an insert: put off by their handler, failed, recovered. Nobody tells of them as
 * of new ones, and yet a fleet at rest starts them when they are due. A worker that found nothing looks again
 * after twice the time, so its looks are seconds apart when these are due, and not what finds them.
 */
import { beforeEach, expect, test } from 'vitest';
import { Cancel, GiveUp, job, Snooze, type WorkerEvent } from '../src/index.js';
import { testDatabase } from './support/database.js';
import { until } from './support/until.js';
import { testWorkers } from './support/workers.js';

const db = testDatabase();
const start = testWorkers();
const RARELY = { poll: '60s' };
/** Looks come after 2.0 to 2.6 s of rest, and then after 4.1 at the earliest. */
const DELAY_MS = 2_700;
const NEXT_LOOK_MS = 4_000;
const soon = () => DELAY_MS;
const plain = job<{ n: number }>('plain', { retry: soon });
const ordered = job<{ n: number }>('ordered', { retry: soon, ordering: 'key' });

beforeEach(() => db.rows('TRUNCATE holdfast.inbox'));

/** Everybody holds the lock that says so. */
const asleep = (workers: number) =>
  until('the fleet sleeps', async () => {
    const rows = await db.rows(
      `SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock'
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND classid = 'holdfast.inbox'::regclass AND objid = 0`,
    );
    return rows.length >= workers;
  });

/** A worker that looks rarely. After two seconds between two looks the next is not soon. */
function rarely() {
  const looks: number[] = [];
  const onEvent = (event: WorkerEvent) => {
    if (event.kind === 'statement' && event.statement === 'claim') looks.push(performance.now());
  };
  const rested = () =>
    until('its looks are rare', () => {
      const [last = 0, before = last] = looks.toReversed();
      return last - before > 2_000;
    });
  return { options: { ...RARELY, onEvent }, rested };
}

test.each([plain, ordered])('a failed $type job is tried again when it is due', async (kind) => {
  const tries: number[] = [];
  start(
    db.hf,
    (w) =>
      w.handle(kind, () => {
        tries.push(performance.now());
        if (tries.length === 1) throw new Error('not yet');
      }),
    RARELY,
  );
  await asleep(1);
  await db.hf.enqueue(kind, { n: 1 }, { key: 'order:9182' });
  await until('it was tried again', () => tries.length === 2);
  const [first = 0, second = 0] = tries;
  expect(second - first).toBeGreaterThanOrEqual(DELAY_MS);
  expect(second - first).toBeLessThan(NEXT_LOOK_MS);
});

test('a failed job is tried again when it is due, also while ordered ones have a long line', async () => {
  const line = Array.from({ length: 20_000 }, (_, n) =>
    ordered.of({ n }, { key: `order:${n % 500}` }),
  );
  await db.hf.enqueueMany(line);
  await db.hf.enqueue(plain, { n: 1 });
  const tries: number[] = [];
  let left = line.length;
  const { worker } = start(
    db.hf,
    (w) =>
      w
        .handle(ordered, async () => {
          await new Promise((resolve) => setTimeout(resolve, 5));
          left--;
        })
        .handle(plain, () => {
          tries.push(performance.now());
          if (tries.length === 1) throw new Error('not yet');
        }),
    RARELY,
  );
  await until('it was tried again', () => tries.length === 2);
  expect(left).toBeGreaterThan(0);
  await worker.stop();
  const [first = 0, second = 0] = tries;
  expect(second - first).toBeGreaterThanOrEqual(DELAY_MS);
  expect(second - first).toBeLessThan(DELAY_MS + 700);
});

test('the next job of a key starts when the one before has left it, however it did', async () => {
  const leaves = {
    completed: () => {},
    buried: () => {
      throw new GiveUp('never');
    },
    cancelled: () => {
      throw new Cancel('no more');
    },
    retried: (attempt: number) => {
      if (attempt === 1) throw new Error('not yet');
    },
    // Its first job is at work for long, and the others come meanwhile.
    occupied: () => finished,
  };
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const kinds = Object.entries(leaves).map(([name, leave]) => {
    const kind = job<{ n: number }>(name, { ordering: 'key', retry: () => 50 });
    const line = (from: number, to: number) =>
      [0, 1, 2, 3, 4].slice(from, to).map((n) => kind.of({ n }, { key: name }));
    return { name, kind, leave, line, ran: [] as number[] };
  });
  const { options, rested } = rarely();
  start(
    db.hf,
    (w) => {
      for (const { kind, leave, ran } of kinds) {
        w.handle(kind, ({ payload, attempt }) => {
          ran.push(payload.n);
          return leave(attempt);
        });
      }
      return w;
    },
    options,
  );
  const occupied = kinds.at(-1);
  await db.hf.enqueueMany(occupied?.line(0, 1) ?? []);
  await until('the first runs', () => occupied?.ran.length === 1);
  await db.hf.enqueueMany(occupied?.line(1, 5) ?? []);
  await rested();
  const from = performance.now();
  await db.hf.enqueueMany(kinds.slice(0, -1).flatMap(({ line }) => line(0, 5)));
  finish();
  const tookMs: Record<string, number> = {};
  await until('all of them ran', () => {
    for (const { name, ran } of kinds)
      if (ran.at(-1) === 4) tookMs[name] ??= performance.now() - from;
    return Object.keys(tookMs).length === kinds.length;
  });
  for (const [name, ms] of Object.entries(tookMs)) expect(ms, name).toBeLessThan(1_000);
});

test('a snoozed job runs again when it said', async () => {
  const runs: number[] = [];
  start(
    db.hf,
    (w) =>
      w.handle(plain, () => {
        runs.push(performance.now());
        if (runs.length === 1) throw new Snooze(DELAY_MS);
      }),
    RARELY,
  );
  await asleep(1);
  await db.hf.enqueue(plain, { n: 1 });
  await until('it ran again', () => runs.length === 2);
  const [first = 0, second = 0] = runs;
  expect(second - first).toBeLessThan(NEXT_LOOK_MS);
});

test('recovered jobs start at once, whoever of the fleet recovered them', async () => {
  const ran = new Set<number>();
  const options = { ...RARELY, housekeeping: '200ms' };
  await db.rows(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, status, attempts,
       lease_generation, claimed_by, claimed_at, lease_expires_at)
     SELECT 'plain', 'order:' || n, holdfast.bucket_of('order:' || n), jsonb_build_object('n', n), 'processing',
       1, 1, 'somebody-long-gone', now(), now() + interval '1 hour'
     FROM generate_series(1, 20) AS n`,
  );
  for (const _ of [1, 2, 3]) {
    start(db.hf, (w) => w.handle(plain, ({ payload }) => void ran.add(payload.n)), options);
  }
  await asleep(3);
  // Looks come after 4.1 to 5.1 s of rest, and then after 8.2 at the earliest.
  await until('they have rested for long', async () => {
    const text = `SELECT FROM holdfast.workers WHERE status = 'alive' AND started_at < now() - interval '5.6 s'`;
    return (await db.rows(text)).length === 3;
  });
  await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now()`);
  const from = performance.now();
  await until('all of them ran', () => ran.size === 20);
  expect(performance.now() - from).toBeLessThan(2_000);
});
