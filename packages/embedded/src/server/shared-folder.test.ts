/**
 * These tests hand folders to another user, as an attacker would have made them: they need root.
 */
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { serverAccount } from './account.js';
import { claimHome, copyBinaries } from './shared-folder.js';

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn('SKIPPED: the safety of folders under /var/tmp. Run as root to test it.');

let folder: string;
const made: string[] = [];
beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), 'holdfast-shared-'));
  made.push(folder);
});
afterEach(() => {
  for (const path of made.splice(0)) fs.rmSync(path, { recursive: true, force: true });
});

describe.skipIf(!isRoot)('what root puts into a folder of everyone', () => {
  test('binaries are executed only from a copy that none but root can have made', () => {
    fs.mkdirSync(join(folder, 'bin'), { mode: 0o700 });
    fs.writeFileSync(join(folder, 'bin', 'postgres'), `not really ${folder}`, { mode: 0o700 });
    const copy = copyBinaries(folder, '0.0');
    made.push(copy);
    expect(fs.statSync(copy)).toMatchObject({ uid: 0, mode: 0o40755 });
    expect(fs.statSync(join(copy, 'bin', 'postgres'))).toMatchObject({ uid: 0, mode: 0o100755 });
    expect(copyBinaries(folder, '0.0')).toBe(copy);

    fs.chmodSync(copy, 0o777);
    expect(() => copyBinaries(folder, '0.0')).toThrow(/left alone and nothing was started/);
    fs.chmodSync(copy, 0o755);
    fs.chownSync(copy, serverAccount().uid, 0);
    expect(() => copyBinaries(folder, '0.0')).toThrow(/left alone and nothing was started/);
    fs.rmSync(copy, { recursive: true });
    fs.symlinkSync(folder, copy);
    expect(() => copyBinaries(folder, '0.0')).toThrow(/left alone and nothing was started/);
  });

  test('data goes only into a folder of the server’s own account', () => {
    const account = serverAccount();
    const home = join(folder, 'home');
    claimHome(home, account);
    claimHome(home, account);
    expect(fs.statSync(home)).toMatchObject({ uid: account.uid, mode: 0o40700 });

    fs.chownSync(home, 12345, 0);
    expect(() => claimHome(home, account)).toThrow(/left alone/);
    fs.rmdirSync(home);
    fs.symlinkSync('/etc', home);
    expect(() => claimHome(home, account)).toThrow(/left alone/);
    expect(fs.statSync('/etc').uid).toBe(0);
  });
});
