/** The checker of shapes on runs that were written by hand: a good one passes, and each of the bad ones is found. */
import { expect, test } from 'vitest';
import { CHECKS } from '../../torture/check/index.mjs';

type Row = Record<string, unknown>;

const event = (n: number, type = 'order.paid') => ({
  ...{ type, key: 'k' },
  data: { op: `op${n}`, i: 0, n, cents: 10 },
});
const publication = (n: number, type?: string) => ({
  ...{ op: `op${n}`, tenant: 't', type: type ?? 'order.paid', events: [event(n, type)] },
});
const sent = (n: number, facts: Row = {}) => ({
  ...{ op: 'sink', id: `id${n}`, key: 'k', of: `op${n}`, i: 0, n, fence: 1, took: true },
  ...facts,
});
const posted = (n: number, facts: Row = {}) => ({
  ...{ op: 'hook', endpoint: 'e', id: `op${n}`, of: `op${n}`, key: 'k', n, took: true },
  ...{ valid: true, age: 0, ...facts },
});
const logged = (n: number, type?: string) => ({ id: `l${n}`, position: n, ...event(n, type) });
const applied = (n: number) => ({ seq: n, id: `l${n}`, key: 'k', position: n });
const published = (n: number, phase = 'ok') => ({ op: 'publish', phase, of: `op${n}` });

interface Story {
  readonly history: Row[];
  readonly state: Record<string, Row[]>;
}

/** Two events of a key; the first answer of the sink was lost, and the copy came with a greater fence. */
const good = (): Story => ({
  history: [
    ...[published(1), published(2), published(3, 'fail')],
    ...[sent(1), sent(1, { fence: 2 }), sent(2)],
    ...[posted(1, { took: false }), posted(1), posted(2)],
  ],
  state: {
    publications: [publication(1), publication(2, 'order.refunded')],
    endpoints: [{ name: 'e', tenant: 't', ordered: true }],
    shapeJobs: [{ id: 'j', queue: 'outbox', status: 'completed', history: null }],
    log: [logged(1), logged(2, 'order.refunded')],
    applied: [applied(1), applied(2)],
    totals: [{ key: 'k', events: 2, cents: 0 }],
    projections: [{ id: 1, state: 'live', stops: 0 }],
    lags: [{ ms: 5 }],
  },
});

const check = (story: Story) => CHECKS.shapes?.({ ...story, run: {} }).violations;

test('what arrived once after dedupe, in order and signed, is in order', () => {
  expect(check(good())).toEqual([]);
});

test('a run without shapes is not asked for any', () => {
  expect(check({ history: [], state: {} })).toEqual([]);
});

/** With one list of the history or of the state replaced. */
const history = (change: (rows: Row[]) => Row[]) => (story: Story) => ({
  ...story,
  history: change(story.history),
});
const state = (name: string, change: (rows: Row[]) => Row[]) => (story: Story) => ({
  ...story,
  state: { ...story.state, [name]: change(story.state[name] ?? []) },
});
const without = (op: string, n: number) => (rows: Row[]) =>
  rows.filter((one) => !(one.op === op && one.n === n));
const first = (facts: Row) => (rows: Row[]) =>
  rows.map((one, i) => (i ? one : { ...one, ...facts }));

test.each<[string, (story: Story) => Story, RegExp]>([
  ['a lost publication', state('publications', (r) => r.slice(1)), /op1 was acknowledged and is l/],
  [
    'what was rolled back',
    history((r) => [...r, published(2, 'fail')]),
    /op2 was rolled back, and/,
  ],
  ['an event that never arrived', history(without('sink', 2)), /op2#0 was published and did not/],
  ['an event of nobody', history((r) => [...r, sent(9)]), /op9#0 is at the sink, and nobody/],
  [
    'two ids',
    history((r) => [...r, sent(2, { id: 'x', n: 3 })]),
    /op2#0 is at the sink under 2 ids/,
  ],
  ['a wrong order', history((r) => [sent(2), ...r]), /the sink: of k, 1 arrived after 2/],
  [
    'an attempt that an outage spent',
    state('shapeJobs', first({ history: [{ outcome: 'failed' }] })),
    /event j spent 1 attempts/,
  ],
  ['a dead letter', state('shapeJobs', first({ status: 'dead_letter' })), /j of outbox is dead_l/],
  ['a webhook that never came', history(without('hook', 2)), /e never got op2/],
  [
    'a webhook for others',
    state('endpoints', first({ events: ['order.paid'] })),
    /e got op2, which/,
  ],
  ['a bad signature', history((r) => [...r, posted(1, { valid: false })]), /op1 has no valid sign/],
  [
    'an old timestamp',
    history((r) => [...r, posted(1, { age: 900 })]),
    /op1 has a timestamp of 900/,
  ],
  ['another id', history((r) => [...r, posted(1, { id: 'x', n: 3 })]), /op1 came under the id x/],
  ['webhooks out of order', history((r) => [posted(2), ...r]), /e: of k, 1 arrived after 2/],
  [
    'an event that is not in the log',
    state('log', (r) => r.slice(0, 1)),
    /op2#0 was published and is/,
  ],
  [
    'an event twice in the log',
    state('log', (r) => [...r, logged(2, 'order.refunded')]),
    /2 times in/,
  ],
  ['a skipped event', state('applied', (r) => r.slice(1)), /event 1 of k was applied 0 times/],
  ['an event applied twice', state('applied', (r) => [...r, applied(2)]), /2 of k was applied 2 t/],
  ['another order', state('applied', (r) => r.toReversed()), /event 1 was applied after 2/],
  ['a wrong row', state('totals', first({ cents: 7 })), /the row of k says 2 events and 7 cents/],
  [
    'a row of nothing',
    state('totals', (r) => [...r, { key: 'x' }]),
    /a row of x, and the log has no/,
  ],
  ['no live build', state('projections', first({ state: 'old' })), /not one live build/],
  ['a key that stopped', state('projections', first({ stops: 1 })), /1 keys of build 1 stopped/],
])('%s is found', (_, spoil, found) => {
  expect(check(spoil(good()))).toContainEqual(expect.stringMatching(found));
});

test('a run in which nothing was published proves nothing', () => {
  const empty = {
    endpoints: [],
    shapeJobs: [],
    totals: [],
    projections: [{ id: 1, state: 'live' }],
  };
  const state = { publications: [], log: [], applied: [], lags: [], ...empty } as Story['state'];
  expect(check({ history: [], state })).toHaveLength(4);
});
