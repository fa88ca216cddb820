/** When a reader starts over from the front. */
import { describe, expect, test } from 'vitest';
import { ScanTimer } from './scan-timer.js';

describe('a scan', () => {
  test('is due at the start', () => {
    expect(new ScanTimer().due(0)).toBe(true);
  });

  test('comes once a second where it is cheap', () => {
    const timer = new ScanTimer();
    timer.record(1_000, 1);
    expect(timer.due(1_999)).toBe(false);
    expect(timer.due(2_000)).toBe(true);
    expect(timer.at).toBe(2_000);
  });

  test.each([1, 10, 50, 400, 3_000])(
    'that takes %i ms leaves about 97 % of the time to others',
    (tookMs) => {
      const timer = new ScanTimer();
      let [now, scanning] = [0, 0];
      while (now < 600_000) {
        // Somebody asks for a scan all the time.
        timer.hasten(now);
        now = Math.max(now, timer.at);
        expect(timer.due(now)).toBe(true);
        now += tookMs;
        scanning += tookMs;
        timer.record(now, tookMs);
      }
      expect(scanning / now).toBeLessThan(0.045);
    },
  );

  test('comes at the time at which there is something to find, and not later', () => {
    const timer = new ScanTimer();
    timer.record(0, 1);
    timer.hasten(500);
    expect(timer.due(499)).toBe(false);
    expect(timer.due(500)).toBe(true);
    timer.hasten(900);
    expect(timer.at).toBe(500);
  });

  test('that is dear is hastened no further than its share allows', () => {
    const timer = new ScanTimer();
    for (const now of [0, 10_000]) timer.record(now, 100);
    expect(timer.at).toBe(13_000);
    timer.hasten(10_000);
    expect(timer.at).toBe(13_000);
    timer.record(13_000, 10);
    timer.hasten(13_000);
    expect(timer.at).toBe(13_300);
  });

  test('is not put off by one that took long for once', () => {
    const timer = new ScanTimer();
    timer.record(0, 1);
    timer.record(1_000, 5_000);
    expect(timer.at).toBe(2_000);
    timer.record(2_000, 1);
    timer.hasten(2_000);
    expect(timer.at).toBe(2_030);
  });

  test('comes in the end however long scans take: handlers that block the event loop count as such', () => {
    const timer = new ScanTimer();
    for (const now of [0, 10_000]) timer.record(now, 20_000);
    expect(timer.due(100_000)).toBe(true);
  });
});
