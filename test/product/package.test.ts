/** The package as users see it: its entry points, their types, and nothing that it should not bring along. */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path/posix';
import { fileURLToPath } from 'node:url';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { afterAll, beforeAll, describe, expect, expectTypeOf, onTestFinished, test } from 'vitest';
import * as z from 'zod';
import { type HandlerContext, type Holdfast, job } from '../../packages/holdfast/src/index.js';
import { VERSION } from '../../packages/holdfast/src/job/options/version.js';
import { checkSameVersion } from '../../packages/holdfast/src/same-version.js';
import { long } from '../support/long.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const require = createRequire(import.meta.url);
const TOP = ['package.json', 'README.md', 'LICENSE', 'jest-preset.cjs'];
/** What `holdfast init --template` writes. */
const OF_INIT = /^templates\/(shared|fastify-drizzle|hono-kysely|next-prisma|nest)\//;
/** By name, the folder of each package that is published. */
const PACKAGES = {
  holdfast: 'packages/holdfast',
  '@holdfast/testing': 'packages/testing',
  '@holdfast/embedded': 'packages/embedded',
  '@holdfast/dashboard': 'packages/dashboard',
  '@holdfast/nest': 'packages/nest',
};
type Name = keyof typeof PACKAGES;
const NAMES = Object.keys(PACKAGES) as Name[];
const folderOf = (name: string) => join(ROOT, PACKAGES[name as Name]);
const manifestOf = (name: string) =>
  JSON.parse(readFileSync(join(folderOf(name), 'package.json'), 'utf8'));
const manifest = manifestOf('holdfast');
/** Of an entry's name, the package and the key in its exports. */
const placeOf = (entry: string) => {
  const name = NAMES.filter((one) => entry.startsWith(one)).at(-1) as Name;
  return { name, key: `.${entry.slice(name.length)}` };
};

interface Packed {
  readonly files: readonly string[];
  /** In bytes, packed and unpacked. */
  readonly size: number;
  readonly unpackedSize: number;
  readonly tarball: Uint8Array<ArrayBuffer>;
}

/** The packages as npm packs them; packed once. */
const packed = new Map<string, Packed>();
beforeAll(() => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-pack-'));
  const which = NAMES.flatMap((name) => ['-w', name]);
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder, ...which];
  const { stdout } = spawnSync('npm', args, { cwd: ROOT, encoding: 'utf8' });
  for (const { name, files, filename, size, unpackedSize } of JSON.parse(stdout)) {
    const tarball = new Uint8Array(readFileSync(join(folder, filename)));
    const paths = files.map(({ path }: { path: string }) => path);
    packed.set(name, { files: paths, size, unpackedSize, tarball });
  }
  rmSync(folder, { recursive: true, force: true });
});

/** The packages that npm installs with this one, by the manifests in node_modules. */
function dependenciesOf(name: string, found = new Set<string>()): Set<string> {
  const path = name in PACKAGES ? folderOf(name) : join(ROOT, 'node_modules', name);
  const { dependencies = {} } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  for (const one of Object.keys(dependencies)) {
    if (found.has(one)) continue;
    found.add(one);
    dependenciesOf(one, found);
  }
  return found;
}

/** The files of a folder, by their paths from it. */
function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(relative(folder, parentPath), name));
}

describe('the packages', () => {
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
    ['@holdfast/nest', ['HoldfastModule', 'InjectHoldfast', 'HOLDFAST', 'Handle', 'HandleMany']],
    ['holdfast/config', ['defineConfig']],
    ['holdfast/projections', ['eventLog', 'project', 'projection', 'projections']],
    ['holdfast/outbox', ['outbox', 'relay', 'headersOf', 'Unavailable']],
    ['holdfast/outbox/http', ['httpSink']],
    ['holdfast/outbox/nats', ['natsSink']],
    ['holdfast/outbox/redis', ['redisSink']],
    ['holdfast/outbox/rabbitmq', ['rabbitSink']],
    ['holdfast/outbox/kafka', ['kafkaSink']],
    [
      'holdfast/metrics',
      [
        ...['metricsHandler', 'metricsFetch', 'collectMetrics', 'CATALOGUE'],
        ...['registerMetrics', 'meterMetrics'],
      ],
    ],
    ['holdfast/receive', ['receive', 'Refused', 'github', 'slack', 'standardWebhooks', 'stripe']],
    ['holdfast/webhooks', ['webhooks']],
    [
      '@holdfast/testing',
      [
        ...['makeTemplate', 'cloneDatabase', 'startPglite', 'useHoldfast', 'testJob', 'drain'],
        ...['expectEnqueued', 'expectNotEnqueued', 'allEnqueued', 'makeJob', 'advance'],
        ...['clearJobs', 'survivesFaults', 'testWorkflow', 'replayHistory'],
      ],
    ],
  ])('%s exports its names and no default', async (entry, names) => {
    const { name, key } = placeOf(entry);
    const { default: of } = manifestOf(name).exports[key];
    const module = await import(join(folderOf(name), of.default));
    expect(Object.keys(module)).toEqual(expect.arrayContaining(names));
    expect(module).not.toHaveProperty('default');
    // The same by require, where Node loads ES modules with it.
    expect(Object.keys(require(entry)).sort()).toEqual(Object.keys(module).sort());
  });

  test('is one copy in a process whose files are partly CommonJS, where Node loads ES modules with require', () => {
    const code = `import { createRequire } from 'node:module';
      const { DeadLetter } = createRequire(process.cwd() + '/x.js')('holdfast');
      console.log(DeadLetter === (await import('holdfast')).DeadLetter);`;
    const args = ['--input-type=module', '--eval', code];
    const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' });
    expect({ stdout, stderr }).toEqual({ stdout: 'true\n', stderr: '' });
  });

  test.each(NAMES)('%s knows its own version, and all have one', async (name) => {
    const file = name === 'holdfast' ? 'src/job/options/version.ts' : 'src/version.ts';
    const { VERSION } = await import(join(folderOf(name), file));
    expect([VERSION, manifestOf(name).version]).toEqual([manifest.version, manifest.version]);
    const { peerDependencies = {} } = manifestOf(name);
    if (name !== 'holdfast') expect(peerDependencies.holdfast).toBe(manifest.version);
  });

  test('beside another version of holdfast a package says so, and is not loaded', () => {
    expect(() => checkSameVersion('@holdfast/testing', '9.9.9')).toThrow(
      /@holdfast\/testing is version 9\.9\.9 and holdfast is version .*npm install holdfast@9\.9\.9/,
    );
    const cwd = mkdtempSync(join(tmpdir(), 'holdfast-versions-'));
    onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
    const modules = join(cwd, 'node_modules');
    for (const name of ['holdfast', '@holdfast/embedded'])
      cpSync(join(folderOf(name), 'dist'), join(modules, name, 'dist'), { recursive: true });
    for (const name of ['holdfast', '@holdfast/embedded'])
      cpSync(join(folderOf(name), 'package.json'), join(modules, name, 'package.json'));
    for (const name of Object.keys(manifest.dependencies))
      symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
    const version = join(modules, '@holdfast/embedded/dist/version.js');
    writeFileSync(version, readFileSync(version, 'utf8').replace(`'${VERSION}'`, "'9.9.9'"));
    const args = ['--input-type=module', '--eval', "await import('@holdfast/embedded')"];
    const { status, stderr } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8' });
    expect(stderr).toMatch(/VERSION_MISMATCH/);
    expect(status).toBe(1);
  });

  test('the Jest preset says so too: its core would not be what the application runs', () => {
    const cwd = mkdtempSync(join(tmpdir(), 'holdfast-preset-'));
    onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
    const kit = join(cwd, 'node_modules/@holdfast/testing');
    mkdirSync(kit, { recursive: true });
    for (const file of ['package.json', 'jest-preset.cjs'])
      cpSync(join(folderOf('@holdfast/testing'), file), join(kit, file));
    const core = join(cwd, 'node_modules/holdfast/package.json');
    mkdirSync(dirname(core));
    const preset = () => {
      const path = require.resolve(join(kit, 'jest-preset.cjs'));
      delete require.cache[path];
      return require(path);
    };
    writeFileSync(core, JSON.stringify({ version: '9.9.9' }));
    expect(preset).toThrow(
      /@holdfast\/testing is version .* and holdfast is version 9\.9\.9.*npm install holdfast@/,
    );
    writeFileSync(core, JSON.stringify({ version: VERSION }));
    expect(preset().moduleNameMapper).toHaveProperty('^holdfast$');
  });

  test('the core has few runtime dependencies', () => {
    expect(Object.keys(manifest.dependencies)).toEqual(['croner', 'pg']);
    expect(Object.keys(manifest.peerDependenciesMeta)).toEqual(
      Object.keys(manifest.peerDependencies),
    );
  });

  test('the core is small: packed, unpacked, and what a process loads of it', () => {
    const { size, unpackedSize } = packed.get('holdfast') as Packed;
    // 444 kB before workflows, 495 kB before the shapes, 589 kB before rights and stopped queues. Names and lines stay in the bundle, for stack traces.
    expect(size).toBeLessThanOrEqual(650_000);
    const croner = filesOf(join(ROOT, 'node_modules/croner'))
      .map((file) => statSync(join(ROOT, 'node_modules/croner', file)).size)
      .reduce((sum, bytes) => sum + bytes, 0);
    expect(unpackedSize + croner).toBeLessThanOrEqual(2_500_000);
  });

  test.each(NAMES)('%s names the files of every entry in one and the same way', (name) => {
    for (const [entry, conditions] of Object.entries<object>(manifestOf(name).exports)) {
      if (/internal|package\.json|preset/.test(entry)) continue;
      const { default: esm } = conditions as Record<string, Record<string, string>>;
      const cjs = esm!.default!.replace('./dist/', './dist/cjs/');
      const common = { types: cjs.replace(/\.js$/, '.d.ts'), default: cjs };
      expect(conditions, entry).toEqual({ 'module-sync': esm, require: common, default: esm });
    }
  });

  test.each(NAMES)('%s has no problem that publint knows', async (name) => {
    const { tarball } = packed.get(name) as Packed;
    const { messages } = await publint({ pack: { tarball: tarball.buffer } });
    expect(messages).toEqual([]);
  });

  // It compiles every entry in every way: ten seconds of a processor for each package.
  test.each(long([], NAMES))('%s has no problem that arethetypeswrong knows', async (name) => {
    const { tarball } = packed.get(name) as Packed;
    const entrypoints = Object.keys(manifestOf(name).exports).filter(
      (key) => !/internal|preset|\.json$/.test(key),
    );
    const analysis = await checkPackage(createPackageFromTarballData(tarball), { entrypoints });
    expect(analysis).toMatchObject({ problems: [], entrypoints: { '.': expect.anything() } });
  });

  describe.each(NAMES)('%s, as npm packs it,', (name) => {
    test('has every entry point with its types, and the command', () => {
      const { exports, bin } = manifestOf(name);
      const { files } = packed.get(name) as Packed;
      const named = [...JSON.stringify(exports).matchAll(/"\.\/(dist\/[^"]+)"/g)];
      expect(named.length).toBeGreaterThan(3);
      expect(files).toEqual(expect.arrayContaining(named.map(([, path]) => path)));
      if (bin) expect(files).toContain(bin.holdfast.replace('./', ''));
    });

    test('has no file that nobody asked for, and every file that its modules import', () => {
      const { files } = packed.get(name) as Packed;
      expect(
        files.filter((path) => !/^dist\//.test(path) && !TOP.includes(path) && !OF_INIT.test(path)),
      ).toEqual([]);
      expect(files.filter((path) => /^dist.*\.(test\.|map$|tsbuildinfo)/.test(path))).toEqual([]);
      const code = files.filter((path) => /\.(js|d\.ts)$/.test(path));
      const missing = code.flatMap((path) => {
        const text = readFileSync(join(folderOf(name), path), 'utf8');
        return [...text.matchAll(/^(?:import|export)[^'"]*['"](\.{1,2}\/[^'"$]+)['"]/gm)]
          .map(([, to]) => join(dirname(path), to as string))
          .map((to) => (path.endsWith('.d.ts') ? to.replace(/\.js$/, '.d.ts') : to))
          .filter((to) => !files.includes(to))
          .map((to) => `${path} → ${to}`);
      });
      expect(missing).toEqual([]);
    });

    test('has a page without links to files that it lacks', () => {
      const page = readFileSync(join(folderOf(name), 'README.md'), 'utf8');
      expect([...page.matchAll(/\]\(([^)#\s]+)/g)].map(([, to]) => to)).toEqual([]);
    });
  });

  test.each([
    ['holdfast', 'index', 'shardedKey'],
    ['holdfast', 'adapters', 'fromPg'],
    ['@holdfast/embedded', 'index', 'startEmbedded'],
    ['@holdfast/testing', 'index', 'testJob'],
    ['@holdfast/dashboard', 'index', 'nodeHandler'],
  ])('%s says in %s what %s is, also to those who say require', (name, entry, value) => {
    const dist = join(folderOf(name), 'dist');
    const comment = new RegExp(
      `(/\\*\\*(?:(?!\\*/)[\\s\\S])*\\*/)\\nexport declare (?:const|function) ${value}\\b`,
    );
    const docs = filesOf(dist)
      .filter((file) => /\.d\.ts$/.test(file) && !file.startsWith('cjs/'))
      .map((file) => comment.exec(readFileSync(join(dist, file), 'utf8'))?.[1])
      .find((found) => found !== undefined);
    const said = comment.exec(readFileSync(join(dist, 'cjs', `${entry}.d.ts`), 'utf8'))?.[1];
    expect([typeof said, said]).toEqual(['string', docs]);
  });

  test('the core is installed and runs with nothing else, and asks for a package that it lacks', () => {
    const cwd = mkdtempSync(join(tmpdir(), 'holdfast-alone-'));
    onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
    const own = join(cwd, 'node_modules/holdfast');
    mkdirSync(own, { recursive: true });
    writeFileSync(join(cwd, 'core.tgz'), (packed.get('holdfast') as Packed).tarball);
    spawnSync('tar', ['-xzf', 'core.tgz', '--strip-components=1', '-C', own], { cwd });
    // What npm would install beside it, and nothing else of this checkout.
    for (const one of dependenciesOf('holdfast'))
      cpSync(join(ROOT, 'node_modules', one), join(cwd, 'node_modules', one), { recursive: true });
    const cli = (...args: string[]) =>
      spawnSync(process.execPath, [join(own, manifest.bin.holdfast), ...args], {
        ...{
          cwd,
          encoding: 'utf8',
          env: { ...process.env, DATABASE_URL: 'postgres://localhost:1/x' },
        },
      });
    expect(cli('--version')).toMatchObject({ status: 0, stdout: `${manifest.version}\n` });
    const code = "const { holdfast } = await import('holdfast'); console.log(typeof holdfast);";
    const args = ['--input-type=module', '--eval', code];
    const { stdout } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8' });
    expect(stdout).toBe('function\n');
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
    for (const name of NAMES) {
      cpSync(join(folderOf(name), 'dist'), join(modules, name, 'dist'), {
        recursive: true,
        filter: (path) => !/\.js$/.test(path),
      });
      cpSync(join(folderOf(name), 'package.json'), join(modules, name, 'package.json'));
    }
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
