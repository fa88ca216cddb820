/**
 * What root does when the project lies in a folder that `nobody` cannot enter: binaries and data go to /var/tmp. That
 * folder is everyone's, so the binaries must lie in a folder that only root can write, and the data in a folder of the
 * server's account; anything else under these names is refused, never used and never deleted.
 */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { codeOf, EmbeddedPostgresError } from '../errors.js';
import { type Account, canUse } from './account.js';

/** Copies the binaries where everyone may execute them and only root may write, once per version. */
export function copyBinaries(from: string, version: string): string {
  const hash = shortHash(fs.readFileSync(join(from, 'bin', 'postgres')));
  const to = join(sharedRoot(), `holdfast-postgres-${version}-${hash}`);
  if (!fs.lstatSync(to, { throwIfNoEntry: false })) {
    const building = fs.mkdtempSync(`${to}.building-`);
    fs.cpSync(from, building, { recursive: true, verbatimSymlinks: true });
    openToAll(building);
    try {
      fs.renameSync(building, to);
    } catch (error) {
      fs.rmSync(building, { recursive: true, force: true });
      // Another process was faster: its copy is checked below like any other.
      if (codeOf(error) !== 'ENOTEMPTY' && codeOf(error) !== 'EEXIST') throw error;
    }
  }
  const found = fs.lstatSync(to);
  if (!found.isDirectory() || found.uid !== 0 || (found.mode & 0o022) !== 0) throw unsafe(to, 0);
  return to;
}

function openToAll(path: string): void {
  const stats = fs.lstatSync(path);
  if (stats.isSymbolicLink()) return;
  const executable = stats.isDirectory() || (stats.mode & 0o100) !== 0;
  fs.chmodSync(path, executable ? 0o755 : 0o644);
  if (stats.isDirectory()) for (const entry of fs.readdirSync(path)) openToAll(join(path, entry));
}

/** Where the data goes that was wanted in an unreachable folder: the same place at every start. */
export function relocatedHome(wanted: string): string {
  return join(sharedRoot(), `holdfast-data-${shortHash(wanted)}`);
}

/** Makes the folder for one server's data, open to the server's account alone. */
export function claimHome(home: string, account: Account): void {
  try {
    fs.mkdirSync(home, { mode: 0o700 });
    // Never through a link that somebody put there meanwhile.
    fs.lchownSync(home, account.uid, account.gid);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
  const found = fs.lstatSync(home);
  if (!found.isDirectory() || found.uid !== account.uid || (found.mode & 0o077) !== 0) {
    throw unsafe(home, account.uid);
  }
}

/** A new folder for a throwaway server, owned by its account so that its supervisor can delete it. */
export function throwawayHome(account: Account): string {
  const candidates = [tmpdir(), '/tmp', '/var/tmp'];
  const root = candidates.find((folder) => canUse(account, folder)) ?? tmpdir();
  const home = fs.mkdtempSync(join(root, 'holdfast-'));
  if (account.steppedDown) fs.lchownSync(home, account.uid, account.gid);
  return home;
}

function sharedRoot(): string {
  const root = ['/var/tmp', '/tmp'].find((folder) => {
    const stats = fs.statSync(folder, { throwIfNoEntry: false });
    const safe = stats?.uid === 0 && ((stats.mode & 0o1000) !== 0 || (stats.mode & 0o022) === 0);
    return safe && stats.isDirectory() && (stats.mode & 0o005) === 0o005;
  });
  if (root) return root;
  throw new EmbeddedPostgresError(
    'unreachable_folder',
    'This project lies in a folder that the account "nobody" cannot enter, and neither /var/tmp ' +
      'nor /tmp is a safe place for its database. Nothing was started. Run as an ordinary user, ' +
      'or let others pass through the folders above the project (chmod o+x).',
  );
}

function unsafe(path: string, uid: number): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'unsafe_folder',
    `${path} should be a folder of user ${uid} that nobody else can write, and it is not. ` +
      'It was left alone and nothing was started. Find out who made it, then delete it.',
  );
}

function shortHash(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex').slice(0, 16);
}
