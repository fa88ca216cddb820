/**
 * Starts PostgreSQL on a prepared data directory and waits until a client can log in. What it returns is the server of
 * this data directory, and a server that it gives up on is stopped. It tries again, within limits, if another process
 * took the port first, or processes of a crashed server have not let go of its memory yet.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { readPostmasterFile } from '../cluster/cluster.js';
import { type Introduction, introduce, isPassing } from '../connect.js';
import { EmbeddedPostgresError } from '../errors.js';
import { settingArguments } from '../options.js';
import type { Site } from '../site.js';
import { type State, writeState } from '../state.js';
import { lastLines, logSize, openLog } from './log-file.js';
import { freePort } from './port.js';
import { identify, isPostmasterOf } from './processes.js';
import { type Supervised, supervise } from './supervisor.js';

export interface Running {
  supervised: Supervised;
  port: number;
  pid: number;
  version: string;
}

export interface Launch {
  dataDir: string;
  state: State;
  /** Clients know the port of a restarted server: wait for it rather than choose another one. */
  samePort: boolean;
}

const readyMs = 60_000;
const passingMs = 15_000;
const retryMs = 200;
const pollMs = 25;

/** What PostgreSQL says, in its untranslated words, when a failure passes by itself. */
const passingFailures = [
  /could not bind .*: Address already in use/,
  /pre-existing shared memory block .* is still in use/,
];

export async function launch(site: Site, { dataDir, state, samePort }: Launch): Promise<Running> {
  const giveUpAt = Date.now() + passingMs;
  for (let wish = state.port; ; ) {
    const port = samePort && wish !== undefined ? wish : await freePort(wish);
    site.progress(`starting PostgreSQL ${site.binaries.version} on 127.0.0.1:${port}`);
    const outcome = await attempt(site, dataDir, { ...state, port });
    if ('pid' in outcome) return outcome;
    const passes = passingFailures.some((pattern) => pattern.test(outcome.log));
    if (!passes || Date.now() > giveUpAt) throw failed(site, dataDir, outcome);
    if (!samePort) wish = undefined;
    await delay(retryMs);
  }
}

interface Failure {
  reason: string;
  log: string;
  cause?: unknown;
}

async function attempt(site: Site, dataDir: string, state: State): Promise<Running | Failure> {
  const { account, binaries, logFile, settings, stateFile, throwawayFolder } = site;
  const { password, port = 0 } = state;
  const log = openLog(logFile);
  const from = logSize(log);
  const command = [binaries.postgres, '-D', dataDir, ...settingArguments(settings, port)];
  const supervised = await supervise({ account, command, log, throwawayFolder });
  try {
    const owner = identify(process.pid);
    writeState(stateFile, { ...state, owner, supervisor: supervised.identity });
    const { pid, version } = await untilReady(supervised, dataDir, password, port);
    return { supervised, port, pid, version };
  } catch (error) {
    await supervised.end('fast');
    const reason = error instanceof Error ? error.message : String(error);
    return { reason, log: lastLines(logFile, from), cause: error };
  }
}

async function untilReady(
  supervised: Supervised,
  dataDir: string,
  password: string,
  port: number,
): Promise<Introduction & { pid: number }> {
  for (const deadline = Date.now() + readyMs; ; await delay(pollMs)) {
    if (supervised.hasEnded()) throw new Error('it ended by itself');
    if (Date.now() > deadline) throw new Error(`it was not ready within ${readyMs / 1000} s`);
    // Only once the server has bound its port can a stranger on that port be ruled out. The file of
    // a crashed predecessor says "ready" as well, but names a process that is gone.
    const file = readPostmasterFile(dataDir);
    if (!file?.ready || !isPostmasterOf(file.pid, dataDir)) continue;
    try {
      const introduction = await introduce(password, port);
      if (introduction.dataDir === dataDir) return { ...introduction, pid: file.pid };
    } catch (error) {
      if (!isPassing(error)) throw error;
    }
  }
}

function failed(site: Site, dataDir: string, { reason, log, cause }: Failure): Error {
  return new EmbeddedPostgresError(
    'start_failed',
    `PostgreSQL ${site.binaries.version} could not be started on ${dataDir}: ${reason}. ` +
      `No server was left running and the data is as it was. The end of ${site.logFile}:\n${log}`,
    cause,
  );
}
