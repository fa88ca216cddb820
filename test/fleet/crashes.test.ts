/**
 * Order per key while processes are killed and frozen under load. A job may run again, never out of its
 * turn: not after it was completed, and the next one not before. What a process does that was frozen and
 * does not know it yet is outside of any order; that it counts for nothing is what is checked.
 */
import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { QUICK } from '../support/child.js';
import {
  allWork,
  type FleetWorker,
  fleetOf,
  fleetWorker,
  Load,
  reregisteredPids,
  type Step,
} from '../support/fleet.js';
import { type Ground, ground } from '../support/ground.js';
import { long, longTest } from '../support/long.js';
import { checkOrder, keepLog, readLog } from '../support/order-log.js';
import { until } from '../support/until.js';

const KEYS = 200;
/** For few handlers. */
const MORE_KEYS = 60;
/** In each one process is killed and one frozen. */
const ROUNDS = long(1, 3);
const CONFIG = { options: { ...QUICK, poll: '100ms', concurrency: 5 } } as const;

async function orderedGround(): Promise<Ground> {
  const db = await ground();
  await keepLog(db);
  await db.hf.configureQueue('inbox', { ordering: 'key' });
  return db;
}

const isDead = (db: Ground, { workerId }: FleetWorker) =>
  until(`${workerId} is declared dead`, async () => {
    const text = 'SELECT status FROM holdfast.workers WHERE id = $1';
    return (await db.rows<{ status: string }>(text, [workerId]))[0]?.status === 'dead';
  });

longTest(
  'a fleet whose processes are killed and frozen under load keeps every key in order',
  async () => {
    const db = await orderedGround();
    const load = new Load(db, KEYS);
    let fleet = await fleetOf(3, db.url, CONFIG);
    await allWork(db, fleet);
    const everybody = [...fleet];
    const crashed: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const [killed, frozen, ...rest] = fleet as [FleetWorker, FleetWorker, ...FleetWorker[]];
      crashed.push(killed.pid, frozen.pid);
      killed.signal('SIGKILL');
      frozen.signal('SIGSTOP');
      fleet = [...rest, ...(await fleetOf(2, db.url, CONFIG))];
      everybody.push(...fleet);
      await Promise.all([isDead(db, killed), isDead(db, frozen)]);
      await allWork(db, fleet);
      frozen.signal('SIGCONT');
      await frozen.hears('reregistered');
    }
    const total = await load.finish();

    const log = await readLog(db);
    const checked = checkOrder(log, new Set([...crashed, ...reregisteredPids(everybody)]));
    expect(checked.broken).toEqual([]);
    expect([...checked.ended.values()]).toEqual(load.keys.map(() => load.rounds));
    // Something was lost with the processes and was run again, or nothing would have been tried.
    expect(checked.repeats).toBeGreaterThan(log.filter(({ kind }) => kind === 'failed').length);
    const [archive] = await db.rows(
      `SELECT count(*)::int, count(DISTINCT id)::int AS jobs FROM holdfast.inbox_archive
     WHERE status = 'completed'`,
    );
    expect(archive).toEqual({ count: total, jobs: total });
    // What handlers write in their transactions is there once.
    const twice = await db.rows(
      `SELECT l.job FROM log AS l JOIN holdfast.inbox_archive AS a ON a.id = l.job
     WHERE l.kind = 'end' AND a.type = 'guarded_step' GROUP BY l.job HAVING count(*) > 1`,
    );
    expect(twice).toEqual([]);
  },
  120_000,
);

test('a zombie with a stale ring starts nothing of what others have done meanwhile, and rejoins', async () => {
  const db = await orderedGround();
  const config = { options: { ...QUICK, concurrency: 2 } } as const;
  const zombie = await fleetWorker(db.url, config);
  const gated = job<Step>('gated');
  const step = job<Step>('step');
  // Two handlers wait, and the rest of their keys is in hand behind them.
  const keys = ['frozen:1', 'frozen:2'];
  const line = (key: string) => [
    gated.item({ n: 0 }, { partitionKey: key }),
    ...Array.from({ length: 10 }, (_, n) => step.item({ n: n + 1 }, { partitionKey: key })),
  ];
  await db.hf.enqueueMany(keys.flatMap(line));
  await until('two handlers wait', () => zombie.count('handling') === 2);
  const heads = zombie.messages.filter(({ kind }) => kind === 'handling').map(({ id }) => id);
  zombie.signal('SIGSTOP');

  // It is declared dead, its keys have new owners, and these are not the ones that it knows.
  const others = await fleetOf(2, db.url, config);
  await until('the keys are worked through', async () => {
    for (const other of others)
      for (const id of heads) other.tell({ do: 'finish', id: id as string });
    return (await db.rows('SELECT id FROM holdfast.inbox')).length === 0;
  });
  const before = await readLog(db);
  zombie.signal('SIGCONT');
  for (const id of heads) {
    expect(await zombie.hears('aborted', { id: id as string })).toMatchObject({
      code: 'LEASE_LOST',
    });
  }
  await zombie.hears('reregistered', { was: zombie.workerId });
  // Its handlers end, and would be followed by what was in hand behind them.
  for (const id of heads) zombie.tell({ do: 'finish', id: id as string });

  // It has its part of the ring again.
  const load = new Load(db, MORE_KEYS);
  await allWork(db, [...others, zombie]);
  await load.finish();
  const log = await readLog(db);
  const checked = checkOrder(log, new Set(reregisteredPids([zombie, ...others])));
  expect(checked.broken).toEqual([]);
  expect(checked.stale).toEqual([]);
  for (const key of keys) expect(checked.ended.get(key)).toBe(11);
  expect(log.slice(before.length).filter((row) => keys.includes(row.key))).toMatchObject(
    heads.map(() => ({ kind: 'end', pid: zombie.pid, n: 0 })),
  );
  expect([...checked.ended.values()].reduce((sum, n) => sum + n)).toBe(
    22 + load.rounds * MORE_KEYS,
  );
}, 90_000);
