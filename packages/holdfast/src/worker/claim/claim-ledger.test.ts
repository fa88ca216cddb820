/** Which claims of a worker have nothing left: their rows are deleted, and no others. */
import { describe, expect, test } from 'vitest';
import { ClaimLedger } from './claim-ledger.js';

describe('a claim', () => {
  test('has a number of its own', () => {
    const ledger = new ClaimLedger();
    const numbers = Array.from({ length: 5 }, () => ledger.begin().number);
    expect(new Set(numbers).size).toBe(5);
  });

  test('is finished when all of its jobs have left, and named to one later claim', () => {
    const ledger = new ClaimLedger();
    const { number } = ledger.begin();
    ledger.took(number, 2);
    ledger.leave(number);
    expect(ledger.begin().finished).toEqual([]);
    ledger.leave(number);
    expect(ledger.begin().finished).toEqual([number]);
    expect(ledger.begin().finished).toEqual([]);
  });

  test('that took nothing has no row to delete', () => {
    const ledger = new ClaimLedger();
    const { number } = ledger.begin();
    ledger.took(number, 0);
    expect(ledger.begin().finished).toEqual([]);
  });

  test('that failed names again what it was to delete', () => {
    const ledger = new ClaimLedger();
    const first = ledger.begin();
    ledger.took(first.number, 1);
    ledger.leave(first.number);
    const second = ledger.begin();
    ledger.failed(second.number, second.finished);
    expect(ledger.begin().finished).toEqual([first.number]);
  });

  test('whose answer was lost is remembered until what it took is released', () => {
    const ledger = new ClaimLedger();
    const [one, two] = [ledger.begin(), ledger.begin()];
    ledger.failed(one.number, one.finished);
    ledger.failed(two.number, two.finished);
    expect(ledger.unknown).toEqual([one.number, two.number]);
    ledger.released([one.number]);
    expect(ledger.unknown).toEqual([two.number]);
    expect(ledger.begin().finished).toEqual([one.number]);
  });

  test('of a former id is nobody’s to delete, and its number is not used again', () => {
    const ledger = new ClaimLedger();
    const before = ledger.begin();
    ledger.took(before.number, 1);
    const lost = ledger.begin();
    ledger.failed(lost.number, lost.finished);
    ledger.reset();
    ledger.leave(before.number);
    const { number, finished } = ledger.begin();
    expect(finished).toEqual([]);
    expect(ledger.unknown).toEqual([]);
    expect(number).toBeGreaterThan(lost.number);
  });
});
