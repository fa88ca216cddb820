/**
 * What a caller holds: a running server, and the ways to stop and restart it. Its own server dies with this process. An
 * adopted one belongs to another process, or to an earlier call in this one: it is never stopped or restarted from here.
 * Calls of stop and restart on one server take turns.
 */
import { rmSync } from 'node:fs';
import { serverUrl } from '../connect.js';
import { EmbeddedPostgresError } from '../errors.js';
import type { Site } from '../site.js';
import { readState, type State } from '../state.js';
import { launch, type Running } from './launch.js';
import { type Adopted, stopPostmaster } from './leftover.js';
import { withLock } from './lock.js';
import { isAlive, isPostmasterOf } from './processes.js';

/** A running Postgres. It stops with the process that started it. */
export interface EmbeddedServer extends AsyncDisposable {
  /** A URL of the superuser, with its password. */
  readonly url: string;
  readonly port: number;
  readonly dataDir: string;
  /** The process id of the server's main process. A restart changes it. */
  readonly pid: number;
  /** Such as `18.4`. */
  readonly version: string;
  /** Another live process, or another call in this one, runs this server. */
  readonly adopted: boolean;
  /** Shuts the server down, ending its connections. Does nothing to an adopted one. */
  stop(): Promise<void>;
  /** Stops and starts it on the same port with the same data; `immediate` is a crash on purpose. */
  restart(mode?: 'fast' | 'immediate'): Promise<void>;
}

const lockMs = 60_000;

export function adoptedServer(dataDir: string, adopted: Adopted): EmbeddedServer {
  const { password, ...facts } = adopted;
  const stop = async () => {};
  return {
    ...{ ...facts, dataDir, adopted: true, stop },
    url: serverUrl(password, adopted.port),
    async restart() {
      throw new EmbeddedPostgresError(
        'adopted',
        `The PostgreSQL server of ${dataDir} is run by another process. It was not restarted. ` +
          'Restart it there, or start a server of your own with another dataDir.',
      );
    },
    [Symbol.asyncDispose]: stop,
  };
}

export function ownServer(
  site: Site,
  dataDir: string,
  state: State,
  first: Running,
): EmbeddedServer {
  const { port, version } = first;
  let running = first;
  let stopped: Promise<void> | undefined;
  let lastTurn: Promise<unknown> = Promise.resolve();
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const turn = lastTurn.then(work);
    lastTurn = turn.catch(() => {});
    return turn;
  };
  const stop = (): Promise<void> => {
    stopped ??= inTurn(() => stopOwn(site, dataDir, running)).catch((error) => {
      stopped = undefined;
      throw error;
    });
    return stopped;
  };
  return {
    url: serverUrl(state.password, port),
    port,
    dataDir,
    version,
    adopted: false,
    get pid() {
      return running.pid;
    },
    stop,
    async restart(mode = 'fast') {
      if (stopped)
        throw new EmbeddedPostgresError(
          'stopped',
          `The PostgreSQL server of ${dataDir} was stopped by stop(). It was not restarted. ` +
            'Call startEmbedded again.',
        );
      await inTurn(() =>
        locked(site, async () => {
          await endOwn(dataDir, running, mode);
          refuseIfTaken(site, dataDir);
          running = await launch(site, { dataDir, state: { ...state, port }, samePort: true });
        }),
      );
    },
    [Symbol.asyncDispose]: stop,
  };
}

async function stopOwn(site: Site, dataDir: string, running: Running): Promise<void> {
  // With the lock, a process that starts meanwhile waits instead of adopting a server that goes
  // away. Without it, because its folder was deleted, say, the server must still be stopped.
  await locked(site, () => endOwn(dataDir, running)).catch(() => endOwn(dataDir, running));
  if (site.throwawayFolder) rmSync(site.throwawayFolder, { recursive: true, force: true });
}

/** Ends our server, by its supervisor or, should that one have been killed, directly. */
async function endOwn(dataDir: string, running: Running, mode?: 'fast' | 'immediate') {
  await running.supervised.end(mode);
  if (isPostmasterOf(running.pid, dataDir)) {
    await stopPostmaster(running.pid, dataDir, mode ?? 'fast');
  }
}

function refuseIfTaken(site: Site, dataDir: string): void {
  const holder = readState(site.stateFile);
  if (!isAlive(holder?.supervisor)) return;
  throw new EmbeddedPostgresError(
    'adopted',
    `The PostgreSQL server of ${dataDir} had ended, and another process (pid ` +
      `${holder?.owner?.pid}) has started it since. It was not restarted. Start again to adopt it.`,
  );
}

function locked<T>(site: Site, work: () => Promise<T>): Promise<T> {
  return site.lockFile ? withLock(site.lockFile, { waitMs: lockMs }, work) : work();
}
