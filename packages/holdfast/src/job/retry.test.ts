import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DEFAULT_RETRY, type RetryOptions, resolveRetry, retryDelayMs } from './retry.js';

const TEN_YEARS = 3650 * 86_400_000;
const almostOne = () => 1 - 2 ** -53;

test('by default the ceiling doubles from one second up to one hour', () => {
  const half = () => 0.5;
  expect([0, 1, 2, 11, 12, 31, 10_000].map((n) => retryDelayMs(n, DEFAULT_RETRY, half))).toEqual([
    500, 1000, 2000, 1_024_000, 1_800_000, 1_800_000, 1_800_000,
  ]);
});

test('jitter is full: delays are spread evenly from nothing to the ceiling', () => {
  const delays = Array.from({ length: 2000 }, () => retryDelayMs(3));
  expect(Math.max(...delays)).toBeLessThan(8000);
  for (const quarter of [0, 2000, 4000, 6000]) {
    const inside = delays.filter((ms) => ms >= quarter && ms < quarter + 2000).length;
    // 500 expected; 400 to 600 is five standard deviations.
    expect(inside).toBeGreaterThan(400);
    expect(inside).toBeLessThan(600);
  }
});

test('a delay is whole, never NaN, and within the cap, for any attempt, policy and random', () => {
  const sizes = fc.oneof(fc.double({ min: 0, noNaN: true }), fc.constant(0), fc.nat());
  fc.assert(
    fc.property(
      fc.oneof(fc.nat(10_000), fc.double(), fc.integer()),
      fc.record({ baseMs: sizes, factor: fc.double({ min: 1, noNaN: true }), capMs: sizes }),
      fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constant(Number.NaN)),
      (attempt, policy, value) => {
        const ms = retryDelayMs(attempt, policy, () => value);
        expect(Number.isSafeInteger(ms)).toBe(true);
        expect(ms).toBeGreaterThanOrEqual(0);
        expect(ms).toBeLessThanOrEqual(Math.min(policy.capMs, TEN_YEARS));
      },
    ),
  );
});

test('a policy of the user holds, and what it leaves out is the default', () => {
  const flat = resolveRetry({ base: '10s', factor: 1 }, almostOne);
  expect([0, 5, 500].map((n) => flat(n, null).delayMs)).toEqual([9999, 9999, 9999]);
  const capped = resolveRetry({ cap: '3s' }, almostOne);
  expect([0, 1, 2, 9].map((n) => capped(n, null).delayMs)).toEqual([999, 1999, 2999, 2999]);
  expect(resolveRetry(undefined, almostOne)(1, null)).toEqual({ delayMs: 1999 });
});

test.each<[unknown, string]>([
  [{ base: 'soon' }, 'retry.base must be a duration'],
  [{ cap: -1 }, 'retry.cap must be a duration'],
  [{ base: '4000d' }, 'retry.base is out of range'],
  [{ factor: 0.5 }, 'retry.factor must be a number from 1 on, got 0.5'],
  [{ factor: '2' }, 'retry.factor must be a number from 1 on, got "2"'],
  [{ factor: Number.POSITIVE_INFINITY }, 'got Infinity'],
  ['exponential', 'retry must be an object'],
  [null, 'retry must be an object'],
])('a wrong policy is refused at start, not at the first failure: %j', (retry, message) => {
  const act = () => resolveRetry(retry as RetryOptions);
  expect(act).toThrow(message);
  expect(act).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
});

describe('a retry function', () => {
  test('is told the attempt and the error, and its answer is the delay', () => {
    const error = new Error('boom');
    const retry = resolveRetry((info) => {
      expect(info.error).toBe(error);
      return info.attempt === 2 ? '2m' : 5 * info.random();
    }, almostOne);
    expect(retry(2, error)).toEqual({ delayMs: 120_000 });
    expect(retry(1, error)).toEqual({ delayMs: 5 });
  });

  test('cannot postpone a job for more than ten years', () => {
    expect(resolveRetry(() => '9999d')(0, null)).toEqual({ delayMs: TEN_YEARS });
  });

  test('that throws or answers nonsense is replaced by the default, and the problem told', () => {
    const thrown = new Error('broken');
    const broken = resolveRetry(() => {
      throw thrown;
    }, almostOne);
    expect(broken(1, null)).toEqual({ delayMs: 1999, problem: thrown });
    const throwsNothing = resolveRetry(() => {
      throw undefined;
    }, almostOne);
    expect(throwsNothing(1, null)).toMatchObject({ delayMs: 1999, problem: expect.any(Error) });
    fc.assert(
      fc.property(fc.anything(), (answer) => {
        const { delayMs, problem } = resolveRetry(() => answer as number, almostOne)(1, null);
        expect(Number.isSafeInteger(delayMs)).toBe(true);
        if (typeof answer !== 'number' && typeof answer !== 'string') {
          expect(problem).toMatchObject({ code: 'OPTION_INVALID' });
          expect(delayMs).toBe(1999);
        }
      }),
    );
  });

  test('that is async by mistake is reported, and its rejection does not end the process', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', note);
    const retry = resolveRetry((async () => {
      throw new Error('late');
    }) as never);
    expect(retry(0, null).problem).toMatchObject({
      message: expect.stringContaining('returned a promise'),
    });
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });
});
