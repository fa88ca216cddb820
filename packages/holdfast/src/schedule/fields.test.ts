/** Plain cron lines are read here as croner reads them: random lines, random times. */
import { Cron } from 'croner';
import { expect, test } from 'vitest';
import { long } from '../../../../test/support/long.js';
import { plainLine } from './fields.js';

/** A sequence that is the same in every run. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const rand = random(7);
const pick = <Value>(list: readonly Value[]) => list[rand(list.length)] as Value;

function field(from: number, to: number, names: readonly string[] = []): string {
  const number = () => from + rand(to - from + 1);
  const one = (): string => {
    const [a, b] = [number(), number()].sort((x, y) => x - y) as [number, number];
    switch (rand(8)) {
      case 0:
        return '*';
      case 1:
        return `*/${1 + rand(to - from + 3)}`;
      case 2:
        return `${a}-${b}`;
      case 3:
        return `${a}-${b}/${1 + rand(5)}`;
      case 4:
        return names.length > 0 ? pick(names) : String(a);
      case 5:
        return names.length > 0 ? `${pick(names)}-${pick(names)}` : `0${a}`;
      default:
        return String(a);
    }
  };
  return rand(4) === 0 ? `${one()},${one()}` : rand(3) === 0 ? '*' : one();
}

const MONTHS = ['JAN', 'feb', 'Mar', 'JUN', 'sep', 'DEC'];
const WEEKDAYS = ['SUN', 'mon', 'Wed', 'FRI', 'sat'];

function line(): string {
  const parts = [field(0, 59), field(0, 23), field(1, 31), field(1, 12, MONTHS)];
  parts.push(field(0, 7, WEEKDAYS));
  if (rand(3) === 0) parts.unshift(field(0, 59));
  return parts.join(' ');
}

/**
 * croner passes over the first days of a month when it comes from a shorter one ("0 0 1 * SAT" after February 27 of 2024
 * is March 2), so it is asked again from the beginning of each month.
 */
function cronerNext(cron: Cron, after: number): number | null {
  const ask = (at: number) => {
    try {
      return cron.nextRun(new Date(at))?.getTime() ?? null;
    } catch {
      // Its stack ends before it has found a time.
      return null;
    }
  };
  const found = ask(after);
  if (found === null) return null;
  const from = new Date(after);
  const first = Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1, 1);
  const other = first <= found ? cronerNext(cron, first - 1) : null;
  return other === null ? found : Math.min(found, other);
}

/** What croner says: the next four. Null: it refuses the line. */
function croner(text: string, after: number): (number | null)[] | null {
  let cron: Cron;
  try {
    cron = new Cron(text, { utcOffset: 0 });
  } catch {
    return null;
  }
  const found: (number | null)[] = [];
  for (let at: number | null = after; at !== null && found.length < 4; ) {
    at = cronerNext(cron, at);
    found.push(at);
  }
  return found;
}

/** Most of the time of these is croner's. */
const LINES = long(80, 200);

test(`${LINES} random lines fire when croner fires them`, () => {
  let read = 0;
  for (let n = 0; n < LINES; n++) {
    const text = line();
    const after = Date.UTC(
      2023 + rand(10),
      rand(12),
      1 + rand(28),
      rand(24),
      rand(60),
      rand(60),
      rand(1_000),
    );
    const next = plainLine(text);
    const expected = croner(text, after);
    if (!next) continue;
    read++;
    const found: (number | null)[] = [];
    for (let at: number | null = after; at !== null && found.length < 4; ) {
      at = next(at);
      found.push(at);
    }
    expect([text, new Date(after).toISOString(), found]).toEqual([
      text,
      new Date(after).toISOString(),
      expected,
    ]);
  }
  // The rest is wrong, and croner says why.
  expect(read).toBeGreaterThan(0.6 * LINES);
});

test.each([
  '0 0 L * *',
  '0 0 15W * *',
  '0 0 * * FRI#2',
  '0 0 * * 5L',
  '0 0 0 1 1 * 2030',
  '@daily',
  '? * * * *',
])('%s is left to croner', (text) => {
  expect(plainLine(text)).toBeNull();
});

test.each([
  '61 * * * *',
  '* * * *',
  '5/10 * * * *',
  '10-5 * * * *',
  '* * 0 * *',
  '*/0 * * * *',
  'x * * * *',
  '* * * * +1',
])('%s is not taken for a line', (text) => {
  expect(plainLine(text)).toBeNull();
});

test.each([
  ['0 0 30 2 *', null],
  ['0 0 31 2,4,6,9,11 *', null],
  ['0 0 29 2 *', '2028-02-29T00:00:00.000Z'],
  ['0 9 * * FRI-SUN', '2026-11-20T09:00:00.000Z'],
  ['30 30 9 1 1 *', '2027-01-01T09:30:30.000Z'],
])('%s is next at %s', (text, at) => {
  const next = plainLine(text)?.(Date.UTC(2026, 10, 18, 12)) ?? null;
  expect(next === null ? null : new Date(next).toISOString()).toBe(at);
});
