import { expect, test } from 'vitest';
import { HintBudget } from './hint-budget.js';

/** How many notifications a worker takes before it gets up, at so many per second; null: it sleeps on. */
function sleepsThrough(perSecond: number, workers: number, seconds = 60): number | null {
  const budget = new HintBudget();
  budget.workers = workers;
  for (let count = 1; count <= perSecond * seconds; count++) {
    if (!budget.spend((count / perSecond) * 1_000)) return count;
  }
  return null;
}

test('a worker sleeps through a trickle and gets up at the beginning of a flood', () => {
  expect(sleepsThrough(90, 1)).toBe(null);
  expect(sleepsThrough(2_000, 1)).toBeLessThan(25);
});

test('many workers share one budget', () => {
  expect(sleepsThrough(9, 10)).toBe(null);
  expect(sleepsThrough(100, 10)).toBeLessThan(25);
});

/** Falls asleep at `from`, is flooded at `until`, and returns for how long it then stays up. */
function flooded(budget: HintBudget, from: number, until: number): number {
  expect(budget.allows(from)).toBe(true);
  budget.fellAsleep(from);
  while (budget.spend(until));
  for (let ms = 0; ; ms += 100) if (budget.allows(until + ms)) return ms;
}

test('who was flooded stays up for a while, for longer if that happens again and again', () => {
  const budget = new HintBudget();
  const stays: number[] = [];
  for (let now = 0; stays.length < 6; now += stays.at(-1) as number) {
    now += 10;
    stays.push(flooded(budget, now - 10, now));
  }
  expect(stays).toEqual([10_000, 20_000, 40_000, 60_000, 60_000, 60_000]);
});

test('a flood now and then keeps nobody up for long', () => {
  const budget = new HintBudget();
  for (let minute = 1; minute < 10; minute++) {
    expect(flooded(budget, (minute - 1) * 60_000 + 10_000, minute * 60_000)).toBe(5_000);
  }
});

test('who finds jobs at a rate beyond the budget does not lie down in a short lull', () => {
  const budget = new HintBudget();
  budget.workers = 4;
  for (let ms = 0; ms <= 1_000; ms += 10) budget.found(20, ms);
  expect(budget.allows(1_300)).toBe(false);
  expect(budget.allows(1_450)).toBe(true);
});

test('who finds few jobs may lie down at once', () => {
  const budget = new HintBudget();
  budget.workers = 4;
  for (let ms = 0; ms <= 60_000; ms += 100) budget.found(1, ms);
  expect(budget.allows(60_000)).toBe(true);
});
