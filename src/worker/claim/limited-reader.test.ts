/** When jobs under a limit are read again. */
import { expect, test } from 'vitest';
import type { KeyedClaim } from '../../claim/claim-keyed.js';
import type { LeasedJob } from '../run/leased-job.js';
import { KeyReader } from './key-reader.js';
import { LimitedGroup } from './limited-reader.js';

test('a place that was freed while a claim of keys was in flight is looked for at once', () => {
  let now = 0;
  const time = { now: () => now, random: () => 0.5, after: () => ({ cancel() {} }), soon() {} };
  const keys = new KeyReader(1_000, time.random);
  const group = new LimitedGroup('step', { step: 1 }, keys);
  group.assign('key', [1, 2]);
  const claim = (wanted: number) => {
    const found = {
      ...{ epoch: 1, clock: 0, stop: null, wanted, allowed: 1, againMs: null, due: [], news: null },
      jobs: Array.from({ length: wanted }, () => ({})),
    } as unknown as KeyedClaim;
    keys.record(found, 1, now, 0);
    group.recordKeys(found, 4, 1_000, time);
  };
  group.sent(now);
  keys.take(now);
  claim(0);
  now = 2_000;
  group.sent(now);
  keys.take(now);
  const failed = { row: {}, how: 'failed', claim: { limited: true, sentAt: 0 } };
  group.left(failed as unknown as LeasedJob, false, now);
  claim(1);
  expect(group.at - now).toBeLessThan(100);
});

test('a queue whose setting has changed is read at once', () => {
  const time = { now: () => 0, random: () => 0.5, after: () => ({ cancel() {} }), soon() {} };
  const keys = new KeyReader(1_000, time.random);
  const group = new LimitedGroup('step', { step: 1 }, keys);
  group.assign('turns', [1, 2]);
  group.sent(0);
  keys.take(0);
  const nothing = { stop: null, wanted: 0, allowed: 1, againMs: null, due: [], jobs: [] };
  keys.record(nothing as unknown as KeyedClaim, 1, 0, 0);
  group.recordKeys(nothing as unknown as KeyedClaim, 4, 1_000, time);
  expect(group.at).toBeGreaterThan(100);
  group.assign('turns', [1, 2]);
  expect(group.at).toBeLessThan(100);
});
