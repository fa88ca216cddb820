/** A fleet that grows and shrinks under load keeps every key in order, and wastes nothing. */
import { expect, test } from 'vitest';
import { allWork, fleetOf, Load } from '../support/fleet.js';
import { ground } from '../support/ground.js';
import { long } from '../support/long.js';
import { checkOrder, keepLog, readLog } from '../support/order-log.js';

const KEYS = 300;
const [MOST, LEFT] = long([5, 2], [8, 3]);
/** A machine that is busy with other tests must not look like a crash. */
const CALM = { heartbeat: '1s', ttl: '30s', poll: '100ms' } as const;
const NOBODY = new Set<number>();

test(`from 1 to ${MOST} to ${LEFT} workers under load: every job of a key runs after the one before it, and once`, async () => {
  const db = await ground();
  await keepLog(db);
  await db.hf.configureQueue('inbox', { ordering: 'key' });
  const config = { options: { ...CALM, concurrency: 5 } };
  const load = new Load(db, KEYS);
  const first = await fleetOf(1, db.url, config);
  await allWork(db, first);
  const all = [...first, ...(await fleetOf(MOST - 1, db.url, config))];
  await allWork(db, all);
  const [leaving, staying] = [all.slice(0, -LEFT), all.slice(-LEFT)];
  for (const worker of leaving) worker.signal('SIGTERM');
  for (const worker of leaving) {
    expect(await worker.exited, worker.describe()).toEqual({ code: 0, signal: null });
  }
  await allWork(db, staying);
  const total = await load.finish();

  const log = await readLog(db);
  const checked = checkOrder(log, NOBODY);
  expect(checked.broken).toEqual([]);
  expect([...checked.ended.values()]).toEqual(load.keys.map(() => load.rounds));
  // Only what failed on purpose was repeated: nobody lost anything, neither at a join nor at a stop.
  expect(checked.repeats).toBe(log.filter(({ kind }) => kind === 'failed').length);
  expect(checked.repeats).toBeGreaterThan(0);
  const [archive] = await db.rows(
    `SELECT count(*)::int, count(DISTINCT id)::int AS jobs, count(DISTINCT claimed_by)::int AS workers,
       count(*) FILTER (WHERE attempts <> 1 + (payload ->> 'fails')::int)::int AS spent
     FROM holdfast.inbox_archive`,
  );
  expect(archive).toEqual({ count: total, jobs: total, workers: MOST, spent: 0 });
}, 120_000);
