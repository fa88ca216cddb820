/** Which ticks become jobs after an outage, and what is next. */
import { expect, test } from 'vitest';
import { type CatchUp, MAX_STEP, ticksOf } from './due.js';

const now = Date.parse('2026-11-17T12:30:00Z');
const at = (time: string) => Date.parse(`2026-11-17T${time}Z`);
const hourly = { cron: '0 * * * *', everyMs: null, timezone: 'UTC' };
const seconds = { cron: null, everyMs: 1_000, timezone: 'UTC' };

const ticks = (timing: typeof hourly | typeof seconds, catchUp: CatchUp, nextInstant: number) =>
  ticksOf({ name: 'a', jitterMs: 0, catchUp, nextInstant, ...timing }, now);

test('three ticks were missed', () => {
  const from = at('10:00:00');
  const next = { next: at('13:00:00'), nextAt: at('13:00:00') };
  expect(ticks(hourly, 'none', from)).toEqual({ instants: [], missed: 3, ...next });
  expect(ticks(hourly, 'last', from)).toEqual({ instants: [at('12:00:00')], missed: 2, ...next });
  const all = [from, at('11:00:00'), at('12:00:00')];
  expect(ticks(hourly, 'all', from)).toEqual({ instants: all, missed: 0, ...next });
});

test('a tick that is a few seconds late is no missed one, whatever is caught up', () => {
  for (const catchUp of ['none', 'last', 'all'] as const) {
    const { instants, missed } = ticks(seconds, catchUp, at('12:29:57'));
    expect(instants).toHaveLength(4);
    expect(missed).toBe(0);
  }
  // After an hour only the fresh ones.
  const { instants, missed } = ticks(seconds, 'last', at('11:30:00'));
  expect(instants[0]).toBe(at('12:29:50'));
  expect([instants.length, missed]).toEqual([11, 3_590]);
});

test('the last tick of a year away is found without walking there', () => {
  const first = Date.parse('2020-01-01');
  const bursts = { cron: '* * 3 17 10 *', everyMs: null, timezone: 'Australia/Lord_Howe' };
  const found = ticks(bursts, 'last', first).instants;
  // 03:59:59 on October 17 there is 16:59:59 on the day before in UTC.
  expect(found.map((one) => new Date(one).toISOString())).toEqual(['2026-10-16T16:59:59.000Z']);
});

test('all of a long outage comes in steps', () => {
  const { instants, next, nextAt } = ticks(seconds, 'all', at('11:00:00'));
  expect(instants).toHaveLength(MAX_STEP);
  expect(next).toBe(at('11:00:00') + MAX_STEP * 1_000);
  // Behind those that are due by now: what is due longest is written first.
  expect(nextAt).toBe(now);
});

test('a jitter makes ticks later and not fewer, and a line may end', () => {
  const late = { name: 'b', jitterMs: 600_000, catchUp: 'all' as const };
  const { nextAt, next } = ticksOf({ ...hourly, ...late, nextInstant: at('12:00:00') }, now);
  expect(next).toBe(at('13:00:00'));
  expect((nextAt as number) - (next as number)).toBeGreaterThan(0);
  const once = { cron: '0 0 12 17 11 * 2026', everyMs: null, timezone: 'UTC' };
  expect(ticks(once, 'last', at('12:00:00'))).toMatchObject({ next: null, nextAt: null });
});
