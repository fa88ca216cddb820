/** The package as users see it: its entry points, their types, and nothing that it should not bring along. */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path/posix';
import { fileURLToPath } from 'node:url';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import { type HandlerContext, type Holdfast, job } from '../../packages/holdfast/src/index.js';
import { VERSION } from '../../packages/holdfast/src/job/options/version.js';
import { long } from '../support/long.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const require = createRequire(import.meta.url);
const manifest = JSON.parse(readFileSync(`${ROOT}/package.json`, 'utf8'));

/** The package as npm packs it; packed once. */
let files: string[];
let tarball: Uint8Array<ArrayBuffer>;
beforeAll(() => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-pack-'));
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const { stdout } = spawnSync('npm', args, { cwd: ROOT, encoding: 'utf8' });
  const [packed] = JSON.parse(stdout);
  files = packed.files.map(({ path }: { path: string }) => path);
  tarball = new Uint8Array(readFileSync(join(folder, packed.filename)));
  rmSync(folder, { recursive: true, force: true });
});

/** The files of a folder, by their paths from the root. */
function filesOf(folder: string): string[] {
  return readdirSync(`${ROOT}/${folder}`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(relative(ROOT, parentPath), name));
}

/** What may stand in the folders that are packed as they are. */
const PLAIN = /^(docs\/.+\.(md|svg|png|json|yml|sql)|examples\/.+\.(md|mjs|csv))$/;
/** What the build makes without a source of that name. */
const MADE =
  /^dist\/(worker\/lease\/(keeper-source\.js|LICENCES\.txt)|dashboard\/((client|lab)-files\.js|lab\.data|LICENCES\.txt)|cjs\/(package\.json|shared\/[\w-]+\.js))$/;
const TOP = ['package.json', 'README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'];

describe('the package', () => {
  test.each([
    [
      'holdfast',
      [
        'holdfast',
        'job',
        'HoldfastError',
        'RetryLater',
        'Snooze',
        'DeadLetter',
        'Cancel',
        'guardTable',
        'shardedKey',
        'shardedKeys',
      ],
    ],
    [
      'holdfast/adapters',
      ['fromPg', 'fromPostgresJs', 'fromKysely', 'fromKnex', 'fromDrizzle', 'fromPrisma'],
    ],
    ['@holdfast/dashboard', ['dashboard', 'nodeHandler', 'serveDashboard']],
    ['@holdfast/embedded', ['startEmbedded']],
    ['holdfast/config', ['defineConfig']],
    [
      'holdfast/metrics',
      [
        ...['metricsHandler', 'metricsFetch', 'collectMetrics', 'CATALOGUE'],
        ...['registerMetrics', 'meterMetrics'],
      ],
    ],
    [
      '@holdfast/testing',
      [
        ...['makeTemplate', 'cloneDatabase', 'startPglite', 'useHoldfast', 'testJob', 'drain'],
        ...['expectEnqueued', 'expectNotEnqueued', 'allEnqueued', 'makeJob', 'advance'],
        ...['clearJobs', 'survivesFaults'],
      ],
    ],
  ])('%s exports its names and no default', async (entry, names) => {
    const module = await import(entry);
    expect(Object.keys(module)).toEqual(expect.arrayContaining(names));
    expect(module).not.toHaveProperty('default');
    // For those who cannot load ES modules with require.
    const { require: other } = manifest.exports[entry.replace('holdfast', '.')];
    const common = require(join(ROOT, other.default));
    expect(Object.keys(common).sort()).toEqual(Object.keys(module).sort());
  });

  test('is one copy in a process whose files are partly CommonJS, where Node loads ES modules with require', () => {
    const code = `import { createRequire } from 'node:module';
      const { DeadLetter } = createRequire(process.cwd() + '/x.js')('holdfast');
      console.log(DeadLetter === (await import('holdfast')).DeadLetter);`;
    const args = ['--input-type=module', '--eval', code];
    const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' });
    expect({ stdout, stderr }).toEqual({ stdout: 'true\n', stderr: '' });
  });

  test('knows its own version', () => {
    expect(VERSION).toBe(manifest.version);
  });

  test('has few runtime dependencies', () => {
    expect(Object.keys(manifest.dependencies)).toEqual(['croner', 'pg']);
  });

  test('names the files of every entry point in one and the same way', () => {
    for (const [entry, conditions] of Object.entries<object>(manifest.exports)) {
      if (entry === './package.json') continue;
      const { default: main } = (conditions as Record<string, Record<string, string>>).default!;
      const [esm, cjs] = [main!, main!.replace('./dist/', './dist/cjs/')].map((file) => ({
        types: file.replace(/\.js$/, '.d.ts'),
        default: file,
      }));
      expect(conditions, entry).toEqual({ 'module-sync': esm, require: cjs, default: esm });
    }
  });

  test('has no problem that publint or arethetypeswrong knows', async () => {
    const { messages } = await publint({ pack: { tarball: tarball.buffer } });
    expect(messages).toEqual([]);
    // They are named alike, so that one shows how each of them is resolved; in full each is looked at.
    const one = long({ entrypoints: ['.'] }, {});
    const analysis = await checkPackage(createPackageFromTarballData(tarball), one);
    expect(analysis).toMatchObject({ problems: [], entrypoints: { '.': expect.anything() } });
  });

  describe('as npm packs it', () => {
    test('has every entry point with its types, and the command', () => {
      const named = [...JSON.stringify(manifest.exports).matchAll(/"\.\/(dist\/[^"]+)"/g)];
      expect(named.length).toBeGreaterThan(30);
      expect(files).toEqual(expect.arrayContaining(named.map(([, path]) => path)));
      expect(files).toContain(manifest.bin.holdfast.replace('../', ''));
    });

    test('has no file that is not accounted for', () => {
      // A file of dist without its source is left from an earlier build: npm run build.
      const built = /^dist\/(?:cjs\/)?(.+?)(\.d\.ts|\.js|\.js\.map)$/;
      const known = [...TOP, 'LICENSE', 'schema.sql'];
      const strangers = files.filter((path) => {
        const source = built.exec(path)?.[1];
        if (known.includes(path) || PLAIN.test(path) || MADE.test(path)) return false;
        if (source === undefined) return true;
        return !existsSync(`${ROOT}/src/${source}.ts`) || source.endsWith('.test');
      });
      expect(strangers).toEqual([]);
      const sources = filesOf('src').filter((path) => !path.endsWith('.test.ts'));
      const missing = sources.filter(
        (path) => !files.includes(path.replace(/^src/, 'dist').replace(/(\.d)?\.ts$/, '.js')),
      );
      expect(missing).toEqual([]);
    });

    test('links from its pages only to files that it has', () => {
      const pages = files.filter((path) => path.endsWith('.md'));
      expect(pages.length).toBeGreaterThan(20);
      const dead = pages.flatMap((page) =>
        [...readFileSync(`${ROOT}/${page}`, 'utf8').matchAll(/\]\(([^)#\s]+)[^)]*\)/g)]
          .map(([, target]) => target as string)
          .filter((target) => !/^[a-z]+:/.test(target))
          .map((target) => join(dirname(page), target).replace(/\/$/, ''))
          .filter((path) => !files.some((file) => file === path || file.startsWith(`${path}/`)))
          .map((path) => `${page} → ${path}`),
      );
      expect(dead).toEqual([]);
    });
  });

  test('names no registry in the lockfile', () => {
    expect(readFileSync(`${ROOT}/package-lock.json`, 'utf8')).not.toMatch(/"resolved": *"http/);
  });
});

describe('the types', () => {
  const receipt = job('send_receipt', {
    schema: z.object({ orderId: z.number(), at: z.string().transform((text) => new Date(text)) }),
  });

  test('enqueue takes what goes into the schema, the handler gets what comes out', () => {
    type Enqueue = Holdfast['enqueue'];
    const typed = (hf: { enqueue: Enqueue }) => {
      void hf.enqueue(receipt, { orderId: 1, at: '2026-11-15' });
      // @ts-expect-error the payload lacks `at`
      void hf.enqueue(receipt, { orderId: 1 });
      // @ts-expect-error the payload has the output's type
      void hf.enqueue(receipt, { orderId: 1, at: new Date() });
    };
    expect(typed).toBeTypeOf('function');
    type Context = HandlerContext<{ orderId: number; at: Date }>;
    expectTypeOf(receipt.check).returns.resolves.toEqualTypeOf<Context['payload']>();
  });

  test('a payload that does not come back from JSON as it went in is refused while it is written', () => {
    // @ts-expect-error a Date comes back as a text
    job<{ at: Date }>('remind');
    // @ts-expect-error however deep it lies
    job<{ orders: { id: bigint }[] }>('remind');
    // @ts-expect-error and in what a schema takes
    job('remind', { schema: z.object({ at: z.date() }) });
    job<{ at: Map<string, string> | null }>(
      // @ts-expect-error a class is no data
      'remind',
    );
    type Json = string | number | boolean | null | Json[] | { [name: string]: Json };
    type Id = string & { readonly brand: unique symbol };
    job<Json>('remind');
    job<{ id: Id; note?: string | undefined; kind: 'a' | 'b'; pair: readonly [1, 'x'] }>('remind');
    job('remind', { schema: z.object({ at: z.coerce.date() }) });
    // biome-ignore lint/suspicious/noExplicitAny: a user may write it.
    job<any>('remind');
    expectTypeOf(job('remind').item).parameter(0).toEqualTypeOf<unknown>();
  });

  test('an upgrade may name the type of what it gets, or not', () => {
    const options = { version: 3, schema: z.object({ to: z.array(z.string()) }) };
    const { version } = job('send_receipt', {
      ...options,
      upgrade: { 1: (old) => ({ email: old.mail }), 2: (old: { email: string }) => [old.email] },
    });
    expect(version).toBe(3);
  });

  const PROJECT = `import { holdfast, job, type HandlerContext } from 'holdfast';
    import { fromPg } from 'holdfast/adapters';
    import { defineConfig } from 'holdfast/config';
    import { dashboard } from '@holdfast/dashboard';
    import { startEmbedded } from '@holdfast/embedded';
    import { metricsHandler } from 'holdfast/metrics';
    import { testJob } from '@holdfast/testing';
    export const uses = [fromPg, defineConfig, dashboard, startEmbedded, metricsHandler, testJob];
    const hf = holdfast({ connectionString: 'postgres://localhost/app' });
    const receipt = job<{ orderId: number }>('send_receipt');
    hf.worker().handle(receipt, async (ctx: HandlerContext<{ orderId: number }>) => {
      await ctx.transaction((tx) => tx.query('SELECT $1', [ctx.payload.orderId]));
      const wrong: string = ctx.payload.orderId;
      await ctx.transaction((tx) => tx.nothing);
    });`;

  /** A project with the package as the compiler sees it, without @types/pg. */
  let cwd: string;
  beforeAll(() => {
    cwd = mkdtempSync(join(tmpdir(), 'holdfast-types-'));
    const modules = join(cwd, 'node_modules');
    // Not a link: the compiler would look for what it imports beside this checkout.
    cpSync(join(ROOT, 'dist'), join(modules, 'holdfast/dist'), {
      recursive: true,
      filter: (path) => !/\.(js|map)$/.test(path),
    });
    cpSync(join(ROOT, 'package.json'), join(modules, 'holdfast/package.json'));
    for (const name of ['@types/node', 'undici-types', 'pg-types', 'pg-protocol'])
      cpSync(join(ROOT, 'node_modules', name), join(modules, name), { recursive: true });
    writeFileSync(join(cwd, 'worker.ts'), PROJECT);
  });
  afterAll(() => rmSync(cwd, { recursive: true, force: true }));

  test.each([
    ['module', 'NodeNext', long([false], [true, false])],
    ['commonjs', 'NodeNext', long([true], [true, false])],
    ...long([], [['commonjs', 'CommonJS', [true]] as const]),
  ] as const)(
    'of a project of "type": "%s" and module %s are whole, with @types/pg: %s',
    (type, module, withPg) => {
      const bundler = module === 'CommonJS' ? { moduleResolution: 'bundler' } : {};
      for (const pg of withPg) {
        const pgTypes = join(cwd, 'node_modules/@types/pg');
        if (pg) cpSync(join(ROOT, 'node_modules/@types/pg'), pgTypes, { recursive: true });
        else rmSync(pgTypes, { recursive: true, force: true });
        writeFileSync(join(cwd, 'package.json'), JSON.stringify({ type }));
        const compilerOptions = {
          ...{ module, ...bundler, target: 'ES2023', types: ['node'], noEmit: true },
          ...{ strict: true, skipLibCheck: false },
        };
        writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
        const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
        const { stdout } = spawnSync(process.execPath, [tsc, '-p', '.'], { cwd, encoding: 'utf8' });
        const errors = [...stdout.matchAll(/^(.*?)\(\d+,\d+\): error (TS\d+)/gm)];
        // A wrong type is found, and of `tx` what @types/pg knows.
        const wanted = pg ? ['TS2322', 'TS2339'] : ['TS2322'];
        expect(errors.map(([, file, code]) => `${file} ${code}`)).toEqual(
          wanted.map((code) => `worker.ts ${code}`),
        );
      }
    },
  );

  test('a job without a schema takes the type that it is given', () => {
    const plain = job<{ orderId: number }>('plain');
    expectTypeOf(plain.item).parameter(0).toEqualTypeOf<{ orderId: number }>();
    expect(plain.version).toBe(1);
  });
});
