/** Nobody takes jobs that it cannot start while another worker has a free handler. */
import { expect, test } from 'vitest';
import {
  allNoted,
  type CalmWorker,
  calmFleet,
  calmGround,
  figure,
  idsOf,
  lastAfter,
  many,
  nowMs,
} from '../support/calm.js';

const JOB_MS = 1_000;

test('4 workers x 5 run 20 long jobs at the same time', async () => {
  const db = await calmGround();
  const fleet = await calmFleet(4, db.url, { options: { concurrency: 5 } });
  for (let round = 1; round <= 3; round++) {
    const since = nowMs();
    const ids = idsOf(await db.hf.enqueueMany(many(20, db.jobs.quick, { ms: JOB_MS })));
    const starts = await allNoted(fleet, 'start', ids);
    figure(`20 starts on 4 x 5 handlers, round ${round}`, lastAfter(starts, since));
    expect(lastAfter(starts, since)).toBeLessThanOrEqual(500);
    const done = await allNoted(fleet, 'completed', ids);
    expect(lastAfter(done, since)).toBeLessThanOrEqual(JOB_MS + 500);
    expect(fleet.map((worker) => ran(worker, ids))).toEqual([5, 5, 5, 5]);
  }
});

const ran = (worker: CalmWorker, ids: ReadonlySet<string>) =>
  worker.noted('start').filter(({ id }) => ids.has(id)).length;
