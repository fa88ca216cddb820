/** Rows are made by compiled code, and by a loop where that is not allowed: the same rows. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { askPressure } from '../enqueue/pressure.js';
import { load, rowMaker } from './statement.js';

const ENTRIES = [
  { camel: 'id', parse: (text: string) => text },
  { camel: 'leaseGeneration', parse: Number },
  { camel: 'taken', parse: (text: string) => text === 't' },
  { camel: 'lastError', parse: (text: string) => text },
];
const VALUES = ['01a1', '7', 't', null];
const ROW = { id: '01a1', leaseGeneration: 7, taken: true, lastError: null };

test('a row is made of its columns, each by its parser; null stays null', () => {
  expect(rowMaker(ENTRIES)(VALUES)).toEqual(ROW);
});

test('where code may not be made from strings, rows are the same', () => {
  const built = fileURLToPath(new URL('../../build/postgres/statement.js', import.meta.url));
  const script = `
    const { rowMaker } = await import(${JSON.stringify(built)});
    const entries = [{ camel: 'id', parse: (text) => text }, { camel: 'leaseGeneration', parse: Number },
      { camel: 'taken', parse: (text) => text === 't' }, { camel: 'lastError', parse: (text) => text }];
    console.log(JSON.stringify(rowMaker(entries)(${JSON.stringify(VALUES)})));`;
  const args = ['--disallow-code-generation-from-strings', '--input-type=module', '-e', script];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toEqual(ROW);
});

test.each([
  { max_pending: '5', waiting: '4', age_ms: '7', recount: 'false' },
  { maxPending: '5', waiting: '4', ageMs: '7', recount: 'false' },
])('a row is read whether or not a library has renamed its columns', (record) => {
  const { fromObject } = load(askPressure, { schema: 'holdfast', queue: 'inbox' });
  expect(fromObject(record)).toMatchObject({ maxPending: '5', waiting: '4', ageMs: '7' });
});
