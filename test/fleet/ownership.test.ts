/**
 * How long a bucket goes unserved when it changes hands, at default settings: after a join, after a drain
 * and after a kill. Jobs wait in it meanwhile, and nobody tells the new owner of them.
 */
import { expect, test } from 'vitest';
import { ringOwners } from '../../src/fleet/ring.js';
import { job } from '../../src/index.js';
import { bucketOf } from '../../src/job/key.js';
import { type FleetWorker, fleetWorker, type Step } from '../support/fleet.js';
import { type Ground, ground } from '../support/ground.js';
import { keepLog } from '../support/order-log.js';
import { until } from '../support/until.js';
import { watchersAreOld } from '../support/watchers.js';

const gated = job<Step>('gated');
const noop = job<Step>('noop');
/** One handler and nothing ahead of it: what waits behind a busy one stays in the queue. */
const BUSY = { options: { concurrency: 1, prefetch: 0, batchSize: 1 } };
const KEYS = Array.from({ length: 40 }, (_, n) => `order:${n}`);

/** The keys that the ring of these workers gives to one of them. */
function keysOf(worker: FleetWorker, ring: readonly FleetWorker[]): string[] {
  const owners = ringOwners(ring.map(({ workerId }) => workerId));
  return KEYS.filter((key) => owners[bucketOf(key)] === worker.workerId);
}

/** A worker whose one handler is busy. */
async function busyWorker(db: Ground, key: string) {
  const { id } = await db.hf.enqueue(gated, { n: 0 }, { key });
  const worker = await fleetWorker(db.url, BUSY);
  await worker.hears('handling', { id });
  return Object.assign(worker, { jobId: id });
}

interface Served {
  readonly by: string;
  readonly key: string;
  /** When it was claimed, in milliseconds of the database's clock. */
  readonly at: number;
}

/** Waits until every one of these keys has been served. */
function served(db: Ground, keys: readonly string[]): Promise<Served[]> {
  return until(`${keys.length} keys are served`, async () => {
    const rows = await db.rows<Served>(
      `SELECT claimed_by AS by, partition_key AS key,
         extract(epoch FROM claimed_at)::float8 * 1000 AS at
       FROM holdfast.inbox_archive WHERE type = 'noop' AND partition_key = ANY ($1)`,
      [keys],
    );
    return rows.length === keys.length ? rows : null;
  });
}

async function clock(db: Ground): Promise<number> {
  const text = 'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS at';
  return (await db.rows<{ at: number }>(text))[0]?.at as number;
}

async function registeredAt(db: Ground, { workerId }: FleetWorker): Promise<number> {
  const text = `SELECT extract(epoch FROM started_at)::float8 * 1000 AS at FROM holdfast.workers
    WHERE id = $1`;
  return (await db.rows<{ at: number }>(text, [workerId]))[0]?.at as number;
}

const gap = (rows: readonly Served[], since: number) =>
  Math.max(...rows.map(({ at }) => at)) - since;

// Tried again once: other tests may have the processors for longer than that.
test('a worker that joins, and one that takes over from a drained one, serves its buckets within a second', {
  retry: 1,
}, async () => {
  const db = await ground();
  await keepLog(db);
  const first = await busyWorker(db, 'busy');
  await db.hf.enqueueMany(KEYS.map((key) => noop.of({ n: 0 }, { key })));
  const second = await fleetWorker(db.url, { options: {} });
  const ring = [first, second];
  const joined = await served(db, keysOf(second, ring));
  expect(new Set(joined.map(({ by }) => by))).toEqual(new Set([second.workerId]));
  const joinMs = gap(joined, await registeredAt(db, second));
  // What is the other one's waits for it.
  const waiting = await db.rows<{ key: string }>(
    `SELECT partition_key AS key FROM holdfast.inbox WHERE status = 'pending'`,
  );
  expect(waiting.map(({ key }) => key).sort()).toEqual(keysOf(first, ring).sort());

  const drainedAt = await clock(db);
  first.signal('SIGTERM');
  const taken = await served(db, keysOf(first, ring));
  expect(new Set(taken.map(({ by }) => by))).toEqual(new Set([second.workerId]));
  const drainMs = gap(taken, drainedAt);
  // It is still there, and finishes what it has begun.
  expect(first.exit).toBeNull();
  first.tell({ do: 'finish', id: first.jobId });
  expect(await first.exited, first.describe()).toEqual({ code: 0, signal: null });
  await db.completed(KEYS.length + 1);
  expect(joinMs).toBeLessThan(1_000);
  expect(drainMs).toBeLessThan(1_000);
});

test('the buckets and the job of a killed worker are served by another within three seconds', async () => {
  const db = await ground();
  await keepLog(db);
  const killed = await busyWorker(db, 'busy');
  const other = await fleetWorker(db.url, { options: {} });
  const mine = keysOf(killed, [killed, other]);
  await db.hf.enqueueMany(mine.map((key) => noop.of({ n: 0 }, { key })));
  await watchersAreOld(db);
  const killedAt = await clock(db);
  killed.signal('SIGKILL');
  const id = killed.jobId;
  await other.hears('handling', { id });
  const [again] = await db.rows<{ at: number; generation: number }>(
    `SELECT extract(epoch FROM claimed_at)::float8 * 1000 AS at, lease_generation::int AS generation
     FROM holdfast.inbox WHERE id = $1`,
    [id],
  );
  expect(again?.generation).toBe(2);
  const jobMs = (again?.at as number) - killedAt;
  other.tell({ do: 'finish', id });
  const taken = await served(db, mine);
  expect(jobMs).toBeLessThan(3_000);
  expect(gap(taken, killedAt)).toBeLessThan(3_000);
});
