/**
 * `startEmbedded`: from options to a server that answers, under one lock. A failure at any step leaves no server running
 * and no file of anyone else changed.
 */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { prepareBinaries } from './cluster/binaries.js';
import { isInitialised } from './cluster/cluster.js';
import { initialise } from './cluster/initialise.js';
import { EmbeddedPostgresError } from './errors.js';
import { checkOptions, type EmbeddedOptions } from './options.js';
import { serverAccount } from './server/account.js';
import { launch } from './server/launch.js';
import { settleLeftover } from './server/leftover.js';
import { withLock } from './server/lock.js';
import { adoptedServer, type EmbeddedServer, ownServer } from './server/server.js';
import { chooseSite, placeData, type Site } from './site.js';
import { readState } from './state.js';

// Longer than a first start takes on a slow, busy machine: the other one may just be doing that.
const lockMs = 180_000;

/**
 * Starts, or adopts, the Postgres of a folder. It stops at `stop()` or when this process ends.
 * @example
 * const server = await startEmbedded({ throwaway: true });
 * const local = holdfast({ connectionString: server.url });
 */
export async function startEmbedded(options: EmbeddedOptions = {}): Promise<EmbeddedServer> {
  checkOptions(options);
  let site: Site | undefined;
  try {
    const account = serverAccount();
    site = chooseSite(options, account, prepareBinaries(account, options.binariesDir));
    return await lockedStart(site);
  } catch (error) {
    if (site?.throwawayFolder) rmSync(site.throwawayFolder, { recursive: true, force: true });
    if (error instanceof EmbeddedPostgresError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new EmbeddedPostgresError(
      'start_failed',
      `An embedded PostgreSQL could not be started${site ? ` on ${site.wanted}` : ''}: ${reason}. ` +
        'No server was left running. Remove that obstacle, or set DATABASE_URL to a PostgreSQL ' +
        'server that you run yourself.',
      error,
    );
  }
}

async function lockedStart(site: Site): Promise<EmbeddedServer> {
  const { lockFile } = site;
  if (!lockFile) return startOn(site);
  const onWait = () =>
    site.progress('waiting for another process that starts or stops this server');
  return withLock(lockFile, { waitMs: lockMs, onWait }, () => startOn(site));
}

async function startOn(site: Site): Promise<EmbeddedServer> {
  let state = readState(site.stateFile);
  const place = placeData(site, state);
  const { dataDir } = place;
  const initialised = isInitialised(site, place, state);
  const adopted = await settleLeftover(site, dataDir, state);
  if (adopted) {
    site.progress(`using the PostgreSQL ${adopted.version} that already runs on ${dataDir}`);
    return adoptedServer(dataDir, adopted);
  }
  if (!state || !initialised) {
    site.progress(`initialising a database cluster in ${dataDir}`);
    state = await initialise(site, place, randomBytes(24).toString('hex'));
  }
  const running = await launch(site, { dataDir, state, samePort: false });
  return ownServer(site, dataDir, { ...state, port: running.port }, running);
}
