import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anyCharacter } from '../../../../test/support/any-character.js';
import { BUCKETS, bucketOf, checkKey, checkType, hash32 } from './key.js';

/** The same hash from its definition: UTF-8 by Buffer, arithmetic in BigInt modulo 2^32. */
function slowHash(text: string): number {
  const mod = 1n << 32n;
  let h = 2166136261n;
  for (const byte of Buffer.from(text, 'utf8')) h = ((h ^ BigInt(byte)) * 16777619n) % mod;
  h ^= h >> 16n;
  h = (h * 0x85ebca6bn) % mod;
  h ^= h >> 13n;
  h = (h * 0xc2b2ae35n) % mod;
  h ^= h >> 16n;
  return Number(h);
}

test.each<[string, number]>([
  ['', 2872998923],
  ['a', 444641715],
  ['order:9182', 2807500883],
  ['customer:é', 1904953073],
  ['注文:1', 3113261439],
  ['😀', 855877642],
  ['\ud83d', 1205388858],
])('the hash of %j is %d, in every version: stored buckets depend on it', (text, hash) => {
  expect(hash32(text)).toBe(hash);
});

test('the hash of any text is FNV-1a and fmix32 over its UTF-8 bytes', () => {
  const texts = fc.oneof(
    fc.string({ unit: anyCharacter, maxLength: 60 }),
    fc.string({ unit: 'grapheme', maxLength: 60 }),
    // Halves of surrogate pairs too, which become U+FFFD in Buffer and here.
    fc
      .array(fc.integer({ min: 0xd700, max: 0xe0ff }))
      .map((units) => String.fromCharCode(...units)),
  );
  fc.assert(
    fc.property(texts, (text) => {
      expect(hash32(text)).toBe(slowHash(text));
    }),
    { numRuns: 500 },
  );
});

test('similar keys spread evenly over the buckets', () => {
  const keys = 102_400;
  const buckets = new Array<number>(BUCKETS).fill(0);
  for (let i = 0; i < keys; i++) {
    const bucket = bucketOf(`order:${i}`);
    buckets[bucket]! += 1;
  }
  // The mean is 100; five standard deviations of a random spread are 50.
  expect(Math.min(...buckets)).toBeGreaterThan(50);
  expect(Math.max(...buckets)).toBeLessThan(150);
});

test('the bucket of a key is its hash modulo 1024', () => {
  expect(bucketOf('order:9182')).toBe(slowHash('order:9182') % 1024);
});

test('a key that Postgres can hold is accepted as it is', () => {
  for (const key of ['a', 'order:9182', ' ', 'é'.repeat(256), '😀'.repeat(128), 'x'.repeat(512)]) {
    expect(checkKey(key)).toBe(key);
  }
});

test.each<[string, unknown, string]>([
  ['an empty one', '', 'must not be empty'],
  ['a number', 7, 'must be a string, got 7'],
  ['nothing', undefined, 'must be a string, got undefined'],
  ['an object', { toString: () => 'k' }, 'must be a string, got an object'],
  ['513 bytes', 'x'.repeat(513), 'is 513 bytes long, more than the 512 allowed'],
  ['few characters of many bytes', '😀'.repeat(129), 'is 516 bytes long'],
  ['NUL', 'a\0', 'contains the character NUL'],
  ['half of a surrogate pair', 'a\ud83d', 'contains half of a surrogate pair'],
])('a key is refused: %s', (_, key, message) => {
  const act = () => checkKey(key, 'idempotencyKey');
  expect(act).toThrow(expect.objectContaining({ code: 'KEY_INVALID' }));
  expect(act).toThrow(`idempotencyKey ${message}`);
  expect(act).toThrow('nothing was enqueued');
});

test('a job type is a name of at most 100 safe characters', () => {
  for (const type of ['a', 'send_receipt', 'Mail.send:v2-b', `a${'9'.repeat(99)}`]) {
    expect(checkType(type)).toBe(type);
  }
  const bad = ['', '9a', '_a', 'a b', 'a\n', 'é', `a${'9'.repeat(100)}`, null, 5, ['a']];
  for (const type of bad) {
    expect(() => checkType(type)).toThrow(expect.objectContaining({ code: 'TYPE_INVALID' }));
  }
});
