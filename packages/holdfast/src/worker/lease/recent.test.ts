import { expect, test } from 'vitest';
import { MAX_TYPES, newRecentAttempts, newRecentStarts } from './recent.js';

test('what ended in the last minute is reported by queue, and what is older is not', () => {
  const none = { failed: 0, completed: 0 };
  const recent = newRecentAttempts({ mail: none, sms: none }, 0);
  const report = (seconds: number, failed: number, completed: number) =>
    recent({ mail: { failed, completed }, sms: none }, seconds * 1000);
  expect(report(10, 5, 1)).toEqual({ ms: 10_000, queues: { mail: { failed: 5, completed: 1 } } });
  expect(report(40, 9, 1)).toEqual({ ms: 40_000, queues: { mail: { failed: 9, completed: 1 } } });
  // From the tenth second on: the first five have been forgotten.
  expect(report(70, 9, 3)).toEqual({ ms: 60_000, queues: { mail: { failed: 4, completed: 2 } } });
  expect(report(130, 9, 3)).toEqual({ ms: 60_000, queues: {} });
});

test('what started in the last minute is reported by type, with how long ago the last one did', () => {
  const load = (started: Record<string, [number, number]>, fullSince: number | null = null) => ({
    mail: { running: 1, held: 1, handlers: 2, fullSince, started },
  });
  const starts = newRecentStarts(load({}), 0);
  expect(starts(load({ a: [3, 9_000] }), 10_000).mail).toEqual({
    ...{ running: 1, held: 1, handlers: 2, fullMs: null },
    started: { a: [3, 1_000] },
  });
  expect(starts(load({ a: [5, 39_000], b: [1, 20_000] }, 39_000), 40_000).mail).toMatchObject({
    fullMs: 1_000,
    started: { a: [5, 1_000], b: [1, 20_000] },
  });
  // The first ones are forgotten; when the last one began is not.
  expect(starts(load({ a: [5, 39_000], b: [1, 20_000] }), 100_000).mail?.started).toEqual({
    a: [0, 61_000],
    b: [0, 80_000],
  });
});

test('of very many types those that started last are named, and the others are one', () => {
  const types = Array.from({ length: MAX_TYPES + 3 }, (_, n) => [`t${n}`, [1, n]] as const);
  const queues = {
    mail: { ...{ running: 0, held: 0, handlers: 1, fullSince: null }, started: {} },
  };
  const starts = newRecentStarts(queues, 0);
  const load = { mail: { ...queues.mail, started: Object.fromEntries(types) } };
  const { started = {} } = starts(load, 100).mail ?? {};
  expect(Object.keys(started)).toHaveLength(MAX_TYPES + 1);
  expect(started).toMatchObject({ t3: [1, 97], '*': [3, 98] });
  expect(started).not.toHaveProperty('t2');
});
