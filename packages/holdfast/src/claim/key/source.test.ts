/** What the source of a queue that is read by key asks for, against answers made by hand. */
import { expect, test } from 'vitest';
import { Allowance } from '../allowance.js';
import type { SourceDeps } from '../source.js';
import type { KeyedClaim } from './claim.js';
import { KeySource } from './source.js';

const NOTHING: KeyedClaim = {
  ...{ epoch: 1, clock: 0, jobs: [], refused: {}, stop: null, wanted: 0, heldBack: [], due: [] },
  ...{ lastAllowed: null, news: null },
};

test('a claim of a round asks for few jobs, and other claims for as many as there is room for', async () => {
  let now = 0;
  const clock = { now: () => now, random: () => 0 };
  const limits: number[] = [];
  const answers: Partial<KeyedClaim>[] = [];
  const deps = {
    ...{
      names: { schema: 'holdfast', queue: 'inbox' },
      engine: {},
      clock,
      pollMs: 1_000,
      run: () => 1,
    },
    versions: { slow: 1, quick: 1 },
    allowance: new Allowance(1_000, clock),
    send: async (limit: number) => {
      limits.push(limit);
      return { ...NOTHING, ...answers.shift() };
    },
  } as unknown as SourceDeps;
  const source = new KeySource(deps, false);
  source.own([]);
  const refused = { refused: { slow: 1 }, heldBack: [{ inMs: 1, bucket: 3, type: 'slow' }] };
  answers.push(refused, refused, {}, refused, {});
  for (let n = 0; n < 5; n++) {
    await source.read(500, false);
    now += 5_000;
    source.hint({ since: null, buckets: null, types: null });
  }
  const [first, ...others] = limits;
  expect(first).toBe(500);
  // Rounds and other claims alternate.
  expect(others.filter((limit) => limit === 500).length).toBeGreaterThanOrEqual(2);
  expect(others.filter((limit) => limit <= 2).length).toBeGreaterThanOrEqual(1);
});
