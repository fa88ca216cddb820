/**
 * Imports run downward only: words, ground, verbs, loops, faces. The rooms of the verbs do not import
 * each other, so each can be read on its own.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const SRC = fileURLToPath(new URL('../../packages/holdfast/src/index', import.meta.url));
const LEVEL: Record<string, number> = {
  job: 0,
  postgres: 1,
  tracing: 1,
  schema: 2,
  enqueue: 2,
  claim: 2,
  lease: 2,
  settle: 2,
  effects: 2,
  fleet: 2,
  maintenance: 2,
  schedule: 2,
  inspect: 2,
  operate: 2,
  worker: 3,
  metrics: 3.5,
  api: 3.5,
  'holdfast.ts': 4,
  'index.ts': 5,
  embedded: 5,
  testing: 5,
  dashboard: 5,
  cli: 6,
  demo: 6,
};

/** The rooms of inspect, each of which may import from those before it. */
const INSPECT = ['reading', 'fleet', 'queue', 'job', 'explain', 'doctor', 'audit.ts'];

function files(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter(
      (entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.test.ts'),
    )
    .map((entry) => join(entry.parentPath, entry.name));
}

const room = (file: string, within = SRC) => relative(within, file).split(/[\\/]/)[0] as string;

function importsOf(file: string): string[] {
  const source = readFileSync(file, 'utf8');
  return [...source.matchAll(/from '(\.[^']+)'/g)].map((match) =>
    resolve(dirname(file), (match[1] as string).replace(/\.js$/, '.ts')),
  );
}

test('every file belongs to a room with a level', () => {
  expect(
    files(SRC)
      .map((file) => room(file))
      .filter((name) => !(name in LEVEL)),
  ).toEqual([]);
});

test('no file imports from a room above its own, nor from another room on its level', () => {
  const wrong: string[] = [];
  for (const file of files(SRC)) {
    for (const target of importsOf(file)) {
      const [from, to] = [room(file), room(target)];
      if (from === to) continue;
      if ((LEVEL[to] as number) >= (LEVEL[from] as number)) {
        wrong.push(`${relative(SRC, file)} imports ${relative(SRC, target)}`);
      }
    }
  }
  expect(wrong).toEqual([]);
});

test('the rooms of inspect import in one direction', () => {
  const inspect = join(SRC, 'inspect');
  const level = (file: string) => INSPECT.indexOf(room(file, inspect));
  const wrong = files(inspect).flatMap((file) =>
    importsOf(file)
      .filter((target) => room(target) === 'inspect' && level(target) > level(file))
      .map((target) => `${relative(inspect, file)} imports ${relative(inspect, target)}`),
  );
  expect(wrong).toEqual([]);
  expect(files(inspect).filter((file) => level(file) < 0)).toEqual([]);
});

test('only the verbs hold SQL on the tables: loops and faces call them', () => {
  const loops = files(SRC).filter((file) =>
    ['worker', 'demo', 'cli', 'dashboard'].includes(room(file)),
  );
  const withSql = loops.filter((file) =>
    /\b(INSERT INTO|UPDATE|DELETE FROM) holdfast\./.test(readFileSync(file, 'utf8')),
  );
  expect(withSql.map((file) => relative(SRC, file))).toEqual([]);
});
