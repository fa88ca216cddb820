/** The package as users see it: its entry points, their types, and nothing that it should not bring along. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path/posix';
import { fileURLToPath } from 'node:url';
import { describe, expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import { type HandlerContext, type Holdfast, job } from '../src/index.js';
import { VERSION } from '../src/job/version.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const manifest = JSON.parse(readFileSync(`${ROOT}/package.json`, 'utf8'));

function packedFiles(): string[] {
  const packed = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return JSON.parse(packed.stdout)[0].files.map((file: { path: string }) => file.path);
}

/** The files of a folder, by their paths from the root. */
function filesOf(folder: string): string[] {
  return readdirSync(`${ROOT}/${folder}`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(relative(ROOT, parentPath), name));
}

/** What may stand in the folders that are packed as they are. */
const PLAIN = /^(docs\/.+\.(md|svg|json|yml|sql)|examples\/.+\.(md|mjs|csv))$/;
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
        'GiveUp',
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
    ['holdfast/embedded', ['startEmbedded']],
    ['holdfast/config', ['defineConfig']],
    [
      'holdfast/metrics',
      [
        ...['metricsHandler', 'metricsFetch', 'collectMetrics', 'CATALOGUE'],
        ...['registerMetrics', 'meterMetrics'],
      ],
    ],
    [
      'holdfast/testing',
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
  });

  test('knows its own version', () => {
    expect(VERSION).toBe(manifest.version);
  });

  test('has pg as its only runtime dependency', () => {
    expect(Object.keys(manifest.dependencies)).toEqual(['pg']);
  });

  describe('as npm packs it', () => {
    const files = packedFiles();

    test('has every entry point with its types, and the command', () => {
      const wanted = Object.values<{ types?: string; default?: string }>(manifest.exports)
        .flatMap(({ types, default: code }) => [types, code])
        .flatMap((path) => path?.replace('./', '') ?? []);
      expect(files).toEqual(expect.arrayContaining(wanted));
      expect(files).toContain(manifest.bin.holdfast.replace('./', ''));
      expect(files).toContain('dist/worker/lease/keeper-thread.js');
    });

    test('has no file that is not accounted for', () => {
      // A file of dist without its source is left from an earlier build: npm run build.
      const built = /^dist\/(.+?)(\.d\.ts|\.js|\.js\.map)$/;
      const known = [...TOP, 'LICENSE', 'schema.sql'];
      const strangers = files.filter((path) => {
        const source = built.exec(path)?.[1];
        if (source === undefined) return !known.includes(path) && !PLAIN.test(path);
        return !existsSync(`${ROOT}/src/${source}.ts`) || source.endsWith('.test');
      });
      expect(strangers).toEqual([]);
      const sources = filesOf('src').filter((path) => !path.endsWith('.test.ts'));
      const missing = sources.filter(
        (path) => !files.includes(path.replace(/^src/, 'dist').replace(/\.ts$/, '.js')),
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

  test('a job without a schema takes the type that it is given', () => {
    const plain = job<{ orderId: number }>('plain');
    expectTypeOf(plain.of).parameter(0).toEqualTypeOf<{ orderId: number }>();
    expect(plain.version).toBe(1);
  });
});
