import { expect, test } from 'vitest';
import { Wary } from './wary.js';

test('a type that fails again and again is claimed one by one, until it succeeds again', () => {
  const wary = new Wary();
  wary.saw('send_receipt', false);
  expect(wary.types()).toEqual([]);
  for (let n = 0; n < 3; n++) wary.saw('charge', true);
  expect(wary.types()).toEqual(['charge']);
  for (let n = 0; n < 3; n++) wary.saw('charge', false);
  expect(wary.types()).toEqual([]);
});

test('one failure in ten does not make a type suspicious', () => {
  const wary = new Wary();
  for (let n = 0; n < 1_000; n++) {
    wary.saw('charge', n % 10 === 0);
    expect(wary.types()).toEqual([]);
  }
});
