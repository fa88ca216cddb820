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
import { type Ground, ground } from '../../support/ground.js';
import { long } from '../../support/long.js';
import { until } from '../../support/until.js';
import { ADD, agreed, ordersOf, paid, TOTALS, totalsOf } from './ground.js';

const projector = ({ url }: Ground) =>
  new Child('projector', { url, options: QUICK, create: TOTALS, add: ADD });

test('projectors that are killed and frozen in the middle of a stream: each event is applied once', async () => {
  const db = await ground();
  const orders = ordersOf(db.hf);
  let writing = true;
  let n = 0;
  const writer = (async () => {
    for (; writing; n++) {
      await orders.append([paid(`key:${n % 20}`, n), paid(`key:${(n * 7) % 20}`, n)]);
      await sleep(10);
    }
  })();
  let children = [projector(db), projector(db)];
  // The first may take all shards: of the second we hear that it is ready.
  await Promise.all(children.map((one) => one.hears('ready')));
  for (let round = 0; round < long(2, 10); round++) {
    const [first, second] = children as [Child, Child];
    // One is frozen until it is declared dead, and wakes up when others have its shards; the other one is killed.
    if (round % 2 === 0) {
      first.signal('SIGSTOP');
      await until('the frozen one is declared dead', async () => {
        const dead = await db.rows(`SELECT FROM holdfast.workers WHERE status = 'dead'`);
        return dead.length > round / 2;
      });
      await sleep(300);
      first.signal('SIGCONT');
    } else {
      second.signal('SIGKILL');
      const next = projector(db);
      await next.hears('ready');
      children = [next, first];
    }
  }
  writing = false;
  await writer;
  const rows = (await agreed(db.rows, 40_000)) as { events: number }[];
  expect(rows.reduce((sum, { events }) => sum + events, 0)).toBe(2 * n);
});

test('an owner that was overtaken, or whose lease is over, moves no cursor', async () => {
  const { hf, pool, rows } = await ground();
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
