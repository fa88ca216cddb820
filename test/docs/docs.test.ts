/** What the documentation prints is true: code runs as printed, generated parts are current, links lead somewhere. */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transformWithOxc } from 'vite';
import { expect, onTestFinished, test } from 'vitest';
import { holdfast } from '../../packages/holdfast/src/index.js';
import { statesPart } from '../support/states-page.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const page = (name: string) => readFileSync(join(ROOT, name), 'utf8');

test('the diagram and the table in docs/states.md are those of the transition table', () => {
  const path = join(ROOT, 'docs/states.md');
  const [before, , after] = page('docs/states.md').split(/<!-- states:(?:begin|end) -->/);
  const wanted = `${before}<!-- states:begin -->\n${statesPart()}\n<!-- states:end -->${after}`;
  if (process.env.UPDATE_DOCS) writeFileSync(path, wanted);
  expect(page('docs/states.md')).toBe(wanted);
});

test('docs/schema.md names every table, type and function of the schema', () => {
  const made = page('packages/holdfast/schema.sql').matchAll(
    /^CREATE (?:OR REPLACE )?(?:TABLE|TYPE|FUNCTION) holdfast\.(\w+)/gm,
  );
  const names = [...made].map((match) => match[1] as string);
  expect(names).toContain('audit');
  const overview = page('docs/schema.md').split('\n## ')[0] as string;
  expect(names.filter((name) => !overview.includes(`\`${name}`))).toEqual([]);
});

test('docs/options.md names every member of holdfast()', () => {
  const members = Object.keys(holdfast({ connectionString: 'postgres://nobody@127.0.0.1:1/no' }));
  const listed = /## holdfast\(\)[\s\S]*?### /.exec(page('docs/options.md'))?.[0] ?? '';
  expect(members.filter((name) => !listed.includes(`\`${name}`))).toEqual([]);
});

test('the quick start of the README has under 15 lines of code and runs as printed', async () => {
  const code = /## Quick start\n[\s\S]*?```js\n([\s\S]*?)```/.exec(
    page('README.md'),
  )?.[1] as string;
  const lines = code.split('\n').filter((line) => line.trim() !== '');
  expect(lines.length).toBeLessThan(15);

  const child = startProgram(code);
  await child.says('receipt for order 9182 sent');
  const exited = child.exited;
  child.interrupt();
  expect(await exited).toBe(0);
});

test('the first example of docs/workflows.md runs as printed, without its types', async () => {
  const code = /## The first one\n[\s\S]*?```ts\n([\s\S]*?)```/.exec(
    page('docs/workflows.md'),
  )?.[1] as string;
  const child = startProgram((await transformWithOxc(code, 'first.ts')).code);
  await child.says('charge-9182, approved by kim');
  expect(await child.exited).toBe(0);
});

/** A program in a folder that sees the packages by their names. Its folder and its process end with the test. */
function startProgram(code: string) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-example-'));
  mkdirSync(join(folder, 'node_modules'));
  for (const name of ['holdfast', '@holdfast'])
    symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name));
  writeFileSync(join(folder, 'start.mjs'), code);
  const child = spawn(process.execPath, ['start.mjs'], { cwd: folder });
  const exited = new Promise<number | null>((done) => child.once('exit', done));
  onTestFinished(() => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    exited,
    interrupt: () => void child.kill('SIGINT'),
    says: (text: string) =>
      new Promise<void>((done, failed) => {
        let output = '';
        const hear = (chunk: Buffer) => {
          output += chunk.toString();
          if (output.includes(text)) done();
        };
        child.stdout.on('data', hear);
        child.stderr.on('data', hear);
        child.on('exit', (status) => failed(new Error(`exited with ${status}: ${output}`)));
      }),
  };
}

test('the unit for systemd has no comment behind a value: it would be a part of it', () => {
  const unit = /\[Unit\]\n[\s\S]*?```/.exec(page('docs/operating.md'))?.[0] ?? '';
  expect(unit).toContain('Restart=on-failure');
  expect(unit.split('\n').filter((line) => /^\w+=.*\s#/.test(line))).toEqual([]);
});
