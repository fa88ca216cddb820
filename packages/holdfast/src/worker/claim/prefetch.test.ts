/** How many jobs a worker claims ahead of its handlers: what they begin within 50 ms. */
import { describe, expect, test } from 'vitest';
import { PrefetchPolicy } from './prefetch.js';

/** A policy that has seen many handlers of this length. */
function seen(handlerMs: number, { concurrency = 10, most = 1_000 } = {}): PrefetchPolicy {
  const policy = new PrefetchPolicy(concurrency, most);
  for (let n = 0; n < 200; n++) policy.recordHandler(handlerMs);
  return policy;
}

describe('ahead of the handlers', () => {
  test('nothing is claimed until one has ended: nobody knows how long they take', () => {
    const policy = new PrefetchPolicy(10, 1_000);
    expect(policy.jobs).toBe(0);
    expect(policy.run).toBe(1);
  });

  test.each([
    [3_000, 0],
    [500, 1],
    [50, 10],
    [5, 100],
    [0, 1_000],
  ])('of %i ms, %i jobs wait at most', (handlerMs, jobs) => {
    expect(seen(handlerMs).jobs).toBe(jobs);
  });

  test('no more than the option says', () => {
    expect(seen(0, { most: 7 }).jobs).toBe(7);
    expect(seen(0, { most: 0 }).jobs).toBe(0);
  });

  test('no more than fit into 64 MiB', () => {
    const policy = seen(0);
    for (let n = 0; n < 200; n++) policy.recordPayload(1024 * 1024);
    expect(policy.jobs).toBeLessThanOrEqual(64);
    expect(policy.jobs).toBeGreaterThan(32);
  });

  test('handlers that become slow are noticed by the first job that waits', () => {
    const policy = seen(1);
    expect(policy.jobs).toBe(500);
    policy.recordWait(2_000);
    expect(policy.jobs).toBe(0);
    expect(policy.run).toBe(1);
  });

  test('and quick ones again after some of them', () => {
    const policy = seen(1_000);
    for (let n = 0; n < 200; n++) policy.recordHandler(1);
    expect(policy.jobs).toBeGreaterThan(400);
  });
});

test('of one key as many are taken as one handler gets through in that time', () => {
  expect(seen(1).run).toBe(50);
  expect(seen(25).run).toBe(2);
  expect(seen(200).run).toBe(1);
});

test('of handlers that mostly wait some more are taken, and no more of slow ones', () => {
  expect(seen(1).runOfWaits).toBe(50);
  expect(seen(10).runOfWaits).toBe(8);
  expect(seen(60).runOfWaits).toBe(3);
  expect(seen(300).runOfWaits).toBe(1);
});
