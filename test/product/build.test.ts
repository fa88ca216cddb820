/** The scripts that build: one build at a time in a checkout, one version everywhere, and paths of any system. */
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../support/until.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const { packageFolder } = await import(join(ROOT, 'scripts/keeper-source.mjs'));
const { placesOf, setVersion } = await import(join(ROOT, 'scripts/set-version.mjs'));
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-build-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const BUILDER = `
  import { takeLock } from ${JSON.stringify(join(ROOT, 'scripts/build/lock.mjs'))};
  const release = takeLock(process.argv[1], (text) => console.log(text));
  console.log('builds');
  process.stdin.once('data', () => { release(); process.exit(); });`;

/** A process that builds, once it may, until it is told to end. */
function builder(lock: string) {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', BUILDER, lock]);
  onTestFinished(() => void child.kill('SIGKILL'));
  let seen = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    seen += text;
  });
  const says = (text: string) => until(`it says "${text}"`, () => seen.includes(text));
  return { child, says, seen: () => seen };
}

test('who builds while another does waits, says for whom, and goes on after it', async () => {
  const lock = join(temporary(), 'checkout/build.lock');
  const first = builder(lock);
  await first.says('builds\n');
  const second = builder(lock);
  await second.says(`process ${first.child.pid} installs or builds in this checkout; waiting`);
  expect(second.seen()).not.toContain('builds\n');
  first.child.stdin.write('end');
  await second.says('builds\n');
});

test('the lock of a process that is gone keeps nobody waiting, also where its number was given again', async () => {
  const lock = join(temporary(), 'build.lock');
  const killed = builder(lock);
  await killed.says('builds\n');
  killed.child.kill('SIGKILL');
  await new Promise((resolve) => killed.child.once('close', resolve));
  const next = builder(lock);
  await next.says('builds\n');
  next.child.stdin.write('end');
  await new Promise((resolve) => next.child.once('close', resolve));

  writeFileSync(lock, JSON.stringify({ pid: process.pid, start: 'at another time' }));
  const last = builder(lock);
  await last.says('builds\n');
  expect(last.seen()).toBe('builds\n');
});

test('the package of a module is found by its path on every system', () => {
  expect(packageFolder('/a/node_modules/pg/lib/index.js')).toBe('/a/node_modules/pg');
  const windows = 'C:\\a\\node_modules\\@preact\\signals\\dist\\signals.mjs';
  expect(packageFolder(windows)).toBe('C:\\a\\node_modules\\@preact\\signals');
  expect(packageFolder('/a/packages/holdfast/build/index.js')).toBeNull();
});

test('one command sets the version in every place that names it', () => {
  for (const { file, found } of placesOf(ROOT))
    expect({ file, found: [...new Set(found)] }).toEqual({ file, found: [version] });
  const copy = temporary();
  for (const { file } of placesOf(ROOT)) cpSync(join(ROOT, file), join(copy, file));
  setVersion(copy, '9.8.7');
  for (const { file, found } of placesOf(copy)) {
    expect({ file, found: [...new Set(found)] }).toEqual({ file, found: ['9.8.7'] });
    const lines = readFileSync(join(copy, file), 'utf8').split('\n').length;
    expect(lines).toBe(readFileSync(join(ROOT, file), 'utf8').split('\n').length);
  }
  expect(() => setVersion(copy, 'v1')).toThrow(/"v1" is no version/);
});
