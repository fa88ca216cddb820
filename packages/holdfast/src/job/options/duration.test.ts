import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HoldfastError } from '../errors/errors.js';
import { type Duration, durationMs } from './duration.js';

test.each<[Duration, number]>([
  [0, 0],
  [-0, 0],
  [1500, 1500],
  [0.6, 1],
  ['250ms', 250],
  ['30s', 30_000],
  ['15m', 900_000],
  ['2h', 7_200_000],
  ['7d', 604_800_000],
  ['1.5h', 5_400_000],
  ['1.005s', 1005],
])('%j is %d ms', (given, ms) => {
  expect(durationMs(given, 'lease')).toBe(ms);
});

describe('what is no duration is refused, naming the option, the value and what is allowed', () => {
  test.each<[unknown, string]>([
    [Number.NaN, 'NaN'],
    [Number.POSITIVE_INFINITY, 'Infinity'],
    [-1, '-1'],
    [-0.2, '-0.2'],
    [1e300, '1e+300'],
    ['', '""'],
    ['soon', '"soon"'],
    ['5', '"5"'],
    ['-5s', '"-5s"'],
    ['5 s', '"5 s"'],
    ['5S', '"5S"'],
    ['5s\n', '"5s\\n"'],
    ['1e3s', '"1e3s"'],
    ['.5s', '".5s"'],
    [`${'9'.repeat(16)}d`, `"${'9'.repeat(16)}d"`],
    [{}, 'an object'],
    [[5], 'an array'],
    [null, 'null'],
    [undefined, 'undefined'],
    [5n, 'the BigInt 5n'],
    [Symbol('s'), 'a symbol'],
    [() => 5, 'a function'],
    [true, 'true'],
    [new Date(5), 'an object'],
  ])('%s', (given, quoted) => {
    const act = () => durationMs(given as Duration, 'leaseMs');
    expect(act).toThrow(HoldfastError);
    expect(act).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
    expect(act).toThrow(`leaseMs must be a duration, got ${quoted}; give milliseconds`);
    expect(act).toThrow("'30s'");
  });
});

test('a duration outside the bounds is refused with the bounds, inside them it is accepted', () => {
  const bounds = { min: 1000, max: 60_000 };
  expect(durationMs('1s', 'poll', bounds)).toBe(1000);
  expect(durationMs('1m', 'poll', bounds)).toBe(60_000);
  expect(() => durationMs('999ms', 'poll', bounds)).toThrow(
    'poll is out of range, got "999ms"; it must be from 1s to 1m',
  );
  expect(() => durationMs(60_001, 'poll', bounds)).toThrow('got 60001');
  expect(() => durationMs(0, 'poll', { min: 1 })).toThrow('it must be at least 1ms');
  expect(() => durationMs(9, 'poll', { max: 8 })).toThrow('it must be at most 8ms');
});

test('whatever it is given, it answers with whole non-negative milliseconds or OPTION_INVALID', () => {
  const units = fc.constantFrom('ms', 's', 'm', 'h', 'd', 'y', '');
  const texts = fc.tuple(fc.double(), units).map(([n, unit]) => `${n}${unit}`);
  fc.assert(
    fc.property(fc.oneof(fc.anything(), fc.double(), texts), (given) => {
      try {
        const ms = durationMs(given as Duration, 'x');
        expect(Number.isSafeInteger(ms) && ms >= 0).toBe(true);
      } catch (error) {
        expect(error).toMatchObject({ code: 'OPTION_INVALID' });
      }
    }),
  );
});
