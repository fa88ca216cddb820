/** The checker of workflows on runs that were written by hand: a good one passes, and each of the bad ones is found. */
import { expect, test } from 'vitest';
import { CHECKS } from '../../torture/check/index.mjs';

type Row = Record<string, unknown>;

const wrote = (what: string, facts: Row | null = null, version = 2): Row => ({
  ...{ run: 'r', what, version, facts },
});
const took = (n: number, by: string | null): Row => ({
  run: 'r',
  name: 'go',
  value: n,
  taken_by: by,
});

const parcels = (...values: (number | null)[]) =>
  wrote('arrived', { parcels: values.map((value) => ({ status: 'completed', value })) });
const heard = (first: number, second: number) =>
  wrote('heard', { first, second, paid: 'r/charge' });
const GOOD = [wrote('book'), wrote('pack'), parcels(0, 10), heard(1, 2)];
const TAKEN = [took(1, 'first'), took(2, 'second')];

function check(flows: Row[], facts: { status?: string; signals?: Row[]; fails?: boolean } = {}) {
  const { status = 'completed', signals = TAKEN, fails = false } = facts;
  const job = { id: 'r', type: 'checkout', version: 2, status, payload: { parcels: 2, fails } };
  const history = [{ op: 'cancel', of: 'r' }];
  return CHECKS.workflows?.({ history, state: { jobs: [job], flows, signals }, run: {} })
    .violations;
}

test('a run that did everything once is in order, and so is one that undid it', () => {
  expect(check(GOOD)).toEqual([]);
  const undone = [wrote('book'), wrote('pack'), wrote('undo pack'), wrote('undo book')];
  expect(check(undone, { status: 'cancelled' })).toEqual([]);
  expect(check(undone, { status: 'dead_letter', fails: true })).toEqual([]);
});

test.each<[string, Row[], Parameters<typeof check>[1], RegExp]>([
  ['a step twice', [wrote('pack'), ...GOOD], {}, /did "pack" 2 times/],
  [
    'another version',
    [wrote('book', null, 1), ...GOOD.slice(1)],
    {},
    /of version 2 did "book" in version 1/,
  ],
  ['a step that is missing', GOOD.slice(0, 3), {}, /its last step was not done/],
  ['an undo of what stands', [...GOOD, wrote('undo pack')], {}, /is completed, and undid pack/],
  [
    'a step that is not undone',
    GOOD.slice(0, 2),
    { status: 'cancelled' },
    /did not undo book,pack/,
  ],
  [
    'undone in the wrong order',
    [...GOOD.slice(0, 2), wrote('undo book'), wrote('undo pack')],
    { status: 'cancelled' },
    /undid book,pack, which it had done in the order book,pack/,
  ],
  ['a signal twice', [...GOOD.slice(0, 3), heard(1, 1)], {}, /heard of the signals 1 and 1/],
  [
    'two signals for a wait',
    GOOD,
    { signals: [took(1, 'first'), took(2, 'first')] },
    /took several signals/,
  ],
  [
    'a signal that was lost',
    GOOD,
    { signals: [took(1, 'first'), took(2, null)] },
    /1 signals were taken/,
  ],
  [
    'a child too early',
    [...GOOD.slice(0, 2), parcels(0, null), heard(1, 2)],
    {},
    /2 parcels, and heard of/,
  ],
  ['an end that was not meant', GOOD, { fails: true }, /was to fail, and is completed/],
])('%s is found', (_, flows, facts, found) => {
  expect(check(flows, facts)).toEqual([expect.stringMatching(found)]);
});
