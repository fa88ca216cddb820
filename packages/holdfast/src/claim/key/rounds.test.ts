/** Whose turn it is where a type waits for tokens or permits. */
import { expect, test } from 'vitest';
import type { KeyedClaim } from './claim.js';
import { Rounds } from './rounds.js';
import { readOf, stretchesOf } from './stretches.js';

type Told = Partial<Pick<KeyedClaim, 'heldBack' | 'lastAllowed' | 'stop'>> & { got?: number[] };

/** What a claim of jobs of the type "call" brings. */
const claim = ({ got = [], ...told }: Told = {}): KeyedClaim => ({
  ...{ epoch: 1, clock: 0, wanted: 0, refused: {}, due: [], news: null },
  ...{ heldBack: [], lastAllowed: null, stop: null, ...told },
  jobs: got.map((partitionBucket) => ({ type: 'call', partitionBucket })) as never,
});
const held = (...buckets: number[]) =>
  buckets.map((bucket) => ({ inMs: 50, bucket, type: 'call' }));
const last = (bucket: number, key: string, shared = false) => ({ bucket, key, shared });

/** After a claim that got a job of bucket 3, and none of 5 and 9. */
function begun(): Rounds {
  const rounds = new Rounds(() => 0);
  const told = { got: [3], heldBack: held(5, 9), lastAllowed: last(3, 'a') };
  rounds.record([], stretchesOf([3, 5, 9]), claim(told));
  return rounds;
}
const next = (rounds: Rounds) =>
  rounds.stretchesOf('call').map(({ bucket, afterKey }) => `${bucket}${afterKey}`);
const read = (rounds: Rounds, told: Told) =>
  rounds.record(['call'], rounds.stretchesOf('call'), claim(told));

test('the first refusal begins a round behind the key that got the last token', () => {
  const rounds = new Rounds(() => 0);
  rounds.record([], stretchesOf([3]), claim({ got: [3] }));
  expect(rounds.types).toEqual([]);
  expect(begun().types).toEqual(['call']);
  expect(next(begun())).toEqual(['5', '9', '3']);
});

test('every key has its turn, and the first comes after the last', () => {
  const rounds = begun();
  const order: string[][] = [];
  for (const [bucket, others] of [
    [5, [9, 3]],
    [9, [3, 5]],
    [3, [5, 9]],
  ] as const) {
    read(rounds, { got: [bucket], heldBack: held(...others), lastAllowed: last(bucket, 'k') });
    order.push(next(rounds));
  }
  expect(order).toEqual([
    ['9', '3', '5'],
    ['3', '5', '9'],
    ['5', '9', '3'],
  ]);
});

test('who got nothing because others were quicker asks for the same again', () => {
  const rounds = begun();
  read(rounds, { heldBack: held(5, 9, 3) });
  expect(next(rounds)).toEqual(['5', '9', '3']);
});

test('keys of one bucket have their turns', () => {
  const rounds = begun();
  const told = { got: [5], heldBack: held(5, 9, 3) };
  read(rounds, { ...told, lastAllowed: last(5, 'a', true) });
  expect(next(rounds)).toEqual(['5a', '9', '3']);
  // The front of the bucket was not read: its keys come when the round is over.
  read(rounds, { got: [9], heldBack: held(3), lastAllowed: last(9, 'x') });
  expect(next(rounds)).toEqual(['3', '5', '9']);
});

test('a bucket that was read and has no such job leaves the round, and the last one ends it', () => {
  const rounds = begun();
  // It read up to a place in bucket 9.
  read(rounds, { stop: { stretch: 1, bucket: 9, key: 'm' } });
  expect(next(rounds)).toEqual(['9m', '3']);
  // What is left is the front of bucket 9.
  read(rounds, {});
  expect(next(rounds)).toEqual(['9']);
  rounds.add('call', [4]);
  expect(next(rounds)).toEqual(['9', '4']);
  read(rounds, { stop: { stretch: 1, bucket: 4, key: 'z' } });
  expect(next(rounds)).toEqual(['4z']);
  read(rounds, {});
  read(rounds, {});
  expect(rounds.types).toEqual([]);
});

test('what a walk has read is what it began, up to where it stopped', () => {
  expect(readOf(stretchesOf([1, 2, 7, 9]), null)).toEqual([1, 2, 7, 9]);
  expect(readOf(stretchesOf([1, 2, 7, 9]), { stretch: 1, bucket: 7, key: 'k' })).toEqual([1, 2, 7]);
});
