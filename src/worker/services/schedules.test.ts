/** The ticker by a clock that is set by hand, on real rows. */
import { expect, onTestFinished, test } from 'vitest';
import { INBOX, testDatabase } from '../../../test/support/database.js';
import { handClock } from '../../../test/support/hand-clock.js';
import { until } from '../../../test/support/until.js';
import { job } from '../../index.js';
import { readDue, writeTicks } from '../../schedule/tick.js';
import { ScheduleTicker } from './schedules.js';

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
  const ticker = new ScheduleTicker({
    queues: ['inbox'],
    read: (queues, limit) => readDue(db.engine, INBOX, queues, limit),
    async write(_, ticks) {
      const moved = await writeTicks(db.engine, INBOX, ticks);
      written.push(moved.length);
      return moved;
    },
    ...{ leads: () => true, members: () => 1, listening: () => true, time },
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
