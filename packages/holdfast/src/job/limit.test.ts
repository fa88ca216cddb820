/** Limits that cannot be meant are refused where they are declared, with the reason. */
import { describe, expect, test } from 'vitest';
import { job } from './job.js';
import { checkLimit } from './limit.js';

const limitOf = (limit: unknown) => job('send', { limit: limit as never }).limit;

describe('a limit', () => {
  test('is kept as the database works with it', () => {
    expect(limitOf({ concurrency: 20 })).toEqual({ concurrency: 20, rate: null });
    expect(limitOf({ rate: { limit: 100, per: '1m', burst: 20 } })).toEqual({
      concurrency: null,
      rate: { limit: 100, perMs: 60_000, burst: 20 },
    });
    expect(job('send').limit).toBeNull();
  });

  test('has a burst of a tenth of its rate, and of two at least, but for a limit of one', () => {
    expect(limitOf({ rate: { limit: 100, per: '1m' } })?.rate?.burst).toBe(10);
    expect(limitOf({ rate: { limit: 3, per: 1_000 } })?.rate?.burst).toBe(2);
    expect(limitOf({ rate: { limit: 1, per: 1_000 } })?.rate?.burst).toBe(1);
  });

  test.each<[unknown, RegExp]>([
    [{}, /a concurrency, a rate, or both/],
    [null, /must be an object, not null/],
    [7, /must be an object, not 7/],
    [{ concurrency: 0 }, /limit\.concurrency must be a whole number from 1 to 1,000,000, not 0/],
    [{ concurrency: 1.5 }, /whole number .* not 1\.5/],
    [{ concurrency: -1 }, /not -1/],
    [{ concurrency: '20' }, /not "20"/],
    [{ concurency: 1 }, /has no option "concurency"/],
    [{ rate: { limit: 0, per: '1m' } }, /limit\.rate\.limit must be a whole number .* not 0/],
    [{ rate: { limit: 2.5, per: '1m' } }, /not 2\.5/],
    [{ rate: { limit: Number.POSITIVE_INFINITY, per: '1m' } }, /not Infinity/],
    [{ rate: { limit: 2 ** 53, per: 1 } }, /whole number from 1 to 1,000,000/],
    [{ rate: { limit: 1_000_000, per: '1s' } }, /more than 100,000 jobs a second/],
    [{ rate: { limit: 5 } }, /limit\.rate\.per must be a duration from 1 ms to 365 days/],
    [{ rate: { limit: 5, per: 0 } }, /from 1 ms to 365 days/],
    [{ rate: { limit: 5, per: 0.6 } }, /from 1 ms to 365 days/],
    [{ rate: { limit: 5, per: '366d' } }, /from 1 ms to 365 days.*"366d"/],
    [{ rate: { limit: 5, per: 'soon' } }, /such as '1m', not "soon"/],
    [{ rate: { limit: 5, per: '1m', burst: 0 } }, /limit\.rate\.burst must be .* not 0/],
    [
      { rate: { limit: 1, per: '365d', burst: 1_000_000 } },
      /burst is 1,000,000, and .* 3,650 days/,
    ],
    [{ rate: { limit: 5, per: '1m', key: 'tenant' } }, /must be a function .* not "tenant"/],
    [{ rate: { limit: 5, per: '1m', brust: 2 } }, /has no option "brust"/],
    [{ rate: 5 }, /limit\.rate must be an object, not 5/],
  ])('%j is refused', (limit, reason) => {
    expect(() => limitOf(limit)).toThrow(reason);
    expect(() => limitOf(limit)).toThrow(/Job "send".*No definition was made\./s);
  });

  test('says what was not done, and for whom', () => {
    expect(() => checkLimit({ concurrency: 0 }, 'Queue "mail"', 'Nothing was set.')).toThrow(
      /^Queue "mail": .* Nothing was set\.$/,
    );
  });
});

describe('the key of a rate', () => {
  const keyed = job<{ tenant?: unknown }>('send', {
    limit: { rate: { limit: 1, per: '1s', key: ({ tenant }) => tenant as string } },
  });

  test('is what the function makes of the payload', () => {
    expect(keyed.limitKey({ tenant: 'acme' })).toBe('acme');
    expect(job('send').limitKey({})).toBeNull();
  });

  test.each([undefined, null, 7, '', {}])('that is no text (%j) is refused', (tenant) => {
    expect(() => keyed.limitKey({ tenant })).toThrow(/limit\.rate\.key of job "send" returned/);
  });

  test('has at most 512 bytes', () => {
    expect(() => keyed.limitKey({ tenant: 'x'.repeat(513) })).toThrow(/512/);
  });
});
