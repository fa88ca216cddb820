/** `holdfast init --template`: what it writes, and when it writes nothing. `npm run test:starters` installs and runs it. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  packageName,
  TEMPLATES,
  templateFiles,
} from '../../packages/holdfast/src/cli/commands/setup/template.js';
import { VERSION } from '../../packages/holdfast/src/job/options/version.js';
import { call } from '../support/cli-run.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

function empty(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-init-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const filesOf = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

describe.each(TEMPLATES)('the template %s', (name) => {
  const files = templateFiles(name, 'my-shop');
  const textOf = (path: string) => files.find((file) => file.path === path)?.text ?? '';

  test('is written as it is, and says what comes next', async () => {
    const folder = join(empty(), 'My Shop');
    const { code, out, err } = await call(['init', folder, '--template', name]);
    expect([code, out.trim().split('\n').sort()]).toEqual([0, filesOf(folder)]);
    expect(err).toContain(`Next: cd '${folder}', npm install, npm run dev`);
    expect(filesOf(folder)).toEqual(expect.arrayContaining(['.gitignore', 'README.md']));
    for (const { path, text } of files) expect(readFileSync(join(folder, path), 'utf8')).toBe(text);
  });

  test('overwrites nothing: it names what is there and writes nothing', async () => {
    const folder = empty();
    mkdirSync(join(folder, 'src'));
    for (const path of ['package.json', 'src/dev.ts']) writeFileSync(join(folder, path), 'mine');
    const { code, err } = await call(['init', folder, '--template', name]);
    expect(code).toBe(1);
    expect(err).toContain('package.json and src/dev.ts exist already; nothing was written.');
    expect(filesOf(folder)).toEqual(['package.json', 'src/dev.ts']);
  });

  test('has our packages in this version, others as they are tried here, and stays small', () => {
    const read = (path: string) => JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
    const { dependencies, devDependencies, engines, ...own } = JSON.parse(textOf('package.json'));
    expect(own.name).toBe('my-shop');
    expect(engines).toEqual(read('package.json').engines);
    const wanted: Record<string, string> = { ...dependencies, ...devDependencies };
    const ours = Object.keys(wanted).filter((one) => /^(@holdfast\/|holdfast$)/.test(one));
    expect(ours.map((one) => [one, wanted[one]])).toEqual(ours.map((one) => [one, VERSION]));
    expect(ours.length).toBeGreaterThan(3);
    const here = read('package.json').devDependencies;
    const both = Object.keys(wanted).filter((one) => one in here && one !== 'typescript');
    expect(both.map((one) => [one, wanted[one]?.replace(/^\^/, '')])).toEqual(
      both.map((one) => [one, here[one].replace(/^\^/, '')]),
    );
    expect(files.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThan(17_000);
    expect(textOf('README.md').split('\n').length).toBeLessThan(35);
  });

  test('names only files that it has', () => {
    const named = files.flatMap(({ path, text }) =>
      [...text.matchAll(/from '\.\/([\w.-]+\.ts)'/g)].map(
        ([, to]) => `${path.slice(0, path.lastIndexOf('/'))}/${to}`,
      ),
    );
    const paths = files.map(({ path }) => path);
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter((path) => !paths.includes(path))).toEqual([]);
  });
});

test.each([
  ['/srv/My Shop', 'my-shop'],
  ['/srv/._Örders (2)', 'rders-2'],
  ['/srv/日本', 'app'],
  ['/', 'app'],
  ['/srv/hono', 'hono-app'],
  ['/srv/shop.v2', 'shop.v2'],
])('the package in %s is called %s', (folder, name) => {
  expect(packageName(folder)).toBe(name);
});

test('the templates are parsed, linted and formatted as the rest is', () => {
  const biome = join(ROOT, 'node_modules/.bin/biome');
  const args = ['check', 'packages/holdfast/templates'];
  const { status, stderr } = spawnSync(biome, args, { cwd: ROOT, encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, expect.not.stringMatching(/warning/)]);
});

test('a template that does not exist is refused, with the one that was meant', async () => {
  const folder = empty();
  const wrong = await call(['init', folder, '--template', 'fastify-drizle']);
  expect(wrong.code).toBe(2);
  expect(wrong.err).toContain(
    'There is no template "fastify-drizle". Did you mean "fastify-drizzle"? The templates are fastify-drizzle,',
  );
  const both = await call(['init', folder, '--template', 'nest', '--js']);
  expect([both.code, both.err]).toEqual([2, expect.stringContaining('a template is TypeScript')]);
  expect(readdirSync(folder)).toEqual([]);
});
