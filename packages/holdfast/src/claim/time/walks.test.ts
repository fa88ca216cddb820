/** Walks over the keys of rates: what they ask for, and that they do not ask for what no limit allows. */
import { expect, test } from 'vitest';
import type { RatedClaim } from './rated.js';
import { RateWalks } from './walks.js';

const NOTHING: RatedClaim = {
  ...{ epoch: 0, clock: 0, found: 0, jobs: [] },
  ...{ refused: {}, walked: {}, walkMs: null },
};
const all = () => true;
const none = () => false;

test('a scan walks every type once', () => {
  const walks = new RateWalks({ a: 1, b: 2 });
  expect(walks.take(0, 10, all, true).walks.map(({ type }) => type)).toEqual(['a', 'b']);
  walks.record(NOTHING, 10, 0);
  expect(walks.readAt(1, all)).toBe(Number.POSITIVE_INFINITY);
});

test('a type that is closed when a scan comes does not keep the worker reading', () => {
  const walks = new RateWalks({ a: 1, b: 1 });
  const open = (type: string) => type === 'a';
  expect(walks.take(0, 10, open, true).walks.map(({ type }) => type)).toEqual(['a']);
  walks.record(NOTHING, 10, 0);
  expect(walks.readAt(1, open)).toBe(Number.POSITIVE_INFINITY);
  // It is walked once it is open.
  expect(walks.readAt(2, all)).toBe(2);
  expect(walks.take(2, 10, all, false).walks.map(({ type }) => type)).toEqual(['b']);
});

test('a walk that is under way rests while its type is closed', () => {
  const walks = new RateWalks({ a: 1 });
  walks.take(0, 10, all, true);
  walks.record({ ...NOTHING, walked: { a: 'last' } }, 10, 0);
  expect(walks.goesOn(all)).toBe(true);
  expect(walks.goesOn(none)).toBe(false);
  expect(walks.readAt(1, none)).toBe(Number.POSITIVE_INFINITY);
  expect(walks.take(1, 10, all, false).walks).toEqual([
    { type: 'a', afterKey: 'last', version: 1 },
  ]);
});

test('a walk reads as many keys as have what is wanted', () => {
  const walks = new RateWalks({ a: 1 });
  const after = (walked: string, found: number) => {
    walks.take(0, 100, all, true);
    walks.record({ ...NOTHING, found, walked: { a: walked } }, 100, 0);
    return walks.take(0, 100, all, false).keys;
  };
  expect(walks.take(0, 100, all, true).keys).toBe(100);
  expect(after('k99', 50)).toBe(200);
  expect(after('k299', 100)).toBe(200);
  expect(after('k499', 400)).toBe(50);
  expect(after('k549', 200)).toBe(32);
  expect(after('k581', 0)).toBe(1_000);
  expect(after('', 3)).toBe(100);
});

test('a walk goes on behind the keys that it read, also where it left something, and stays where a limit refused', () => {
  const walks = new RateWalks({ a: 1 });
  const after = (found: number, refused: RatedClaim['refused'] = {}) => {
    walks.take(0, 10, all, true);
    walks.record({ ...NOTHING, found, refused, walked: { a: `of ${found}` } }, 10, 0);
    return walks.take(0, 10, all, false).walks[0]?.afterKey;
  };
  expect(after(11)).toBe('of 11');
  expect(after(10)).toBe('of 10');
  expect(after(9, { a: 5 })).toBe('of 10');
  expect(after(9)).toBe('of 9');
});

test('a hint that comes while a claim reads begins another walk, and one that comes before does not', () => {
  const walks = new RateWalks({ a: 1 });
  walks.take(0, 10, all, true);
  walks.hint(['a']);
  walks.hint(['a']);
  walks.record({ ...NOTHING, walked: { a: '' } }, 10, 0);
  walks.hint(['a']);
  expect(walks.take(0, 10, all, false).walks.map(({ afterKey }) => afterKey)).toEqual(['']);
  walks.record({ ...NOTHING, walked: { a: '' } }, 10, 0);
  expect(walks.readAt(1, all)).toBe(Number.POSITIVE_INFINITY);
});

test.each([
  ['a hint came', (walks: RateWalks) => walks.hint(['a']), 3],
  ['a key has a token', (walks: RateWalks) => walks.take(6, 10, all, false), 3],
  ['it took as much as there was room for', () => {}, 10],
])('a walk begins again at its end if meanwhile %s', (_, meanwhile, found) => {
  const walks = new RateWalks({ a: 1 });
  walks.take(0, 10, all, true);
  walks.record({ ...NOTHING, found, walkMs: 5, walked: { a: 'k' } }, 10, 0);
  meanwhile(walks);
  for (const afterKey of ['k', '']) {
    expect(walks.take(0, 10, all, true).walks).toEqual([{ type: 'a', afterKey, version: 1 }]);
    walks.record({ ...NOTHING, walked: { a: '' } }, 10, 0);
  }
  expect(walks.goesOn(all)).toBe(false);
  expect(walks.readAt(1, all)).toBeGreaterThan(1);
});
