/**
 * Where everything of one server lies. The data directory is where the caller wants it, or under /var/tmp if the server's
 * account cannot go there; the state, the log and the lock always lie beside the wanted place.
 */
import { chmodSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { Binaries } from './cluster/binaries.js';
import { EmbeddedPostgresError } from './errors.js';
import type { EmbeddedOptions } from './options.js';
import { type Account, canReach } from './server/account.js';
import { relocatedHome, throwawayHome } from './server/shared-folder.js';
import type { State } from './state.js';

export interface Site {
  account: Account;
  binaries: Binaries;
  /** Where the caller wants the data. */
  wanted: string;
  stateFile: string;
  logFile: string;
  /** A throwaway server needs no lock: nobody else knows its folder. */
  lockFile: string | undefined;
  throwawayFolder: string | undefined;
  settings: EmbeddedOptions['settings'];
  progress: (message: string) => void;
}

export interface DataPlace {
  dataDir: string;
  /** The folder made for it under /var/tmp, if it had to go there. */
  relocatedTo: string | undefined;
}

export function chooseSite(options: EmbeddedOptions, account: Account, binaries: Binaries): Site {
  const throwawayFolder = options.throwaway ? throwawayHome(account) : undefined;
  const wanted = throwawayFolder
    ? join(realpathSync(throwawayFolder), 'data')
    : makeRoomFor(resolve(options.dataDir ?? join('.holdfast', 'postgres')), account);
  return {
    account,
    binaries,
    wanted,
    stateFile: `${wanted}.state.json`,
    logFile: `${wanted}.log`,
    lockFile: throwawayFolder ? undefined : `${wanted}.lock`,
    throwawayFolder,
    settings: options.settings,
    progress: options.onProgress ?? (() => {}),
  };
}

/** Makes the folders above the data, and returns its path with all links resolved. */
function makeRoomFor(dataDir: string, account: Account): string {
  const parent = dirname(dataDir);
  const first = mkdirSync(parent, { recursive: true });
  if (first && account.steppedDown) {
    // A strict umask would shut the server's account out of the folders that we made ourselves.
    for (let made = parent; made.length >= first.length; made = dirname(made)) {
      chmodSync(made, 0o755);
    }
  }
  try {
    return realpathSync(dataDir);
  } catch {
    return join(realpathSync(parent), basename(dataDir));
  }
}

/** Where the data is, or will be. What was remembered goes before what would be chosen today. */
export function placeData(site: Site, state: State | undefined): DataPlace {
  const { account, wanted } = site;
  const relocatedTo =
    state?.relocatedTo ?? (state || canReach(account, wanted) ? undefined : relocatedHome(wanted));
  if (relocatedTo) return { dataDir: join(relocatedTo, 'data'), relocatedTo };
  if (canReach(account, wanted)) return { dataDir: wanted, relocatedTo };
  throw new EmbeddedPostgresError(
    'unreachable_folder',
    `The database in ${wanted} cannot be opened any more: PostgreSQL refuses to run as root, and ` +
      `user ${account.uid} may not pass through the folders above it. Nothing was started or ` +
      'changed. Let others pass through them (chmod o+x), or choose another dataDir.',
  );
}

/** Tells a reader of the project's folder where its data went, and why. */
export function leaveNote(site: Site, place: DataPlace): void {
  if (!place.relocatedTo) return;
  const text = `The database that Holdfast was asked to keep in

  ${site.wanted}

is in

  ${place.dataDir}

because it was started by root. PostgreSQL refuses to run as root, so it runs as another account
(user ${site.account.uid}), which may not enter this project's folder. Some systems delete files
under /var/tmp that were not used for a month: for data that must last, run as an ordinary user, or
let others pass through the folders above this one (chmod o+x) before the first start.

To remove the database, stop whatever uses it and delete ${place.relocatedTo} and ${site.stateFile}.
`;
  writeFileSync(`${site.wanted}.location.txt`, text);
}
