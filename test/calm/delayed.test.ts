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

test.each(READ_BY)('delayed jobs and retries on an idle worker (by %s)', async (readBy) => {
  const db = await calmGround(readBy);
  await recordDues(db);
  const worker = await calmWorker(db.url, { queues: db.queues });
  await idle(db);
  const machine = await machineLateness(db);
  const delayed = many(60, db.jobs.quick).map((item, n) => ({
    ...item,
    options: { delay: 200 + (n * 2_300) / 59 },
  }));
  const failing = many(20, db.jobs.flaky, (n) => ({ retryMs: Math.round(300 + (n * 700) / 19) }));
  const late = idsOf(await db.hf.enqueueMany(delayed));
  const again = idsOf(await db.hf.enqueueMany(failing));
  await allNoted([worker], 'completed', new Set([...late, ...again]));
  await until('all starts are noted', () => worker.noted('start').length === 100);

  const timed = worker
    .noted('start')
    .filter(({ id, generation }) => late.has(id) || generation > 1);
  const lateMs = await lateness(db, timed, machine);
  figure(`delayed and retried jobs started late, by ${readBy}, median`, percentile(lateMs, 0.5));
  figure(`delayed and retried jobs started late, by ${readBy}, most`, Math.max(...lateMs));
  expect(lateMs).toHaveLength(80);
  // Of 80, one may be later.
  const [latest, second] = lateMs.sort((a, b) => b - a) as [number, number];
  expect(second).toBeLessThanOrEqual(50);
  expect(latest).toBeLessThanOrEqual(500);
});
