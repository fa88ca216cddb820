/**
 * A worker claims nothing before the others would notice its death: a job that kills it at once would
 * otherwise wait for its TTL.
 */
import { expect, test } from 'vitest';
import { allNoted, CalmWorker, calmGround } from '../support/calm.js';
import { blockedStatement } from '../support/ground.js';
import { until } from '../support/until.js';

test('a hint does not make a worker claim before it is watched', async () => {
  const db = await calmGround();
  await db.pool.query(`
    CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END';
    CREATE TRIGGER slow BEFORE UPDATE OF holds_liveness_lock ON holdfast.workers
      FOR EACH ROW EXECUTE FUNCTION wait_for_test()`);
  const { id } = await db.hf.enqueue(db.jobs.quick, {});
  const lock = await db.pool.connect();
  try {
    await lock.query('SELECT pg_advisory_lock(1)');
    const worker = new CalmWorker(db.url);
    await blockedStatement(db, 'holds_liveness_lock');
    await until('it listens', async () => {
      const text = `SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'holdfast listener' AND state = 'idle'`;
      return (await db.rows(text)).length > 0;
    });
    for (let n = 0; n < 10; n++) {
      await db.rows(`SELECT pg_notify('holdfast_' || 'holdfast.inbox'::regclass::oid, '*')`);
      await db.rows('SELECT pg_sleep(0.02)');
    }
    expect(await db.hf.job(id)).toMatchObject({ status: 'pending' });
    await lock.query('SELECT pg_advisory_unlock(1)');
    await allNoted([worker], 'completed', new Set([id]));
  } finally {
    lock.release(true);
  }
});
