/** One of a large fleet dies: one or two of the others recover what it held, not all of them. */
import { expect, test } from 'vitest';
import { type JobDefinition, job } from '../../packages/holdfast/src/index.js';
import { allNoted, calmWorker, type Payload } from '../support/calm.js';
import { type Ground, ground } from '../support/ground.js';
import { long, longTest } from '../support/long.js';
import { until } from '../support/until.js';
import { watchersAreOld } from '../support/watchers.js';
import { testWorkers } from '../support/workers.js';

const start = testWorkers();
const QUEUES = ['inbox', 'mail', 'orders', 'reports', 'images'];
const SURVIVORS = long(8, 19);

/** Notes every statement that recovers, also one that finds nothing. */
async function noteRecoveries(db: Ground): Promise<void> {
  await db.pool.query(`CREATE TABLE recoveries (queue text, at timestamptz DEFAULT clock_timestamp());
    CREATE FUNCTION note_recovery() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF ltrim(current_query(), E'\\n ') LIKE 'WITH held AS%' THEN
        INSERT INTO recoveries (queue) VALUES (TG_TABLE_NAME);
      END IF;
      RETURN NULL;
    END $$`);
  for (const queue of QUEUES)
    await db.pool.query(`CREATE TRIGGER note AFTER UPDATE ON holdfast.${queue}
      FOR EACH STATEMENT EXECUTE FUNCTION note_recovery()`);
}

const inQueue = (queue: string): JobDefinition<Payload, Payload> =>
  job<Payload>(queue === 'inbox' ? 'held' : `held:${queue}`, { queue });

async function survivors(db: Ground, count: number) {
  const ended = new Set<string>();
  const fleet = Array.from({ length: count }, () =>
    start(
      db.hf,
      (worker) =>
        QUEUES.reduce(
          (on, queue) => on.handle(inQueue(queue), ({ id }) => void ended.add(id)),
          worker,
        ),
      // Rounds of maintenance recover as well.
      { maintenance: '1h' },
    ),
  );
  for (const { events } of fleet)
    await until('it is up', () => events.some(({ kind }) => kind === 'started'));
  return ended;
}

longTest(
  `of ${SURVIVORS} survivors at most two recover a queue of the dead one`,
  async () => {
    const db = await ground();
    for (const queue of QUEUES.slice(1)) await db.hf.createQueue(queue);
    const killed = await calmWorker(db.url, { queues: QUEUES });
    const held = await Promise.all(QUEUES.map((queue) => db.hf.enqueue(inQueue(queue), {})));
    const ids = new Set(held.map(({ id }) => id));
    await allNoted([killed], 'start', ids);
    const ended = await survivors(db, SURVIVORS);
    await watchersAreOld(db);
    await noteRecoveries(db);

    killed.signal('SIGKILL');
    await until('its jobs have run elsewhere', () => ended.size === ids.size);
    await until('all have heard of it for long', async () => {
      const text = `SELECT WHERE clock_timestamp() > (SELECT min(at) FROM recoveries) + interval '4 seconds'`;
      return (await db.rows(text)).length === 1;
    });
    const counts = await db.rows<{ queue: string; count: number }>(
      'SELECT queue, count(*)::int FROM recoveries GROUP BY queue ORDER BY queue',
    );
    expect(counts.map(({ queue }) => queue)).toEqual([...QUEUES].sort());
    for (const { queue, count } of counts) expect(count, queue).toBeLessThanOrEqual(2);
  },
  120_000,
);

test('whoever recovers and dies in the middle of it is recovered itself, with what it had left', async () => {
  const db = await ground();
  const first = await calmWorker(db.url);
  const { id } = await db.hf.enqueue(inQueue('inbox'), {});
  await allNoted([first], 'start', new Set([id]));
  const [second, third] = [await calmWorker(db.url), await calmWorker(db.url)];
  await watchersAreOld(db);
  // Recoveries wait here; the first two that come are those of whoever declared it dead and of whoever leads.
  const lock = await db.pool.connect();
  try {
    await lock.query('BEGIN; LOCK TABLE holdfast.inbox_claims IN ACCESS EXCLUSIVE MODE');
    first.signal('SIGKILL');
    await until('somebody recovers', async () => {
      const text = `SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE '%WITH held AS%'`;
      return (await db.rows(text)).length > 0;
    });
    const leader = second.workerId < third.workerId ? second : third;
    const other = leader === second ? third : second;
    leader.signal('SIGKILL');
    await leader.exited;
    // What it had sent must not do its work after its death.
    await db.rows(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
      AND query LIKE '%WITH held AS%' AND pid <> pg_backend_pid()`);
    await lock.query('COMMIT');
    const since = Date.now();
    await allNoted([other], 'start', new Set([id]));
    expect(Date.now() - since).toBeLessThan(8_000);
  } finally {
    lock.release(true);
  }
});
