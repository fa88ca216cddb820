import { expect, test } from 'vitest';
import type { WorkerOverview } from '../inspect/overview.js';
import { FailureRates } from './failure-rates.js';

const START = Date.parse('2026-11-17T08:00:00Z');

function worker(id: string, seconds: number, failed: unknown): WorkerOverview {
  const lastSeenAt = new Date(START + seconds * 1000).toISOString();
  return { worker: { id, lastSeenAt, metadata: { load: { failed } } } } as WorkerOverview;
}

test('the rate between two heartbeats of a worker holds until the next, and goes with it', () => {
  const rates = new FailureRates();
  const update = (...workers: WorkerOverview[]) => Object.fromEntries(rates.update(workers));
  // What failed before anybody looked is no rate.
  expect(update(worker('a', 0, { mail: 100 }))).toEqual({});
  expect(update(worker('a', 10, { mail: 150 }))).toEqual({ mail: 5 });
  expect(update(worker('a', 10, { mail: 150 }), worker('b', 11, { mail: 1 }))).toEqual({ mail: 5 });
  const later = [worker('a', 20, { mail: 150, sms: 10 }), worker('b', 21, { mail: 21 })];
  expect(update(...later)).toEqual({ mail: 2, sms: 1 });
  expect(update(worker('b', 21, { mail: 21 }))).toEqual({ mail: 2 });
});

test('a worker that says nothing of the kind, or nonsense, has no failures', () => {
  const rates = new FailureRates();
  for (const failed of [undefined, null, 'many', { mail: 'x' }]) {
    rates.update([worker('a', 0, failed)]);
    expect(rates.update([worker('a', 5, failed)]).size).toBe(0);
  }
});
