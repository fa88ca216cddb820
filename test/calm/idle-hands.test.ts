/** A job never waits for a worker that is busy while another one is idle. */
import { expect, test } from 'vitest';
import {
  allNoted,
  bareTimers,
  calmFleet,
  calmGround,
  figure,
  idsOf,
  lastAfter,
  many,
  nowMs,
  READ_BY,
} from '../support/calm.js';

const CASES = READ_BY.flatMap((readBy) => [
  { readBy, notify: true, withinMs: 1_000 },
  { readBy, notify: false, withinMs: 2_500 },
]);

test.each(CASES)(
  'one of two workers is busy, and the other does 100 jobs of 5 ms at once (by $readBy, notify: $notify)',
  async ({ readBy, notify, withinMs }) => {
    const db = await calmGround(readBy);
    const fleet = await calmFleet(2, db.url, {
      queues: db.queues,
      options: { concurrency: 1, notify },
    });
    const { id: long } = await db.hf.enqueue(db.jobs.held, {});
    await allNoted(fleet, 'start', new Set([long]));

    // The best of three: in a whole run of the tests another file keeps half of the machine busy.
    let bestMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 3 && bestMs > withinMs; round++) {
      const since = nowMs();
      const ids = idsOf(await db.hf.enqueueMany(many(100, db.jobs.quick, { ms: 5 })));
      const bare = bareTimers(100, 5);
      const done = await allNoted(fleet, 'completed', ids);
      // A machine that is itself late makes 100 timers of 5 ms take longer than 0.6 s.
      const machineMs = Math.max(0, (await bare) - 600);
      bestMs = Math.min(bestMs, lastAfter(done, since) - machineMs);
    }
    figure(`100 jobs beside a busy worker, by ${readBy}, notify ${notify}`, bestMs);
    expect(bestMs).toBeLessThanOrEqual(withinMs);
    expect(fleet.flatMap((worker) => worker.noted('completed')).map(({ id }) => id)).not.toContain(
      long,
    );
  },
);
