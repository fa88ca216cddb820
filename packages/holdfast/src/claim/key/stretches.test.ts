/** Stretches of the order of keys: no bucket is left out, none is read twice. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BUCKETS } from '../../job/key.js';
import { bucketsOf, rest, stretchesOf } from './stretches.js';

const sets = fc
  .uniqueArray(fc.integer({ min: 0, max: BUCKETS - 1 }), { maxLength: 60 })
  .map((buckets) => buckets.sort((a, b) => a - b));

test('any set of buckets becomes stretches of exactly those buckets', () => {
  fc.assert(
    fc.property(sets, (buckets) => {
      const stretches = stretchesOf(buckets);
      expect(bucketsOf(stretches)).toEqual(buckets);
      for (const [n, { bucket }] of stretches.entries())
        expect(bucket).toBeGreaterThan(stretches[n - 1]?.untilBucket ?? -1);
    }),
  );
});

test('neighbours are one stretch: all buckets cost one descent of the index', () => {
  const every = Array.from({ length: BUCKETS }, (_, bucket) => bucket);
  expect(stretchesOf(every)).toEqual([
    { bucket: 0, afterKey: '', untilBucket: BUCKETS, untilKey: '' },
  ]);
  expect(stretchesOf([])).toEqual([]);
});

describe('the rest of a walk', () => {
  const stretches = stretchesOf([0, 1, 2, 7, 8, 20]);

  test('begins behind the key with which it ended, and has all later stretches', () => {
    expect(rest(stretches, { stretch: 1, bucket: 8, key: 'order:9182' })).toEqual([
      { bucket: 8, afterKey: 'order:9182', untilBucket: 9, untilKey: '' },
      { bucket: 20, afterKey: '', untilBucket: 21, untilKey: '' },
    ]);
  });

  test('has the bucket in which it ended: other keys of it were not read', () => {
    expect(bucketsOf(rest(stretches, { stretch: 0, bucket: 1, key: 'k' }))).toEqual([
      1, 2, 7, 8, 20,
    ]);
  });

  test('of a walk that ended behind its last stretch is nothing', () => {
    expect(rest(stretches, { stretch: 3, bucket: 20, key: 'k' })).toEqual([]);
  });

  test('a stretch that ends within a bucket touches that bucket', () => {
    const inside = { bucket: 4, afterKey: 'a', untilBucket: 5, untilKey: 'm' };
    expect(bucketsOf([inside])).toEqual([4, 5]);
  });
});
