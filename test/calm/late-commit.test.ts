/**
 * A job whose transaction commits long after its insert lies behind everything that has run meanwhile. An
 * idle worker hears of it; a busy one looks back.
 */
import { expect, test } from 'vitest';
import {
  allNoted,
  type CalmGround,
  calmGround,
  calmWorker,
  figure,
  idle,
  idsOf,
  lastAfter,
  many,
  notesOf,
  nowMs,
  READ_BY,
  type ReadBy,
  saturated,
} from '../support/calm.js';
import { until } from '../support/until.js';

const COMMITS_AFTER_MS = 3_000;

/** Inserts a job, commits after `COMMITS_AFTER_MS`, and returns its id and when that was. */
async function commitLate(db: CalmGround): Promise<{ id: string; at: number }> {
  const tx = await db.pool.connect();
  try {
    await tx.query('BEGIN');
    const { id } = await db.hf.enqueue(db.jobs.quick, {}, { tx });
    await tx.query('SELECT pg_sleep($1)', [COMMITS_AFTER_MS / 1_000]);
    const at = nowMs();
    await tx.query('COMMIT');
    return { id, at };
  } finally {
    tx.release();
  }
}

async function startsAtOnce(readBy: ReadBy): Promise<number> {
  const db = await calmGround(readBy);
  const worker = await calmWorker(db.url, { queues: db.queues });
  await idle(db);
  const before = commitLate(db);
  // Newer jobs have passed it meanwhile.
  const newer = idsOf(await db.hf.enqueueMany(many(20, db.jobs.quick)));
  await allNoted([worker], 'completed', newer);
  const { id, at } = await before;
  const tookMs = lastAfter(await allNoted([worker], 'start', new Set([id])), at);
  figure(`start after a late commit, idle, by ${readBy}`, tookMs);
  return tookMs;
}

test('on an idle worker', async () => {
  for (const tookMs of await Promise.all(READ_BY.map(startsAtOnce)))
    expect(tookMs).toBeLessThanOrEqual(100);
});

test('on a busy worker', async () => {
  const db = await calmGround();
  const worker = await calmWorker(db.url);
  // 10 handlers do about 1,500 of these in a second, and there are always some more.
  let enough = false;
  const feed = (async () => {
    for (let sent = 0; !enough; sent += 500) {
      await db.hf.enqueueMany(many(500, db.jobs.quick, { ms: 5 }));
      await until('there is room for more', () => sent - worker.noted('start').length < 1_000);
    }
  })();
  // No hint is sent for what is inserted now.
  await until('the worker is at work', () => worker.noted('start').length > 500);
  await saturated(db);
  const { id, at } = await commitLate(db);
  const started = await allNoted([worker], 'start', new Set([id]));
  enough = true;
  await feed;
  figure('start after a late commit, busy', lastAfter(started, at));
  expect(lastAfter(started, at)).toBeLessThanOrEqual(1_200);
  // It was busy all the time.
  const starts = notesOf([worker], 'start').filter((note) => note.at > at - 2_000 && note.at < at);
  const gaps = starts.slice(1).map((note, n) => note.at - (starts[n]?.at as number));
  expect(starts.length).toBeGreaterThan(1_000);
  expect(Math.max(...gaps)).toBeLessThan(500);
});
