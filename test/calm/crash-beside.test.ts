/** A crash stops nobody: others' jobs go on, and what was lost runs again within seconds, unspent. */
import { expect } from 'vitest';
import {
  allNoted,
  type CalmWorker,
  calmFleet,
  calmGround,
  calmWorker,
  figure,
  idsOf,
  lastAfter,
  many,
  nowMs,
} from '../support/calm.js';
import { longTest } from '../support/long.js';
import { watchersAreOld } from '../support/watchers.js';

longTest('50 jobs lose their worker, and 100 others do not notice', async () => {
  const db = await calmGround();
  const options = { concurrency: 50 };
  const pair = await calmFleet(2, db.url, { options });
  const long = idsOf(await db.hf.enqueueMany(many(100, db.jobs.held)));
  await allNoted(pair, 'start', long);
  const [killed, survivor] = pair as [CalmWorker, CalmWorker];
  const lost = new Set(killed.noted('start').map(({ id }) => id));
  expect(lost.size).toBe(50);
  const others = [survivor, await calmWorker(db.url, { options })];

  await watchersAreOld(db);
  const since = nowMs();
  killed.signal('SIGKILL');
  const quick = idsOf(await db.hf.enqueueMany(many(100, db.jobs.quick, { ms: 5 })));
  const starts = await allNoted(others, 'start', quick);
  figure('100 unrelated starts after a crash', lastAfter(starts, since));
  expect(lastAfter(starts, since)).toBeLessThanOrEqual(2_000);

  const again = await allNoted(others, 'start', lost);
  figure('50 lost jobs run again after a crash', lastAfter(again, since));
  expect(lastAfter(again, since)).toBeLessThanOrEqual(5_000);
  const rows = await db.rows(
    `SELECT status, attempts, lease_generation::int AS generation, count(*)::int
     FROM holdfast.inbox WHERE id = ANY ($1) GROUP BY 1, 2, 3`,
    [[...lost]],
  );
  expect(rows).toEqual([{ status: 'processing', attempts: 1, generation: 2, count: 50 }]);
});
