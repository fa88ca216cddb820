import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { EmbeddedPostgresError } from '../errors.js';
import { findInstalled, recreateLinks } from './binaries.js';

function messageOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof EmbeddedPostgresError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return 'no error';
}

test('finds the installed package of this platform', () => {
  expect(fs.existsSync(join(findInstalled(), 'bin', 'postgres'))).toBe(true);
});

test('names a platform without binaries, and both ways out', () => {
  expect(messageOf(() => findInstalled('sunos', 'x64'))).toMatch(
    /^binaries_missing: .*sunos-x64.*Nothing was started.*npm install --save-dev @holdfast\/embedded.*DATABASE_URL/,
  );
  expect(messageOf(() => findInstalled('win32', 'x64'))).toMatch(
    /^unsupported_platform: .*win32-x64\. Nothing was started\. Set DATABASE_URL/,
  );
});

test('recreates the links that npm does not ship, and keeps those that are there', () => {
  const root = fs.mkdtempSync(join(tmpdir(), 'holdfast-links-'));
  onTestFinished(() => fs.rmSync(root, { recursive: true }));
  const lib = join(root, 'native', 'lib');
  fs.mkdirSync(join(lib, 'deep'), { recursive: true });
  fs.writeFileSync(join(lib, 'libpq.so.5.18'), 'library');
  fs.symlinkSync('libpq.so.5.18', join(lib, 'libpq.so.5'));
  const source = 'native/lib/libpq.so.5.18';
  const targets = ['native/lib/libpq.so', 'native/lib/libpq.so.5', 'native/lib/deep/libpq.so'];
  const list = JSON.stringify(targets.map((target) => ({ source, target })));
  fs.writeFileSync(join(root, 'native', 'pg-symlinks.json'), list);

  recreateLinks(join(root, 'native'));
  recreateLinks(join(root, 'native'));
  for (const target of targets) {
    expect(fs.readFileSync(join(root, target), 'utf8')).toBe('library');
  }
  // Relative, so that the folder can be copied and moved.
  expect(fs.readlinkSync(join(lib, 'deep', 'libpq.so'))).toBe('../libpq.so.5.18');
});
