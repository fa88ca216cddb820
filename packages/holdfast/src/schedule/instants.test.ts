/** When schedules fire: through the changes of clocks, over leap days, on the grid, and with a jitter. */
import { describe, expect, test } from 'vitest';
import { delayOf, nextInstant, upcoming } from './instants.js';
import { offsetAt } from './zone.js';

function fires(cron: string, timezone: string, after: string, until: string): string[] {
  const timing = { cron, everyMs: null, timezone };
  return upcoming(timing, Date.parse(after), 200)
    .filter((at) => at < Date.parse(until))
    .map((at) => new Date(at).toISOString().slice(5, 16));
}

/** A day around a change: what a fixed time does, and what a line that names no hours does. */
describe.each([
  {
    ...{ zone: 'Europe/Lisbon', what: 'jumps from 01:00 to 02:00', fixed: '30 1 * * *' },
    ...{ from: '2026-03-28T12:00Z', until: '2026-03-30T12:00Z', change: '2026-03-29T01:00Z' },
    // 01:30 does not exist: it is 02:30, which is 01:30 in UTC.
    ...{ times: ['03-29T01:30', '03-30T00:30'] },
  },
  {
    ...{ zone: 'Europe/Lisbon', what: 'repeats 01:00 to 02:00', fixed: '30 1 * * *' },
    ...{ from: '2026-10-24T12:00Z', until: '2026-10-26T12:00Z', change: '2026-10-25T01:00Z' },
    ...{ times: ['10-25T00:30', '10-26T01:30'] },
  },
  {
    ...{ zone: 'America/New_York', what: 'jumps from 02:00 to 03:00', fixed: '0,30 2,3 * * *' },
    ...{ from: '2026-03-07T12:00Z', until: '2026-03-08T12:00Z', change: '2026-03-08T07:00Z' },
    ...{ times: ['03-08T07:00', '03-08T07:30'] },
  },
  {
    ...{ zone: 'America/New_York', what: 'repeats 01:00 to 02:00', fixed: '*/20 1 * * *' },
    ...{ from: '2026-10-31T12:00Z', until: '2026-11-01T12:00Z', change: '2026-11-01T06:00Z' },
    ...{ times: ['11-01T05:00', '11-01T05:20', '11-01T05:40'] },
  },
  {
    ...{ zone: 'Australia/Lord_Howe', what: 'jumps from 02:00 to 02:30', fixed: '15,45 2 * * *' },
    ...{ from: '2026-10-03T04:00Z', until: '2026-10-04T16:00Z', change: '2026-10-03T15:30Z' },
    ...{ times: ['10-03T15:45', '10-04T15:15', '10-04T15:45'] },
  },
  {
    ...{ zone: 'Australia/Lord_Howe', what: 'repeats 01:30 to 02:00', fixed: '45 1 * * *' },
    ...{ from: '2026-04-04T04:00Z', until: '2026-04-06T04:00Z', change: '2026-04-04T15:00Z' },
    ...{ times: ['04-04T14:45', '04-05T15:15'] },
  },
])('the clock of $zone $what', ({ zone, fixed, from, until, change, times }) => {
  test('a line that names hours fires once for each of its times', () => {
    expect(fires(fixed, zone, from, until)).toEqual(times);
  });

  test('a line that names no hours never pauses and never fires twice', () => {
    const around = Date.parse(change);
    expect(offsetAt(zone, around - 1)).not.toBe(offsetAt(zone, around));
    const every = { cron: '*/10 * * * *', everyMs: null, timezone: zone };
    const found = upcoming(every, around - 6 * 3_600_000, 72);
    const gaps = found.slice(1).map((at, n) => at - (found[n] as number));
    expect(new Set(gaps)).toEqual(new Set([600_000]));
  });

  test('from whichever instant it is asked, the answer is the same', () => {
    for (const cron of [fixed, '0 * * * *', '*/7 */3 * * *']) {
      const timing = { cron, everyMs: null, timezone: zone };
      const all = upcoming(timing, Date.parse(change) - 5 * 3_600_000, 40);
      for (let at = Date.parse(change) - 4 * 3_600_000; at < Date.parse(change) + 4 * 3_600_000; ) {
        expect(nextInstant(timing, at)).toBe(all.find((one) => one > at));
        at += 5 * 60_000;
      }
    }
  });
});

test('leap days, last days, nearest weekdays and the second Friday', () => {
  const at = (cron: string, after: string) => fires(cron, 'UTC', after, '2036-01-01').slice(0, 2);
  const leap = { cron: '0 12 29 2 *', everyMs: null, timezone: 'Europe/Lisbon' };
  expect(
    upcoming(leap, Date.parse('2026-01-01'), 2).map((one) => new Date(one).getFullYear()),
  ).toEqual([2028, 2032]);
  expect(at('0 0 L * *', '2028-02-01')).toEqual(['02-29T00:00', '03-31T00:00']);
  expect(at('0 0 15W * *', '2026-11-01')).toEqual(['11-16T00:00', '12-15T00:00']);
  expect(at('0 9 * * FRI#2', '2026-11-01')).toEqual(['11-13T09:00', '12-11T09:00']);
  expect(at('@daily', '2028-02-28T10:00Z')).toEqual(['02-29T00:00', '03-01T00:00']);
});

test('an interval lies on a grid that no restart moves', () => {
  const every = (everyMs: number, after: string) =>
    new Date(
      nextInstant({ cron: null, everyMs, timezone: 'UTC' }, Date.parse(after)) as number,
    ).toISOString();
  expect(every(300_000, '2026-11-01T10:02:13.456Z')).toBe('2026-11-01T10:05:00.000Z');
  expect(every(300_000, '2026-11-01T10:05:00.000Z')).toBe('2026-11-01T10:10:00.000Z');
  expect(every(86_400_000, '2026-11-01T10:05:00.000Z')).toBe('2026-11-02T00:00:00.000Z');
});

test('a jitter spreads names over its whole length, and is always the same for a name', () => {
  const delays = Array.from({ length: 1_000 }, (_, n) => delayOf(`tenant:${n}`, 60_000));
  expect(Math.min(...delays)).toBeLessThan(1_000);
  expect(Math.max(...delays)).toBeGreaterThan(59_000);
  expect(Math.max(...delays)).toBeLessThan(60_000);
  expect(delayOf('tenant:7', 60_000)).toBe(delays[7]);
});
