/**
 * The test kit as a stranger uses it, from the built package: the examples of docs/testing.md run as printed
 * under node:test, a plain script needs no runner at all, and the README's code does what the README says.
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type HandlerContext, type Holdfast, job } from '../../packages/holdfast/src/index.js';
import { expectEnqueued, expectNotEnqueued, testJob } from '../../packages/testing/src/index.js';
import { documentationBlocks } from '../support/doc-blocks.js';
import { KITS, kitOn } from '../support/kits.js';
import { longTest } from '../support/long.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const blocks = documentationBlocks(ROOT);
/** As in vitest.config.ts. */
const QUICK_WASM = ['--liftoff-only'];

describe('from a project of its own', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'holdfast-testing-'));
    const modules = join(folder, 'node_modules');
    mkdirSync(modules);
    for (const name of readdirSync(join(ROOT, 'node_modules'))) {
      if (!name.startsWith('.')) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
    }
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function run(args: readonly string[]) {
    const env = { ...process.env, NODE_OPTIONS: '' };
    return spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' });
  }

  longTest(
    'the examples of the page pass under node:test',
    () => {
      const examples = blocks.filter(
        ({ page, info, code }) =>
          page === 'docs/testing.md' && info === 'ts' && !code.startsWith('// vitest.config.ts'),
      );
      const names = examples.map(({ code }) => /^\/\/ (\S+)\.test\.ts\n/.exec(code)?.[1]);
      expect(names).toEqual([
        ...['receipt', 'order', 'journey', 'faults', 'operator'],
        ...['drizzle', 'prisma', 'checkout', 'crashes', 'replay'],
      ]);
      const files = names.map((name) => `${name}.ts`);
      for (const [index, file] of files.entries()) {
        writeFileSync(join(folder, file), examples[index]?.code as string);
      }
      const client = join(folder, 'generated/prisma');
      cpSync(join(ROOT, 'test/support/prisma/client'), client, { recursive: true });
      const options = ['--target', 'ES2022', '--module', 'NodeNext', '--strict', '--skipLibCheck'];
      const types = ['--types', 'node', '--lib', 'ES2023,ESNext.Disposable'];
      const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
      const compiled = run([tsc, ...options, ...types, ...files]);
      expect(compiled.stdout).toBe('');
      // One process for all: a PGlite takes seconds to start.
      const all = names.map((name) => `import './${name}.js';`).join('\n');
      writeFileSync(join(folder, 'all.test.mjs'), all);
      const report = ['--test', '--test-reporter', 'tap'];
      const { stdout, stderr, status } = run([...QUICK_WASM, ...report, 'all.test.mjs']);
      expect(`${stderr}${stdout}`).toMatch(/# pass 14\n# fail 0/);
      expect(status).toBe(0);
    },
    180_000,
  );

  test('a plain script needs no runner, and ends by itself', { timeout: 120_000 }, () => {
    const script = `
import assert from 'node:assert/strict';
import { job } from 'holdfast';
import { expectEnqueued, testJob } from '@holdfast/testing';
const greet = job('greet');
const result = await testJob(greet, async ({ enqueue }) => void (await enqueue(greet, { again: true })), {});
assert.equal(result.outcome, 'completed');
await assert.rejects(expectEnqueued({ type: 'other' }), (error) => error.constructor === Error);
const waitedFor = process.getActiveResourcesInfo().filter((name) => name === 'Timeout');
console.log('done, with', waitedFor.length, 'timers');
`;
    writeFileSync(join(folder, 'plain.mjs'), script);
    const { stdout, stderr, status } = run([...QUICK_WASM, 'plain.mjs']);
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    // The PGlite that nobody closed has timers; the process does not wait for them.
    expect(stdout).toBe('done, with 0 timers\n');
  });

  test('without PGlite it says what to install', () => {
    // The package is a link to this checkout, where it is installed; so it is refused.
    const script = `
import Module from 'node:module';
const resolve = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) => {
  if (name === '@electric-sql/pglite') throw new Error('Cannot find module');
  return resolve.call(Module, name, ...rest);
};
const { job } = await import('holdfast');
const { testJob } = await import('@holdfast/testing');
await testJob(job('greet'), () => undefined, {}).catch((error) => console.log(error.message));
`;
    writeFileSync(join(folder, 'without.mjs'), script);
    expect(run(['without.mjs']).stdout).toMatch(/npm install --save-dev @electric-sql\/pglite/);
  });
});

test('nothing of the kit loads a test runner or asks for one', () => {
  const folder = join(ROOT, 'packages/testing/src');
  const files = readdirSync(folder, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'));
  expect(files.length).toBeGreaterThan(10);
  const packages = new Set<string>();
  for (const file of files) {
    const source = readFileSync(join(folder, file), 'utf8');
    for (const [, name] of source.matchAll(/from '([^.'][^']*)'/g)) packages.add(name as string);
    expect(source).not.toMatch(/\b(globalThis|describe|beforeEach|afterAll)\b/);
  }
  expect([...packages].filter((name) => !/^(node:|holdfast)/.test(name))).toEqual(['pg']);
  expect(packages).not.toContain('node:test');
});

describe('the README’s example', () => {
  const [, onServer] = KITS.find(([name]) => name === 'Postgres') as (typeof KITS)[number];
  const kit = kitOn(onServer, 'CREATE TABLE orders (id bigint PRIMARY KEY)');
  const readme = blocks.filter(
    ({ page, section }) => page === 'README.md' && section === 'Quick start',
  );
  const sendReceipt = job<{ orderId: number }>('send_receipt');

  test('its handler completes the job and prints the receipt', async () => {
    const code = /worker\.handle\(sendReceipt, (async [\s\S]*?\n\})\);/.exec(readme[0]?.code ?? '');
    const said = vi.spyOn(console, 'log').mockImplementation(() => undefined);
    const handler = new Function(`return ${code?.[1]}`)() as (
      ctx: HandlerContext<{ orderId: number }>,
    ) => Promise<void>;
    const options = { hf: kit.hf, partitionKey: 'order:9182' };
    const result = await testJob(sendReceipt, handler, { orderId: 9182 }, options);
    const lines = said.mock.calls.flat();
    said.mockRestore();
    expect(result.outcome).toBe('completed');
    expect(lines).toEqual(['receipt for order 9182 sent']);
  });

  test('its transaction enqueues the receipt with the order, and not before it commits', async () => {
    const [before, after] = (readme[1]?.code ?? '').split("await client.query('COMMIT');");
    expect(after).toBeDefined();
    const client = await kit.pool.connect();
    const AsyncFunction = (async () => undefined).constructor as new (
      ...args: string[]
    ) => (client: unknown, hf: Holdfast, sendReceipt: unknown) => Promise<void>;
    const match = { type: sendReceipt, partitionKey: 'order:9182', payload: { orderId: 9182 } };
    await new AsyncFunction('client', 'hf', 'sendReceipt', before as string)(
      client,
      kit.hf,
      sendReceipt,
    );
    await expectEnqueued(match, { hf: kit.hf, tx: client });
    await expectNotEnqueued(match, { hf: kit.hf });
    await client.query('COMMIT');
    client.release();
    await expectEnqueued(match, { hf: kit.hf });
  });
});
