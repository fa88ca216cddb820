/** The ticker by a clock that is set by hand, on real rows. */
import { expect, onTestFinished, test } from 'vitest';
import { INBOX, testDatabase } from '../../../../../test/support/database.js';
import { handClock } from '../../../../../test/support/hand-clock.js';
import { until } from '../../../../../test/support/until.js';
import { job } from '../../index.js';
import { readDue, writeTicks } from '../../schedule/tick.js';
import { newScheduleTicker } from './schedules.js';

const db = testDatabase();

test('a tick whose row somebody has locked is tried again soon', async () => {
  await db.hf.schedule('beat', { every: '1h', job: job('beat'), payload: {} });
  await db.rows(`UPDATE holdfast.schedules
    SET next_instant = date_trunc('hour', now()), next_at = date_trunc('hour', now())`);
  const session = await db.pool.connect();
  onTestFinished(() => session.release());
  await session.query('BEGIN; SELECT 1 FROM holdfast.schedules FOR UPDATE');
  const { time, advance, timers } = handClock();
  const written: number[] = [];
  const ticker = newScheduleTicker({
    queues: ['inbox'],
    read: (queues, limit) => readDue(db.engine, INBOX, queues, limit),
    async write(_, ticks) {
      const moved = await writeTicks(db.engine, INBOX, ticks);
      written.push(moved.length);
      return moved;
    },
    ...{ membership: { leads: true, size: 1 }, listening: () => true, time },
    behind: async () => undefined,
    ...{ emit: () => undefined, reportError: (_, error) => expect(error).toBeUndefined() },
  });
  onTestFinished(() => ticker.stop());
  ticker.start();
  await until('it has passed the row over', () => written.length === 1 && timers.size === 1);
  expect(written).toEqual([0]);
  await session.query('COMMIT');
  advance(999);
  expect(timers.size).toBe(1);
  // By the hour it would otherwise sleep for 10 seconds.
  advance(1);
  await until('it has tried again', () => written.length === 2);
  expect(written).toEqual([0, 1]);
});

test('a thousand whose rows somebody has locked are not read without a pause', async () => {
  const { time, timers } = handClock();
  let reads = 0;
  const locked = { name: 'beat', nextAt: null, instants: [] } as never;
  const ticker = newScheduleTicker({
    queues: ['inbox'],
    async read() {
      reads++;
      const queues = new Map([['inbox', [locked]]]);
      return { now: 0, full: true, later: null, queues, behind: [], unreadable: [] } as never;
    },
    write: async () => [],
    ...{ membership: { leads: true, size: 1 }, listening: () => true, time },
    behind: async () => undefined,
    ...{ emit: () => undefined, reportError: (_, error) => expect(error).toBeUndefined() },
  });
  onTestFinished(() => ticker.stop());
  ticker.start();
  await until('it has checked', () => reads === 1 && timers.size === 1);
  expect(Math.min(...[...timers].map(({ at }) => at))).toBeGreaterThanOrEqual(1_000);
});

test('a schedule that catches nothing up moves on, also as the first or the only one that is due', async () => {
  await db.rows('DELETE FROM holdfast.schedules');
  const late = { every: '30d', job: job('beat'), payload: {}, catchUp: 'none' } as const;
  await db.hf.schedule('late', late);
  await db.rows(`UPDATE holdfast.schedules
    SET next_instant = next_instant - interval '60 days', next_at = next_at - interval '60 days'`);
  const { time } = handClock();
  const ticker = newScheduleTicker({
    queues: ['inbox'],
    read: (queues, limit) => readDue(db.engine, INBOX, queues, limit),
    write: (_, ticks) => writeTicks(db.engine, INBOX, ticks),
    ...{ membership: { leads: true, size: 1 }, listening: () => true, time },
    behind: async () => undefined,
    ...{ emit: () => undefined, reportError: (_, error) => expect(error).toBeUndefined() },
  });
  onTestFinished(() => ticker.stop());
  ticker.start();
  await until('it is due later', async () => (await db.hf.schedules.get('late')).missed > 0);
  const { nextAt, ticks } = await db.hf.schedules.get('late');
  expect([(nextAt as Date) > new Date(), ticks]).toEqual([true, 0]);
});

test('schedules that catch up are written in statements of a bounded size, and hold nobody up', async () => {
  await db.rows('DELETE FROM holdfast.schedules; DELETE FROM holdfast.inbox');
  const every = { every: '1s', job: job('beat'), payload: {}, catchUp: 'all' } as const;
  const behind = Array.from({ length: 30 }, (_, n) => `behind:${n}`);
  await db.hf.schedules.declare('test', Object.fromEntries(behind.map((name) => [name, every])));
  await db.rows(`UPDATE holdfast.schedules
    SET next_instant = next_instant - interval '1 hour', next_at = next_at - interval '1 hour'`);
  // Times are read in milliseconds: the ticker's first check may come in the same one.
  const [row] = await db.rows<{ began: Date }>(`
    SELECT statement_timestamp() - interval '1 millisecond' AS began`);
  const { time } = handClock();
  const sizes: number[] = [];
  const ticker = newScheduleTicker({
    queues: ['inbox'],
    read: (queues, limit) => readDue(db.engine, INBOX, queues, limit),
    async write(_, ticks) {
      const moved = await writeTicks(db.engine, INBOX, ticks);
      sizes.push(moved.reduce((sum, { written }) => sum + written, 0));
      return moved;
    },
    ...{ membership: { leads: true, size: 1 }, listening: () => true, time },
    behind: async () => undefined,
    ...{ emit: () => undefined, reportError: (_, error) => expect(error).toBeUndefined() },
  });
  onTestFinished(() => ticker.stop());
  ticker.start();
  await until('all have made a step', () => sizes.length === 3);
  expect(sizes).toEqual([1_000, 1_000, 1_000]);
  // One that was due then comes before what they have left.
  await db.hf.schedule('fresh', { every: '1h', job: job('beat'), payload: {} });
  await db.rows(
    `UPDATE holdfast.schedules SET next_instant = date_trunc('hour', $1::timestamptz), next_at = $1
     WHERE name = 'fresh'`,
    [row?.began],
  );
  const due = await readDue(db.engine, INBOX, ['inbox'], 1);
  expect(due.queues.get('inbox')).toMatchObject([{ name: 'fresh' }]);
});
