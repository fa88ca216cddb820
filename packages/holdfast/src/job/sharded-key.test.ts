import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { testDatabase } from '../../../../test/support/database.js';
import { BUCKETS, bucketOf } from './key.js';
import { shardedKey, shardedKeys } from './sharded-key.js';

const db = testDatabase();

function tally(keys: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

const shardsOf = (key: string, shards: number) =>
  Array.from({ length: shards }, (_, shard) => `${key}#shard-${shard}`);

describe('by a sub-key', () => {
  test.each<[string, number, string]>([
    ['order:9182', 8, 'tenant:123#shard-5'],
    ['order:9183', 8, 'tenant:123#shard-4'],
    ['注文:1', 1024, 'tenant:123#shard-742'],
    ['é', 3, 'tenant:123#shard-1'],
    ['any', 1, 'tenant:123#shard-0'],
  ])('%j among %d shards is always in %s, in every version', (by, shards, key) => {
    expect(shardedKey('tenant:123', shards, { by })).toBe(key);
  });

  test('SQL names the same shard for any sub-key and number of shards', async () => {
    const cases = fc.sample(
      fc.tuple(
        fc
          .string({ unit: 'grapheme', minLength: 1, maxLength: 30 })
          .map((text) => text.replaceAll('\0', '0')),
        fc.integer({ min: 1, max: 1024 }),
      ),
      1_000,
    );
    const rows = await db.rows<{ key: string }>(
      `SELECT 'tenant:123#shard-' || ((holdfast.hash32(by) * shards) >> 32) AS key
       FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS c(by, shards, n) ORDER BY n`,
      [cases.map(([by]) => by), cases.map(([, shards]) => shards)],
    );
    expect(rows.map(({ key }) => key)).toEqual(
      cases.map(([by, shards]) => shardedKey('tenant:123', shards, { by })),
    );
  });

  test.each([2, 7, 8])('80,000 sub-keys spread evenly over %d shards, within a tenth', (shards) => {
    const subKeys = Array.from({ length: 80_000 }, (_, n) => `order:${n}`);
    const counts = tally(subKeys.map((by) => shardedKey('tenant:123', shards, { by })));
    expect([...counts.keys()].sort()).toEqual(shardsOf('tenant:123', shards));
    for (const count of counts.values()) {
      expect(Math.abs(count / (80_000 / shards) - 1)).toBeLessThan(0.1);
    }
  });

  test('sub-keys of one bucket reach every shard: a worker that reads few buckets feeds them all', () => {
    const ofOneBucket = Array.from({ length: 400_000 }, (_, n) => `order:${n}`).filter(
      (subKey) => bucketOf(subKey) === 7,
    );
    const counts = tally(ofOneBucket.map((by) => shardedKey('tenant:123', 8, { by })));
    // About 390 sub-keys, 49 a shard; four standard deviations are 28.
    expect(counts.size).toBe(8);
    expect(Math.min(...counts.values())).toBeGreaterThan(20);
  });
});

describe('without a sub-key', () => {
  test('at random: every shard is used, about equally', () => {
    const counts = tally(Array.from({ length: 80_000 }, () => shardedKey('tenant:123', 8)));
    expect([...counts.keys()].sort()).toEqual(shardsOf('tenant:123', 8));
    for (const count of counts.values()) expect(Math.abs(count / 10_000 - 1)).toBeLessThan(0.1);
  });

  test('in turn: every shard once before any comes again', () => {
    const next = shardedKeys('tenant:123', 8);
    const keys = Array.from({ length: 24 }, next);
    expect(keys.slice(0, 8).toSorted()).toEqual(shardsOf('tenant:123', 8));
    expect(keys.slice(8)).toEqual(keys.slice(0, 16));
  });

  test('in turn: producers begin at different shards', () => {
    const first = new Set(Array.from({ length: 200 }, () => shardedKeys('tenant:123', 8)()));
    expect(first.size).toBe(8);
  });
});

test('the shards of keys spread over the buckets, so over the workers', () => {
  const buckets = new Set(shardsOf('tenant:123', 8).map(bucketOf));
  expect(buckets.size).toBeGreaterThanOrEqual(7);
  // 8 shards of 12,800 tenants: 100 keys a bucket; five standard deviations are 50.
  const counts = new Array<number>(BUCKETS).fill(0);
  for (let tenant = 0; tenant < 12_800; tenant++) {
    for (const key of shardsOf(`tenant:${tenant}`, 8)) counts[bucketOf(key)]! += 1;
  }
  expect(Math.min(...counts)).toBeGreaterThan(50);
  expect(Math.max(...counts)).toBeLessThan(150);
});

describe('refusals', () => {
  test.each([0, 1025, 2.5, Number.NaN, -8, '8', undefined])('%j shards', (shards) => {
    for (const act of [shardedKey, shardedKeys]) {
      const call = () => act('tenant:123', shards as number);
      expect(call).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
      expect(call).toThrow(/^shards must be a whole number from 1 to 1024, got .*no key was made/);
    }
  });

  test('a key that is no key', () => {
    for (const key of ['', 7, undefined, 'a\0']) {
      expect(() => shardedKey(key as string, 8)).toThrow(
        expect.objectContaining({ code: 'KEY_INVALID' }),
      );
    }
  });

  test('a key that leaves no room for its suffix, whichever shard it would get', () => {
    expect(shardedKey('x'.repeat(504), 8)).toHaveLength(512);
    for (let n = 0; n < 100; n++) {
      // "#shard-9" would fit, "#shard-10" does not.
      const call = () => shardedKey('x'.repeat(504), 11);
      expect(call).toThrow('key with its suffix "#shard-10" is 513 bytes long');
    }
  });

  test.each<[string, unknown, string]>([
    ['an empty sub-key', { by: '' }, 'by must be a text that is not empty, got ""'],
    ['a number', { by: 42 }, 'by must be a text that is not empty, got 42'],
    ['a missing sub-key', { by: undefined }, 'got undefined'],
    ['a misspelt option', { sub: 'order:1' }, 'got undefined'],
    ['a sub-key in place of the options', 'order:1', 'must be an object such as { by: order.id }'],
    ['null', null, 'the options must be an object'],
  ])('%s, because a random shard would lose the order', (_, options, message) => {
    const call = () => shardedKey('tenant:123', 8, options as { by: string });
    expect(call).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
    expect(call).toThrow(message);
    expect(call).toThrow('no key was made');
  });
});
