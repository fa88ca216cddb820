/**
 * A worker that was bundled into one file, without node_modules beside it, keeps its leases like any other. Here
 * with the bundler that is installed; `npm run test:bundlers` tries the others.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { expect, onTestFinished, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { ground } from '../support/ground.js';
import { jobOf, keepsItsLease, PLAIN_WORKER, PlainWorker } from '../support/plain-worker.js';
import { until } from '../support/until.js';

const db = testDatabase();
const wait = job('wait');

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-bundle-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function bundled(format: 'esm' | 'cjs'): Promise<string[]> {
  const bundle = await rolldown({ input: PLAIN_WORKER, platform: 'node', logLevel: 'silent' });
  const file = join(newFolder(), format === 'esm' ? 'worker.mjs' : 'worker.cjs');
  await bundle.write({ file, format, codeSplitting: false });
  await bundle.close();
  return [file];
}

const imported = `await import(${JSON.stringify(PLAIN_WORKER)})`;

/** Each waits for renewals for seconds: all at once, each with a database of its own. */
test('as it is, where a text would be an ES module, and bundled into one file of either kind', async () => {
  const forms = {
    'as it is': [PLAIN_WORKER],
    'by a text that is an ES module': ['--input-type=module', '--eval', imported],
    'bundled as an ES module': await bundled('esm'),
    'bundled as CommonJS': await bundled('cjs'),
  };
  const seen = Object.entries(forms).map(async ([form, args]) => {
    const own = await ground();
    const worker = new PlainWorker(own.url, [process.execPath, ...args]);
    await keepsItsLease(own, worker).catch((cause) => {
      throw new Error(`${form}: ${cause.message}`, { cause });
    });
  });
  await Promise.all(seen);
});

/** A file that every thread loads before its program; the keeper's thread fails by it while `flag` is there. */
function breaking(flag: string): string[] {
  const file = join(newFolder(), 'breaking.cjs');
  writeFileSync(
    file,
    `const broken = require('node:fs').existsSync(${JSON.stringify(flag)});
     if (broken && !require('node:worker_threads').isMainThread) throw new Error('no thread today');`,
  );
  return ['--require', file];
}

test('where the thread cannot run, run() rejects with the reason and nothing is claimed', async () => {
  const { id } = await db.hf.enqueue(wait, {});
  const forbidden = ['--experimental-permission', '--allow-fs-read=*'];
  for (const [flags, reason] of [
    [forbidden, /restricted|permission/i],
    [breaking(PLAIN_WORKER), /no thread today/],
  ] as const) {
    const worker = new PlainWorker(db.url, [process.execPath, ...flags, PLAIN_WORKER]);
    const { code, message } = await worker.event('rejected');
    expect(code).toBe('KEEPER_FAILED');
    expect(message).toMatch(reason);
    expect(message).toMatch(/The worker was not started.*nothing was claimed/);
    expect(await worker.exited).toBe(0);
    expect(worker.events.map(({ kind }) => kind)).not.toContain('started');
  }
  expect(await jobOf(db, id)).toMatchObject({ status: 'pending', attempts: 0 });
  expect(await db.rows("SELECT id FROM holdfast.workers WHERE status <> 'dead'")).toEqual([]);
  await db.hf.cancel([id]);
});

test('while a thread that died cannot start again, nothing is claimed; then work goes on', async () => {
  const flag = join(newFolder(), 'broken');
  const worker = new PlainWorker(db.url, [process.execPath, ...breaking(flag), PLAIN_WORKER]);
  await worker.event('started');
  worker.say('finish');
  const first = await db.hf.enqueue(wait, {});
  await until('a job has run', async () => (await jobOf(db, first.id))?.status === 'completed');
  writeFileSync(flag, '');
  worker.say('kill-thread');
  const failures = () =>
    worker.events.filter(({ message }) => message === 'no thread today').length;
  await until('it could not start again', () => failures() > 0);
  const { id } = await db.hf.enqueue(wait, {});
  await until('it was tried several times', () => failures() > 3);
  expect(await jobOf(db, id)).toMatchObject({ status: 'pending', attempts: 0 });
  rmSync(flag);
  await until('the job has run', async () => (await jobOf(db, id))?.status === 'completed');
});
