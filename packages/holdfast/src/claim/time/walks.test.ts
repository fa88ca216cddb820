/** Walks over the keys of rates: what they ask for, and that they do not ask for what no limit allows. */
import { expect, test } from 'vitest';
import type { RatedClaim } from './rated.js';
import { RateWalks } from './walks.js';

const NOTHING: RatedClaim = {
  ...{ epoch: 0, clock: 0, found: 0, foundKeys: 0, jobs: [] },
  ...{ refused: {}, walked: {}, walkMs: null },
};
const all = () => true;
const none = () => false;

test('a scan walks every type once', () => {
  const walks = new RateWalks({ a: 1, b: 2 });
  expect(walks.take(0, all, true).walks.map(({ type }) => type)).toEqual(['a', 'b']);
  walks.record(NOTHING, 10, 0);
  expect(walks.readAt(1, all)).toBe(Number.POSITIVE_INFINITY);
});

test('a type that is closed when a scan comes does not keep the worker reading', () => {
  const walks = new RateWalks({ a: 1, b: 1 });
  const open = (type: string) => type === 'a';
  expect(walks.take(0, open, true).walks.map(({ type }) => type)).toEqual(['a']);
  walks.record(NOTHING, 10, 0);
  expect(walks.readAt(1, open)).toBe(Number.POSITIVE_INFINITY);
  // It is walked once it is open.
  expect(walks.readAt(2, all)).toBe(2);
  expect(walks.take(2, all, false).walks.map(({ type }) => type)).toEqual(['b']);
});

test('a walk that is under way rests while its type is closed', () => {
  const walks = new RateWalks({ a: 1 });
  walks.take(0, all, true);
  walks.record({ ...NOTHING, walked: { a: 'last' } }, 10, 0);
  expect(walks.goesOn(all)).toBe(true);
  expect(walks.goesOn(none)).toBe(false);
  expect(walks.readAt(1, none)).toBe(Number.POSITIVE_INFINITY);
  expect(walks.take(1, all, false).walks).toEqual([{ type: 'a', afterKey: 'last', version: 1 }]);
});

test('a walk reads more keys while they have too little, and as many as it needs when they have enough', () => {
  const walks = new RateWalks({ a: 1 });
  const after = (walked: string, found: number, foundKeys: number) => {
    walks.take(0, all, true);
    walks.record({ ...NOTHING, found, foundKeys, walked: { a: walked } }, 100, 0);
    return walks.take(0, all, false).keys;
  };
  expect(after('k31', 31, 31)).toBe(64);
  expect(after('k95', 60, 60)).toBe(128);
  expect(after('k99', 100, 100)).toBe(125);
  expect(after('k99', 100, 2)).toBe(32);
  expect(after('', 3, 3)).toBe(32);
});
