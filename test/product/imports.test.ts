/**
 * How the code is laid out, and that it stays so. Packages import in one direction and by their entries. Inside of the core,
 * imports run downward only: words, ground, verbs, loops, faces; the rooms of the verbs do not import each other, so each
 * can be read on its own. Files do not import each other in circles, and stay small. Tests may import what they like.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { circlesOf, importsOf, inRepository, readSource, sourcesIn } from '../support/sources.js';

/** Each may import from those that it names, all of which stand before it. */
const PACKAGES: readonly {
  readonly folder: string;
  readonly sources: readonly string[];
  readonly may: readonly string[];
  readonly what: string;
}[] = [
  {
    folder: 'packages/holdfast',
    sources: ['src'],
    may: [],
    what: 'what people install: jobs, engine, worker, command line',
  },
  {
    folder: 'packages/testing',
    sources: ['src'],
    may: ['holdfast'],
    what: 'the test kit: a database in the process, handlers by themselves, faults',
  },
  {
    folder: 'packages/embedded',
    sources: ['src'],
    may: ['holdfast'],
    what: 'a real PostgreSQL from npm, for demos and development',
  },
  {
    folder: 'packages/nest',
    sources: ['src'],
    may: ['holdfast'],
    what: 'the module of Nest: an injectable client, handlers as methods, a worker with the life of the application',
  },
  {
    folder: 'packages/lab',
    sources: ['src'],
    may: ['holdfast', '@holdfast/testing'],
    what: 'seven journeys through durable work, in the browser. Not published by itself',
  },
  {
    folder: 'packages/dashboard',
    sources: ['src', 'ui'],
    may: ['holdfast', '@holdfast/lab'],
    what: 'the live dashboard: its server in `src/`, its pages in `ui/`',
  },
  {
    folder: 'apps/demo',
    sources: ['src'],
    may: ['holdfast', '@holdfast/embedded', '@holdfast/dashboard'],
    what: 'the shop of `npm start`. Not published',
  },
];

const CORE = 'packages/holdfast/src';

/** Of the rooms of the core. A room imports from lower levels and from nothing else. */
const LEVEL: Readonly<Record<string, number>> = {
  job: 0,
  postgres: 1,
  tracing: 1,
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
  workflow: 2,
  schema: 2.5,
  worker: 3,
  metrics: 3.5,
  api: 3.5,
  'holdfast.ts': 4,
  'same-version.ts': 4,
  shapes: 4.5,
  'index.ts': 5,
  'internal.ts': 5,
  cli: 6,
};

/** How the page calls the levels. */
const LEVEL_NAMES: Readonly<Record<number, string>> = {
  0: 'words: definitions, keys, retries, the table of states. No I/O',
  1: 'ground: statements, connections, the sessions that listen; traces',
  2: 'verbs: one verb is one SQL statement. No timers',
  2.5: 'the schema: migrations and functions, some of which are the statements of the verbs, for workers in other languages',
  3: 'loops: when to run which verb. No SQL',
  3.5: 'methods: what programs ask and do, behind checked arguments; metrics',
  4: 'the object that `holdfast()` returns; that our packages have one version',
  4.5: 'shapes: kinds of durable work on the public methods. Each is an entry of its own',
  5: 'entries: what users import, and what our other packages import',
  6: 'the command line',
};

/** The rooms of inspect, each of which may import from those before it. */
const INSPECT = [
  ...['reading', 'fleet', 'projections', 'queue', 'job', 'run', 'explain', 'doctor'],
  'audit.ts',
];

/** Loops and faces: they call the verbs, and hold no SQL on the tables. */
const WITHOUT_SQL = [
  ...['worker', 'api', 'metrics', 'cli', 'holdfast.ts'].map((room) => `${CORE}/${room}`),
  'packages/dashboard/',
];

const MAX_FILES = 16;
const MAX_LINES = 300;

const sources = PACKAGES.map((one) => ({
  ...one,
  name: (JSON.parse(readSource(`${one.folder}/package.json`)) as { name: string }).name,
  files: one.sources.flatMap((folder) => sourcesIn(`${one.folder}/${folder}`)),
}));
const core = sourcesIn(CORE);
const every = sources.flatMap(({ files }) => files);

const room = (file: string, within = CORE) => file.slice(within.length + 1).split('/')[0] as string;

test('packages import from those before them, and by the names of their entries', () => {
  const wrong: string[] = [];
  const names = sources.map(({ name }) => name);
  for (const { folder, name, may, files } of sources) {
    const before = names.slice(0, names.indexOf(name));
    expect(may.filter((other) => !before.includes(other))).toEqual([]);
    for (const path of files)
      for (const target of importsOf(path)) {
        if (target.file && !target.file.startsWith(`${folder}/`))
          wrong.push(`${path} imports ${target.file}, by a path out of its package`);
        const other = names.find(
          (one) => target.name === one || target.name?.startsWith(`${one}/`),
        );
        if (!other) continue;
        const entry = `.${target.name?.slice(other.length)}`;
        if (!may.includes(other))
          wrong.push(`${path} imports ${target.name}, which ${name} may not`);
        else if (!entriesOf(other).includes(entry))
          wrong.push(`${path} imports ${target.name}, which is no entry of ${other}`);
      }
  }
  expect(wrong).toEqual([]);
});

test('of the dashboard, only the pages import the lab, which is not published', () => {
  const server = sourcesIn('packages/dashboard/src');
  expect(
    server.filter((path) => importsOf(path).some(({ name }) => name?.startsWith('@holdfast/lab'))),
  ).toEqual([]);
});

function entriesOf(name: string): string[] {
  const folder = sources.find((one) => one.name === name)?.folder as string;
  const { exports } = JSON.parse(readSource(`${folder}/package.json`)) as { exports: object };
  return Object.keys(exports);
}

test('every file of the core belongs to a room with a level', () => {
  expect(core.filter((file) => !(room(file) in LEVEL))).toEqual([]);
});

test('no file of the core imports from a room above its own, nor from another room on its level', () => {
  const wrong: string[] = [];
  for (const path of core) {
    for (const { file } of importsOf(path)) {
      if (!file?.startsWith(`${CORE}/`)) continue;
      const [from, to] = [room(path), room(file)];
      if (from !== to && (LEVEL[to] as number) >= (LEVEL[from] as number))
        wrong.push(`${path} imports ${file}`);
    }
  }
  expect(wrong).toEqual([]);
});

test('the rooms of inspect import in one direction', () => {
  const inspect = `${CORE}/inspect`;
  const files = sourcesIn(inspect);
  const level = (file: string) => INSPECT.indexOf(room(file, inspect));
  const wrong = files.flatMap((path) =>
    importsOf(path).flatMap(({ file }) =>
      file?.startsWith(`${inspect}/`) && level(file) > level(path)
        ? [`${path} imports ${file}`]
        : [],
    ),
  );
  expect(wrong).toEqual([]);
  expect(files.filter((file) => level(file) < 0)).toEqual([]);
});

test('shapes do not import each other', () => {
  const shapes = `${CORE}/shapes`;
  const wrong = sourcesIn(shapes).flatMap((path) =>
    importsOf(path).flatMap(({ file }) =>
      file?.startsWith(`${shapes}/`) && room(file, shapes) !== room(path, shapes)
        ? [`${path} imports ${file}`]
        : [],
    ),
  );
  expect(wrong).toEqual([]);
});

test('files do not import each other in circles', () => {
  expect(circlesOf(every)).toEqual([]);
});

test('no folder has too many files, and no file too many lines', () => {
  const folders = new Map<string, number>();
  for (const path of every) folders.set(dirname(path), (folders.get(dirname(path)) ?? 0) + 1);
  const full = [...folders].filter(([, count]) => count > MAX_FILES);
  expect(full.map(([folder, count]) => `${folder} has ${count} files`)).toEqual([]);
  const long = every
    .map((path) => ({ path, lines: readSource(path).split('\n').length - 1 }))
    .filter(({ lines }) => lines > MAX_LINES);
  expect(long.map(({ path, lines }) => `${path} has ${lines} lines`)).toEqual([]);
});

test('only the verbs hold SQL on the tables: loops and faces call them', () => {
  const withSql = every
    .filter((path) => WITHOUT_SQL.some((start) => path.startsWith(start)))
    .filter((path) => /\b(INSERT INTO|UPDATE|DELETE FROM) holdfast\./.test(readSource(path)));
  expect(withSql).toEqual([]);
});

/** The drawing of the layers in docs/architecture.md. */
function layers(): string {
  const packages = sources.map(
    ({ name, folder, may, what }) =>
      `| \`${name}\` | \`${folder}\` | ${what} | ${may.map((one) => `\`${one}\``).join(', ') || 'nothing of ours'} |`,
  );
  const levels = [...new Set(Object.values(LEVEL))].sort((a, b) => a - b);
  const rows = levels.map((level) => {
    const rooms = Object.keys(LEVEL).filter((name) => LEVEL[name] === level);
    const drawn = rooms.map((name) => {
      if (name.endsWith('.ts')) return `\`${name}\``;
      return `\`${name}/\` ${core.filter((file) => room(file) === name).length}`;
    });
    return `| ${LEVEL_NAMES[level]} | ${drawn.join(', ')} |`;
  });
  return [
    '| Package | Folder | What it is | Imports |',
    '|---|---|---|---|',
    ...packages,
    '',
    `The rooms of \`${CORE}\`, lowest first. The number says how many files a room has, without tests.`,
    '',
    '| Level | Rooms |',
    '|---|---|',
    ...rows,
  ].join('\n');
}

const PAGE = 'docs/architecture.md';

test('docs/architecture.md draws the layers as they are', () => {
  const page = readSource(PAGE);
  const [before, , after] = page.split(/<!-- layers:(?:begin|end) -->/);
  const wanted = `${before}<!-- layers:begin -->\n${layers()}\n<!-- layers:end -->${after}`;
  if (process.env.UPDATE_DOCS) writeFileSync(inRepository(PAGE), wanted);
  expect(readFileSync(inRepository(PAGE), 'utf8')).toBe(wanted);
});

test('every file that the page names is there', () => {
  const named = [...readSource(PAGE).matchAll(/`([\w./-]+\/[\w.-]+\.tsx?)`/g)].map(
    ([, path]) => path,
  );
  expect(named.length).toBeGreaterThan(50);
  const there = (path: string) =>
    [path, `${CORE}/${path}`].some((one) => existsSync(inRepository(one)));
  expect(named.filter((path) => !there(path as string))).toEqual([]);
});

test('every row of "Where is …?" leads somewhere', () => {
  const part = readSource(PAGE).split('## Where is …?')[1]?.split('\n## ')[0] ?? '';
  const rows = part.split('\n').filter((line) => /^\| (?!Where|---)/.test(line));
  const paths = rows.map((row) => [...row.matchAll(/`([\w.-]+\/[^`]*)`/g)].map(([, path]) => path));
  expect(rows.length).toBeGreaterThan(7);
  expect(rows.filter((_, n) => paths[n]?.length === 0)).toEqual([]);
  expect(paths.flat().filter((path) => !existsSync(inRepository(path as string)))).toEqual([]);
});
