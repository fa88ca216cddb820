/** docs/errors.md lists every code that the source can raise, and none that it cannot. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { EXIT } from '../../packages/holdfast/src/cli/command.js';
import * as holdfast from '../../packages/holdfast/src/index.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const page = read('docs/errors.md');

const sorted = (codes: Iterable<string>) => [...new Set(codes)].sort();

/** Section by heading, and of its tables the codes that stand in the first column. */
function listed(heading: string): string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  const cells = section.split('\n').map((line) => /^\| (`[^|]*) \|/.exec(line)?.[1] ?? '');
  return cells.flatMap((cell) =>
    [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1] as string),
  );
}

function union(path: string, type: string): string[] {
  const text = new RegExp(`export type ${type} =([^;]*);`).exec(read(path))?.[1] ?? '';
  return [...text.matchAll(/'(\w+)'/g)].map((match) => match[1] as string);
}

function source(folder: string): string {
  return readdirSync(join(ROOT, folder), { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => read(join(folder, name)))
    .join('\n');
}

test('the codes of HoldfastError are those of the type, and each is raised somewhere', () => {
  const codes = union('packages/holdfast/src/job/errors/holdfast-error.ts', 'HoldfastErrorCode');
  expect(codes.length).toBeGreaterThan(15);
  expect(listed('HoldfastError').toSorted()).toEqual(sorted(codes));
  const others = source('packages/holdfast/src').replaceAll(
    read('packages/holdfast/src/job/errors/holdfast-error.ts'),
    '',
  );
  expect(codes.filter((code) => !others.includes(`'${code}'`))).toEqual([]);
});

test('the codes of the embedded server are those of its type', () => {
  const codes = union('packages/embedded/src/errors.ts', 'EmbeddedErrorCode');
  expect(codes.length).toBeGreaterThan(10);
  expect(listed('Embedded Postgres').toSorted()).toEqual(sorted(codes));
});

test('every SQLSTATE that a migration raises, and every one that the command explains, is there', () => {
  const raised = [...source('packages/holdfast/src/schema').matchAll(/ERRCODE = '(HF\d{3})'/g)].map(
    ([, code]) => code,
  );
  const states = listed('SQLSTATEs');
  expect(states.filter((code) => code.startsWith('HF')).toSorted()).toEqual(
    sorted(raised as string[]),
  );
  const fixes =
    /const FIXES[^{]*\{([\s\S]*?)\n\};/.exec(read('packages/holdfast/src/cli/errors.ts'))?.[1] ??
    '';
  const explained = [...fixes.matchAll(/^ {2}'(\w{5})':/gm)].map((match) => match[1] as string);
  expect(explained.length).toBeGreaterThan(5);
  expect(explained.filter((code) => !states.includes(code))).toEqual([]);
});

test('the exit codes are those of the command', () => {
  expect(listed('Exit codes').map(Number)).toEqual(Object.values(EXIT));
  for (const [name, code] of Object.entries(EXIT))
    expect(page).toContain(`| \`${code}\` | ${name} |`);
});

test('the outcomes are the classes of errors that the package exports beside HoldfastError', () => {
  const outcomes = Object.values(holdfast).filter(
    (value) =>
      typeof value === 'function' &&
      value.prototype instanceof Error &&
      value !== holdfast.HoldfastError,
  );
  const named = listed('Outcomes of a handler').map((text) => text.split('(', 1)[0]);
  expect(named.toSorted()).toEqual((outcomes as { name: string }[]).map(({ name }) => name).sort());
});
