import { expect, test } from 'vitest';
import { Trust } from './trust.js';

test('a type that was never seen is not trusted, until one of its jobs has ended well', () => {
  const trust = new Trust();
  expect(trust.types()).toEqual([]);
  trust.saw('send_receipt', false);
  trust.saw('charge', true);
  expect(trust.types()).toEqual(['send_receipt']);
  for (let n = 0; n < 2; n++) trust.saw('charge', false);
  expect(trust.types()).toEqual(['send_receipt', 'charge']);
});

test('a type that fails again and again is not trusted, until it succeeds again', () => {
  const trust = new Trust();
  trust.saw('charge', false);
  for (let n = 0; n < 3; n++) trust.saw('charge', true);
  expect(trust.types()).toEqual([]);
  for (let n = 0; n < 3; n++) trust.saw('charge', false);
  expect(trust.types()).toEqual(['charge']);
});

test('one failure in ten does no harm', () => {
  const trust = new Trust();
  trust.saw('charge', false);
  for (let n = 0; n < 1_000; n++) {
    trust.saw('charge', n % 10 === 0);
    expect(trust.types()).toEqual(['charge']);
  }
});
