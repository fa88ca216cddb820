/** Looks for what was put off: one for all that is due at about the same time, and none after the end. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Later } from './later.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function heard() {
  const looks: number[][] = [];
  return { looks, later: new Later((buckets) => void looks.push([...buckets])) };
}

test('buckets that are due within a moment share a look, not before the last of them is due', () => {
  const { looks, later } = heard();
  later.add(7, 100);
  later.add(7, 100);
  later.add(9, 100);
  later.add(11, 5_000);
  vi.advanceTimersByTime(99);
  expect(looks).toEqual([]);
  vi.advanceTimersByTime(40);
  expect(looks).toEqual([[7, 9]]);
  vi.advanceTimersByTime(5_000);
  expect(looks).toEqual([[7, 9], [11]]);
});

test('what is far off or too much is left to the poll, and after the end there are no looks', () => {
  const { looks, later } = heard();
  later.add(1, 2 * 3_600_000);
  for (let n = 0; n < 5_000; n++) later.add(n % 1_024, n * 100);
  expect(vi.getTimerCount()).toBe(1_000);
  later.end();
  later.add(2, 10);
  vi.advanceTimersByTime(10 * 3_600_000);
  expect(looks).toEqual([]);
});
