/** The kept files of a PGlite: a cache that is whole, the user's own, or not there. */
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { PgliteFiles } from './files.js';

let root = '';
let folder = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-files-'));
  folder = join(root, 'cache');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const blob = (text: string) => new Blob([text]);
const files = (...sources: string[]) => new PgliteFiles(sources, folder);
const only = () => join(folder, readdirSync(folder)[0] as string);

test('what was written is read, by the same sources only, and by nobody else', async () => {
  expect(await files('1').read()).toBeNull();
  await files('1').write(blob('files'));
  expect(await (await files('1').read())?.text()).toBe('files');
  expect(await files('2').read()).toBeNull();
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(statSync(only()).mode & 0o777).toBe(0o600);
});

test('a file that is cut off or spoiled counts as none, and is replaced', async () => {
  await files('1').write(blob('files'));
  const whole = readFileSync(only());
  writeFileSync(only(), whole.subarray(0, -1));
  expect(await files('1').read()).toBeNull();
  whole.writeUInt8(whole.at(-1) === 0 ? 1 : 0, whole.length - 1);
  writeFileSync(only(), whole);
  expect(await files('1').read()).toBeNull();
  writeFileSync(only(), '');
  expect(await files('1').read()).toBeNull();
  await files('1').write(blob('again'));
  expect(await (await files('1').read())?.text()).toBe('again');
});

test('processes that write at once leave one whole file and no drafts', async () => {
  await Promise.all(Array.from({ length: 8 }, () => files('1').write(blob('files'))));
  expect(readdirSync(folder)).toHaveLength(1);
  expect(await (await files('1').read())?.text()).toBe('files');
});

test('a folder that others can write to is not trusted, and one that cannot be made is no error', async () => {
  await files('1').write(blob('files'));
  chmodSync(folder, 0o777);
  expect(await files('1').read()).toBeNull();
  await files('2').write(blob('files'));
  expect(readdirSync(folder)).toHaveLength(1);
  writeFileSync(join(root, 'file'), '');
  const nowhere = new PgliteFiles(['1'], join(root, 'file', 'cache'));
  await nowhere.write(blob('files'));
  expect(await nowhere.read()).toBeNull();
});

test('the eight that were used last are kept, and nothing else is touched', async () => {
  mkdirSync(folder, { mode: 0o700 });
  writeFileSync(join(folder, 'other.tar'), '');
  for (let n = 1; n <= 10; n++) await files(String(n)).write(blob('files'));
  expect(readdirSync(folder)).toHaveLength(9);
  expect(readdirSync(folder)).toContain('other.tar');
  expect(await files('10').read()).not.toBeNull();
});
