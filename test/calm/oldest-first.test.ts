/**
 * A queue that is read by time starts its oldest job first. With one worker no job starts further from its
 * place in due order than a batch; every further worker adds one. Priorities come before age.
 */
import type pg from 'pg';
import { expect, test } from 'vitest';
import type { EnqueueItem } from '../../packages/holdfast/src/index.js';
import {
  allNoted,
  type CalmGround,
  calmFleet,
  calmGround,
  calmWorker,
  figure,
  many,
  type Note,
  type Payload,
  percentile,
} from '../support/calm.js';
import { long } from '../support/long.js';

/** The most that a claim takes at once. */
const BATCH = 500;
/** Many batches. */
const WAITING = long(8_000, 20_000);

/** By id, the place of each waiting job in the order in which it should start. */
async function dueRanks(db: pg.Pool | pg.PoolClient): Promise<Map<string, number>> {
  const order = 'SELECT id FROM holdfast.inbox ORDER BY priority, available_at, position';
  const { rows } = await db.query<{ id: string }>(order);
  return new Map(rows.map(({ id }, rank) => [id, rank]));
}

function displacement(starts: readonly Note[], ranks: ReadonlyMap<string, number>): number {
  const places = starts.map(({ id }, rank) => Math.abs(rank - (ranks.get(id) as number)));
  figure(`displacement of ${starts.length}, p99`, percentile(places, 0.99), 'places');
  return percentile(places, 0.99);
}

/** Every second one has one of 50 keys: they say nothing about when it is due. */
const mixed = (db: CalmGround, count: number, payload: Payload = {}): EnqueueItem[] =>
  many(count, db.jobs.quick, payload).map((item, n) =>
    n % 2 ? { ...item, options: { ...item.options, partitionKey: `customer:${n % 50}` } } : item,
  );

test(`${WAITING} waiting jobs, one worker`, async () => {
  const db = await calmGround();
  const items = mixed(db, WAITING);
  for (let from = 0; from < items.length; from += 2_000)
    await db.hf.enqueueMany(items.slice(from, from + 2_000));
  const ranks = await dueRanks(db.pool);
  const worker = await calmWorker(db.url);
  const starts = await allNoted([worker], 'start', new Set(ranks.keys()));
  expect(displacement(starts, ranks)).toBeLessThanOrEqual(BATCH);
});

test(`${WAITING} waiting jobs, two workers`, async () => {
  const db = await calmGround();
  const fleet = await calmFleet(2, db.url);
  // Handlers that end at once would compete for the processor, and it would decide who comes first.
  const items = mixed(db, WAITING, { ms: 1 });
  // They become visible together, so that both workers begin with a full queue.
  const tx = await db.pool.connect();
  let ranks: Map<string, number>;
  try {
    await tx.query('BEGIN');
    for (let from = 0; from < items.length; from += 2_000)
      await db.hf.enqueueMany(items.slice(from, from + 2_000), { tx });
    ranks = await dueRanks(tx);
    await tx.query('COMMIT');
  } finally {
    tx.release();
  }
  const starts = await allNoted(fleet, 'start', new Set(ranks.keys()));
  expect(displacement(starts, ranks)).toBeLessThanOrEqual(2 * BATCH);
  const [one, other] = fleet.map((worker) => worker.noted('start').length) as [number, number];
  expect(Math.min(one, other), 'both took part').toBeGreaterThan(WAITING / 20);
});

test('priorities come first', async () => {
  const db = await calmGround();
  // The most urgent ones are the youngest.
  for (const priority of [4, 3, 2, 1] as const)
    await db.hf.enqueueMany(
      many(1_000, db.jobs.quick).map((item) => ({ ...item, options: { priority } })),
    );
  const ranks = await dueRanks(db.pool);
  const worker = await calmWorker(db.url);
  const starts = await allNoted([worker], 'start', new Set(ranks.keys()));
  expect(displacement(starts, ranks)).toBeLessThanOrEqual(BATCH);
});
