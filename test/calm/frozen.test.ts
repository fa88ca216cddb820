/**
 * A worker that is frozen (SIGSTOP; in life a paused virtual machine) keeps nobody waiting, and when it goes
 * on after it was declared dead, nothing happens under its dead id.
 */
import { expect, test } from 'vitest';
import {
  allNoted,
  type CalmGround,
  type CalmWorker,
  calmFleet,
  calmGround,
  calmWorker,
  figure,
  idsOf,
  lastAfter,
  many,
  notesOf,
  nowMs,
  READ_BY,
} from '../support/calm.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';

test.each(READ_BY.slice(0, long(1, 2)))(
  'new jobs start elsewhere at once (by %s)',
  async (readBy) => {
    const db = await calmGround(readBy);
    const fleet = await calmFleet(2, db.url, { queues: db.queues });
    const [frozen, other] = fleet as [CalmWorker, CalmWorker];
    // Both are at work, and know of each other.
    const before = idsOf(await db.hf.enqueueMany(many(50, db.jobs.quick, { ms: 5 })));
    await allNoted(fleet, 'completed', before);
    frozen.signal('SIGSTOP');

    const since = nowMs();
    const ids = idsOf(await db.hf.enqueueMany(many(50, db.jobs.quick, { ms: 5 })));
    const starts = await allNoted([other], 'start', ids);
    figure(`50 starts beside a frozen worker, by ${readBy}`, lastAfter(starts, since));
    expect(lastAfter(starts, since)).toBeLessThanOrEqual(2_000);
  },
);

/** So that it is dead after 1.5 s. Leases are long: they are not what brings the jobs back. */
const SHORT = {
  ttl: '1500ms',
  heartbeat: '300ms',
  maintenance: '300ms',
  concurrency: 20,
} as const;

/** When the registry declared whom dead, by the clock of the database. */
const recordDeaths = (db: CalmGround) =>
  db.pool.query(`
    CREATE TABLE deaths (id text, at timestamptz);
    CREATE FUNCTION record_death() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN INSERT INTO deaths VALUES (NEW.id, clock_timestamp()); RETURN NEW; END';
    CREATE TRIGGER record_death AFTER UPDATE ON holdfast.workers FOR EACH ROW
      WHEN (OLD.status <> 'dead' AND NEW.status = 'dead') EXECUTE FUNCTION record_death()`);

test.each(READ_BY.slice(long(1, 0)))('nothing happens under a dead id (by %s)', async (readBy) => {
  const db = await calmGround(readBy);
  await recordDeaths(db);
  const frozen = await calmWorker(db.url, { queues: db.queues, options: SHORT });
  const held = idsOf(await db.hf.enqueueMany(many(5, db.jobs.held)));
  await allNoted([frozen], 'start', held);
  // More than it can run at once: some are claimed and not started when it freezes.
  const quick = idsOf(await db.hf.enqueueMany(many(600, db.jobs.quick, { ms: 15 })));
  await until('it is in the middle of them', () => frozen.noted('completed').length > 100, {
    everyMs: 1,
  });
  const dead = frozen.workerId;
  frozen.signal('SIGSTOP');
  const other = await calmWorker(db.url, { queues: db.queues, options: SHORT });
  other.finish();
  const fleet = [frozen, other];
  // Everything that the frozen one held is run by the other one.
  await until('everything is in the archive', async () => (await ends(db)).length === 605);
  const again = await allNoted([other], 'start', held);
  expect(again.every(({ generation }) => generation >= 2)).toBe(true);
  const [death] = await db.rows<{ id: string; at: Date }>('SELECT * FROM deaths');
  expect(death?.id).toBe(dead);

  // It goes on, with new jobs to be had.
  const more = idsOf(await db.hf.enqueueMany(many(200, db.jobs.quick, { ms: 15 })));
  const continuedAt = nowMs();
  frozen.signal('SIGCONT');
  const reregistered = await until('it is registered anew', () => frozen.noted('reregistered')[0]);
  await until('everything is in the archive', async () => (await ends(db)).length === 805);

  // Until its new registration it starts nothing, but for the one that it was starting when it froze.
  const [learned] = frozen.noted('dead');
  expect(learned?.workerId).toBe(dead);
  const between = frozen
    .noted('start')
    .filter(({ at }) => at > continuedAt && at < reregistered.at);
  expect(between.length).toBeLessThanOrEqual(1);
  expect(between.filter(({ at }) => at > (learned?.at ?? 0))).toEqual([]);
  // What it reported as lost it never reported as completed, and something was.
  const lost = frozen.noted('lost');
  expect(lost.length).toBeGreaterThanOrEqual(5);
  const claims = new Set(lost.map(({ id, generation }) => `${id} ${generation}`));
  const both = frozen
    .noted('completed')
    .filter(({ id, generation }) => claims.has(`${id} ${generation}`));
  expect(both).toEqual([]);
  // Nothing was settled in the name of the dead after its death.
  const rows = await ends(db);
  const late = rows.filter(({ by, at }) => by === dead && at >= (death?.at as Date));
  expect(late).toEqual([]);
  // Every job ended once, and is reported as completed once.
  const all = new Set([...held, ...quick, ...more]);
  expect(new Set(rows.map(({ id }) => id))).toEqual(all);
  expect(rows.every(({ status }) => status === 'completed')).toBe(true);
  await allNoted(fleet, 'completed', all);
  expect(notesOf(fleet, 'completed')).toHaveLength(all.size);
});

const ends = (db: CalmGround) =>
  db.rows<{ id: string; by: string; at: Date; status: string }>(
    `SELECT id, claimed_by AS by, completed_at AS at, status FROM holdfast.${db.queue}_archive`,
  );
