import { expect, test } from 'vitest';
import { newRecentAttempts } from './keeper-work.js';

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
