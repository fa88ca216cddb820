/** Shards and their owners: killed, frozen and overtaken processes neither lose an event nor apply one twice. */
import { setTimeout as sleep } from 'node:timers/promises';
import { project } from 'holdfast/projections';
import { expect, test } from 'vitest';
import { engineExecutor } from '../../../packages/holdfast/src/postgres/queryable.js';
import { load } from '../../../packages/holdfast/src/postgres/statement.js';
import {
  move,
  moveCursor,
  take,
} from '../../../packages/holdfast/src/shapes/projections/rows/cursor.js';
import { Child, QUICK } from '../../support/child.js';
import type { TestGround } from '../../support/database.js';
import { long } from '../../support/long.js';
import { until } from '../../support/until.js';
import { ADD, agreed, ordersOf, paid, TOTALS, testLogs, totalsOf } from './ground.js';

const logs = testLogs();

/** One that is only slow may look dead here: that must not change anything either. */
const OPTIONS = long({ ...QUICK, heartbeat: '100ms', ttl: '1s' }, QUICK);

async function projector({ url }: TestGround) {
  const child = new Child('projector', { url, options: OPTIONS, create: TOTALS, add: ADD });
  const { workerId } = await child.hears('ready');
  return Object.assign(child, { workerId: workerId as string });
}

test('projectors that are killed and frozen in the middle of a stream: each event is applied once', async () => {
  const db = await logs();
  const orders = ordersOf(db.hf);
  let writing = true;
  let n = 0;
  const writer = (async () => {
    for (; writing; n++) {
      await orders.append([paid(`key:${n % 20}`, n), paid(`key:${(n * 7) % 20}`, n)]);
      await sleep(10);
    }
  })();
  const ids = async (text: string, params: unknown[] = []) =>
    (await db.rows<{ id: string }>(text, params)).map(({ id }) => id);
  let children = await Promise.all([projector(db), projector(db)]);
  for (let round = 0; round < long(1, 5); round++) {
    const [frozen, shards] = await until('one has shards', async () => {
      for (const one of children) {
        const held = await ids('SELECT id FROM holdfast.projectors WHERE claimed_by = ANY ($1)', [
          [one.workerId],
        ]);
        if (held.length > 0) return [one, held] as const;
      }
      return null;
    });
    // One is frozen, and wakes up when others have a shard of its; the other one is killed meanwhile.
    frozen.signal('SIGSTOP');
    const [killed] = children.filter((one) => one !== frozen);
    killed?.signal('SIGKILL');
    const next = await projector(db);
    await until('others have shards of the frozen one', async () => {
      const text = `SELECT id FROM holdfast.projectors WHERE id = ANY ($1) AND status = 'processing'
        AND claimed_by <> $2`;
      return (await ids(text, [shards, frozen.workerId])).length > 0;
    });
    frozen.signal('SIGCONT');
    children = [next, frozen];
  }
  writing = false;
  await writer;
  const rows = (await agreed(db.rows, 40_000)) as { events: number }[];
  expect(rows.reduce((sum, { events }) => sum + events, 0)).toBe(2 * n);
});

test('an owner that was overtaken, or whose lease is over, moves no cursor', async () => {
  const { hf, pool, rows } = await logs();
  const orders = ordersOf(hf);
  await project(hf.worker({ handleSignals: false }), [totalsOf(orders, { shards: 1 })]);
  await rows(`UPDATE holdfast.projectors SET status = 'processing', claimed_by = 'me', claimed_at = now(), attempts = 1,
    lease_expires_at = now() + interval '1 minute', lease_generation = 1`);
  const [{ id }] = (await rows('SELECT id FROM holdfast.projectors')) as [{ id: string }];
  const names = { schema: 'holdfast', queue: 'projectors' };
  const db = engineExecutor(pool, { prepare: false });
  const holder = { jobId: id, generation: 1 };
  const mine = await take(db, names, holder, 1, 0);
  if (!mine) throw new Error('the cursor was not taken');
  const to = { projectionId: 1, shard: 0, done: true, until: '5:9:', untilTop: 7, at: 7, count: 1 };
  const next = await move(db, names, holder, { ...to, cursor: mine });
  expect(next).toMatchObject({ applied: 1, readSnapshot: '5:9:', readTop: 7 });
  // The same page again: it is behind the cursor.
  expect(await move(db, names, holder, { ...to, cursor: mine })).toBeUndefined();
  const cursor = next ?? mine;
  // The next owner has taken it.
  await take(db, names, holder, 1, 0);
  expect(await move(db, names, holder, { ...to, cursor })).toBeUndefined();
  const own = await take(db, names, holder, 1, 0);
  if (!own) throw new Error('the cursor was not taken');
  await rows(`UPDATE holdfast.projectors SET lease_expires_at = clock_timestamp()`);
  expect(await move(db, names, holder, { ...to, cursor: own })).toBeUndefined();
  expect(await take(db, names, holder, 1, 0)).toBeUndefined();
  // Somebody else has the job.
  await rows(
    `UPDATE holdfast.projectors SET lease_expires_at = now() + interval '1 minute', lease_generation = 2`,
  );
  expect(await move(db, names, holder, { ...to, cursor: own })).toBeUndefined();
  expect(load(moveCursor, names).text).toContain('"projectors"');
});
