import { expect, test } from 'vitest';
import { readArguments, UsageError } from './usage.js';

test('without arguments the demo runs until somebody quits', () => {
  expect(readArguments([])).toEqual({ forMs: null, help: false });
});

test('--for takes a time', () => {
  expect(readArguments(['--for', '20s']).forMs).toBe(20_000);
  expect(readArguments(['--for=2m']).forMs).toBe(120_000);
});

test.each([
  [['--fro', '20s'], '--fro'],
  [['20s'], '20s'],
  [['--for'], '--for'],
  [['--for', 'soon'], '--for'],
  [['--for', '10ms'], 'out of range'],
  [['--for', '400d'], '--for'],
])('%j is refused, and the message names what is wrong', (argv, named) => {
  expect(() => readArguments(argv)).toThrow(UsageError);
  expect(() => readArguments(argv)).toThrow(named);
});
