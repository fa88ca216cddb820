/** Delayed jobs and retries start when they are due, not when somebody looks. */
import { expect, test } from 'vitest';
import {
  allNoted,
  type CalmGround,
  calmGround,
  calmWorker,
  figure,
  idle,
  idsOf,
  machineLateness,
  many,
  type Note,
  percentile,
  READ_BY,
} from '../support/calm.js';
import { until } from '../support/until.js';

/** From when on each job was due, whenever that was written. */
const recordDues = (db: CalmGround) =>
  db.pool.query(`
    CREATE TABLE dues (id uuid, generation bigint, due timestamptz);
    CREATE FUNCTION record_due() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN INSERT INTO dues VALUES (NEW.id, NEW.lease_generation + 1, NEW.available_at); RETURN NEW; END';
    CREATE TRIGGER record_due AFTER INSERT OR UPDATE OF available_at ON holdfast.${db.queue}
      FOR EACH ROW EXECUTE FUNCTION record_due()`);

/** How late each start was, without what the machine itself was late by. */
async function lateness(
  db: CalmGround,
  starts: readonly Note[],
  machine: (from: number, to: number) => number,
): Promise<number[]> {
  const rows = await db.rows<{ id: string; generation: string; due: Date }>('SELECT * FROM dues');
  const dues = new Map(rows.map(({ id, generation, due }) => [`${id} ${generation}`, +due]));
  return starts.map(({ id, generation, wall }) => {
    const due = dues.get(`${id} ${generation}`) as number;
    return wall - due - machine(due, wall);
  });
}

/** 60 delayed jobs and 20 that fail once: how late each of the 80 was, the latest first. */
async function round(
  db: CalmGround,
  worker: Awaited<ReturnType<typeof calmWorker>>,
  machine: Awaited<ReturnType<typeof machineLateness>>,
): Promise<number[]> {
  const delayed = many(60, db.jobs.quick).map((item, n) => ({
    ...item,
    options: { delay: 200 + (n * 2_300) / 59 },
  }));
  const failing = many(20, db.jobs.flaky, (n) => ({ retryMs: Math.round(300 + (n * 700) / 19) }));
  const late = idsOf(await db.hf.enqueueMany(delayed));
  const again = idsOf(await db.hf.enqueueMany(failing));
  await allNoted([worker], 'completed', new Set([...late, ...again]));
  // Of each its last start: what was claimed ahead and handed back has a higher generation at its first, too.
  const timed = () => {
    const starts = worker
      .noted('start')
      .filter(({ id, generation }) => late.has(id) || (again.has(id) && generation > 1));
    return [...new Map(starts.map((one) => [one.id, one])).values()];
  };
  await until('all starts are noted', () => timed().length >= 80);
  const lateMs = await lateness(db, timed(), machine);
  expect(lateMs).toHaveLength(80);
  return lateMs.sort((a, b) => b - a);
}

test.each(READ_BY)('delayed jobs and retries on an idle worker (by %s)', async (readBy) => {
  const db = await calmGround(readBy);
  await recordDues(db);
  const worker = await calmWorker(db.url, { queues: db.queues });
  await idle(db);
  const machine = await machineLateness(db);
  // The best of three: in a whole run of the tests another file keeps half of the machine busy.
  let best = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let n = 0; n < 3 && (best[1] as number) > 50; n++) {
    const lateMs = await round(db, worker, machine);
    if ((lateMs[1] as number) < (best[1] as number)) best = lateMs;
  }
  figure(`delayed and retried jobs started late, by ${readBy}, median`, percentile(best, 0.5));
  figure(`delayed and retried jobs started late, by ${readBy}, most`, best[0] as number);
  // Of 80, one may be later.
  expect(best[1]).toBeLessThanOrEqual(50);
  expect(best[0]).toBeLessThanOrEqual(500);
});
