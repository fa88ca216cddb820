/** What a dead worker held is found by its claims, however many older jobs wait before it. */
import { expect, test } from 'vitest';
import {
  allNoted,
  type CalmGround,
  calmGround,
  calmWorker,
  figure,
  idsOf,
  lastAfter,
  many,
  nowMs,
  READ_BY,
} from '../support/calm.js';
import { long } from '../support/long.js';
import { watchersAreOld } from '../support/watchers.js';

const BACKLOG = Number(process.env.CALM_BACKLOG ?? long(5_000, 100_000));

test.each(READ_BY.slice(0, long(1, 2)))(
  `20 jobs behind ${BACKLOG} older ones lose their worker (by %s)`,
  async (readBy) => {
    const db = await calmGround(readBy);
    // Due for an hour, and of a type that nobody here handles.
    await db.pool.query(
      `INSERT INTO holdfast.${db.queue}
       (available_at, created_at, partition_bucket, type, partition_key, payload, parked)
     SELECT now() - interval '1 hour', now() - interval '1 hour', n % 1024, 'other', n::text, '{}', false
     FROM generate_series(1, $1::integer) AS n`,
      [BACKLOG],
    );
    const options = { concurrency: 20 };
    const killed = await calmWorker(db.url, { queues: db.queues, options });
    const ids = idsOf(await db.hf.enqueueMany(many(20, db.jobs.held)));
    await allNoted([killed], 'start', ids);
    expect(await running(db)).toEqual({ processing: 20, expired: 0 });
    const other = await calmWorker(db.url, { queues: db.queues, options });

    await watchersAreOld(db);
    const since = nowMs();
    killed.signal('SIGKILL');
    const again = await allNoted([other], 'start', ids);
    figure(`20 lost jobs behind ${BACKLOG} run again, by ${readBy}`, lastAfter(again, since));
    expect(lastAfter(again, since)).toBeLessThanOrEqual(5_000);
    expect(again.map(({ generation }) => generation)).toEqual(Array(20).fill(2));
    expect(await running(db)).toEqual({ processing: 20, expired: 0 });
  },
);

/** What the status, the metrics and the dashboard say of the queue. */
async function running(db: CalmGround) {
  const { queues } = await db.hf.gauges();
  const { processing, expired } = queues.find(({ queue }) => queue === db.queue) ?? {};
  return { processing, expired };
}
