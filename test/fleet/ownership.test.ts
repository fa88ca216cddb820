/**
 * How long jobs wait when a worker is busy, drains or dies, at default settings: another one that has a free
 * handler takes them. The ring says who reads a bucket first, and nobody waits for it.
 */
import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
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

/** A worker whose one handler is busy. */
async function busyWorker(db: Ground, key: string) {
  const { id } = await db.hf.enqueue(gated, { n: 0 }, { partitionKey: key });
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

const gap = (rows: readonly Served[], since: number) =>
  Math.max(...rows.map(({ at }) => at)) - since;

const ORDERINGS = ['none', 'key'] as const;

test.each(ORDERINGS)('nobody waits for a worker that is busy (ordering: %s)', async (ordering) => {
  const db = await ground();
  await keepLog(db);
  await db.hf.configureQueue('inbox', { ordering });
  const first = await busyWorker(db, 'busy');
  const second = await fleetWorker(db.url, { options: {} });
  const at = await clock(db);
  await db.hf.enqueueMany(KEYS.map((key) => noop.item({ n: 0 }, { partitionKey: key })));
  const rows = await served(db, KEYS);
  expect(new Set(rows.map(({ by }) => by))).toEqual(new Set([second.workerId]));
  expect(gap(rows, at)).toBeLessThan(1_000);

  // One that drains finishes what it has begun, and takes nothing more.
  first.signal('SIGTERM');
  await until('it drains', async () => {
    const text = `SELECT FROM holdfast.workers WHERE id = $1 AND status = 'draining'`;
    return (await db.rows(text, [first.workerId])).length === 1;
  });
  expect(first.exit).toBeNull();
  first.tell({ do: 'finish', id: first.jobId });
  expect(await first.exited, first.describe()).toEqual({ code: 0, signal: null });
  await db.completed(KEYS.length + 1);
});

test.each(ORDERINGS)(
  'the job of a killed worker, and what waits behind it, runs elsewhere within three seconds (ordering: %s)',
  async (ordering) => {
    const db = await ground();
    await keepLog(db);
    await db.hf.configureQueue('inbox', { ordering });
    const killed = await busyWorker(db, 'busy');
    const other: FleetWorker = await fleetWorker(db.url, { options: {} });
    await watchersAreOld(db);
    if (ordering === 'key') await db.hf.enqueue(noop, { n: 1 }, { partitionKey: 'busy' });
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
    expect((again?.at as number) - killedAt).toBeLessThan(3_000);
    const finishedAt = await clock(db);
    other.tell({ do: 'finish', id });
    if (ordering === 'none') return;
    expect(gap(await served(db, ['busy']), finishedAt)).toBeLessThan(1_000);
  },
);
