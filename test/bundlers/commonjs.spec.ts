/** The package in projects that compile to CommonJS or are tested by Jest. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../support/database.js';

const TOOLS = fileURLToPath(new URL('../../.bundlers', import.meta.url));
const db = testDatabase();

/** A folder of a user who has installed the tools and the package, and nothing of this checkout. */
function project(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-commonjs-'));
  symlinkSync(join(TOOLS, 'node_modules'), join(folder, 'node_modules'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

function run(cwd: string, command: string, args: readonly string[]): string {
  const env = { ...process.env, DATABASE_URL: db.url, NODE_OPTIONS: '' };
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed: ${stdout}${stderr}`);
  return `${stdout}${stderr}`;
}

const RUN = `
async function runOnce(): Promise<string> {
  const hf = holdfast({ connectionString: process.env.DATABASE_URL as string });
  const receipt = job<{ orderId: number }>('send_receipt');
  const { id } = await hf.enqueue(receipt, { orderId: 9182 });
  const worker = hf.worker({ handleSignals: false });
  let done = () => {};
  const ended = new Promise<void>((resolve) => { done = resolve; });
  worker.handle(receipt, async ({ payload }) => {
    done();
    throw new DeadLetter('order ' + payload.orderId);
  });
  const running = worker.run();
  await ended;
  await worker.stop();
  await running;
  const row = await hf.job(id);
  await hf.close();
  return String(row?.status);
}
`;
const untyped = (text: string) =>
  text.replace(/: Promise<string>|<void>| as string|<\{ orderId: number \}>/g, '');

test('Jest loads it with require, and a worker runs in it', () => {
  const text = `const { holdfast, job, DeadLetter } = require('holdfast');
    const { fromPg } = require('holdfast/adapters');
    const { testJob } = require('@holdfast/testing');
    ${untyped(RUN)}
    test('a job', async () => {
      expect([typeof fromPg, typeof testJob]).toEqual(['function', 'function']);
      expect(await runOnce()).toBe('dead_letter');
    }, 30_000);`;
  const manifest = { type: 'commonjs', jest: { preset: '@holdfast/testing' } };
  const cwd = project({ 'package.json': JSON.stringify(manifest), 'job.test.js': text });
  expect(run(cwd, join(TOOLS, 'node_modules/.bin/jest'), [])).toMatch(/1 passed/);
});

test.each([
  ['commonjs', 'node10'],
  ['node16', 'node16'],
])(
  'TypeScript 5.9 with module %s and resolution %s compiles it without @types/pg, and it runs',
  (module, moduleResolution) => {
    const compilerOptions = {
      ...{ module, moduleResolution, target: 'ES2022', outDir: 'out', types: ['node'] },
      preserveSymlinks: true,
      ...{
        strict: true,
        skipLibCheck: false,
        esModuleInterop: module !== 'commonjs',
        lib: ['ES2023', 'ESNext'],
      },
    };
    const text = `import { DeadLetter, holdfast, job } from 'holdfast';
    import { fromPg } from 'holdfast/adapters';
    import { defineConfig } from 'holdfast/config';
    import { startEmbedded } from '@holdfast/embedded';
    import { metricsHandler } from 'holdfast/metrics';
    import { testJob } from '@holdfast/testing';
    ${RUN}
    export const used = [fromPg, defineConfig, startEmbedded, metricsHandler, testJob];
    void runOnce().then((status) => console.log(used.length, status));`;
    const cwd = project({
      'package.json': '{"type":"commonjs"}',
      'worker.ts': text,
      'tsconfig.json': JSON.stringify({ compilerOptions, files: ['worker.ts'] }),
    });
    run(cwd, process.execPath, [join(TOOLS, 'node_modules/typescript/bin/tsc'), '-p', '.']);
    const lines = run(cwd, process.execPath, ['out/worker.js']).split('\n');
    // The worker speaks too, in JSON.
    expect(lines.filter((line) => line && !line.startsWith('{'))).toEqual(['5 dead_letter']);
  },
);
