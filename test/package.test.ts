/** The package as users see it: its entry points, their types, and nothing that it should not bring along. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import { type HandlerContext, type Holdfast, job } from '../src/index.js';
import { VERSION } from '../src/job/version.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const manifest = JSON.parse(readFileSync(`${ROOT}/package.json`, 'utf8'));

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
    ['holdfast/metrics', ['metricsHandler', 'metricsFetch', 'collectMetrics', 'CATALOGUE']],
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

  test('packs the compiled product with its types, without tests, sources and local data', () => {
    const packed = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    const files: string[] = JSON.parse(packed.stdout)[0].files.map(
      (file: { path: string }) => file.path,
    );
    for (const { types, default: code } of Object.values<{ types?: string; default?: string }>(
      manifest.exports,
    )) {
      for (const path of [types, code]) if (path) expect(files).toContain(path.replace('./', ''));
    }
    expect(files).toContain('dist/cli/main.js');
    expect(files).toContain('dist/worker/lease/keeper-thread.js');
    expect(files.filter((path) => /\.test\.|^src\/|^test\/|\.holdfast/.test(path))).toEqual([]);
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
