/**
 * What an earlier or another process left on a data directory, settled before a start. A server that a live process of
 * ours supervises is adopted; one whose supervisor was killed is stopped cleanly; a stale lock file is removed. No
 * process is signalled unless it was recognised as the postmaster of this data directory.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readPostmasterFile } from '../cluster/cluster.js';
import { introduce, isPassing } from '../connect.js';
import { codeOf, EmbeddedPostgresError } from '../errors.js';
import type { Site } from '../site.js';
import type { State } from '../state.js';
import { anyoneWorksIn, isAlive, isPostmasterOf } from './processes.js';

const supervisorMs = 45_000;
const fastMs = 15_000;
const immediateMs = 10_000;
const pollMs = 50;

export interface Adopted {
  password: string;
  port: number;
  pid: number;
  version: string;
}

/** A server to adopt, or undefined once the way is free for one of our own. */
export async function settleLeftover(
  site: Site,
  dataDir: string,
  state: State | undefined,
): Promise<Adopted | undefined> {
  const deadline = Date.now() + supervisorMs;
  for (; state && isAlive(state.supervisor); await delay(pollMs)) {
    const adopted = isAlive(state.owner) ? await adopt(dataDir, state) : undefined;
    if (adopted) return adopted;
    // Otherwise its owner is gone, and the supervisor is about to go once the server is down.
    if (Date.now() > deadline) throw stuck(dataDir, state);
  }
  const file = readPostmasterFile(dataDir);
  if (!file) return undefined;
  if (isPostmasterOf(file.pid, dataDir)) {
    site.progress(`stopping a PostgreSQL that lost its supervisor (pid ${file.pid})`);
    await stopPostmaster(file.pid, dataDir, 'fast');
  } else if (exists(file.pid) && !anyoneWorksIn(dataDir)) {
    // PostgreSQL would take whoever has this process id now for a running server, and refuse to start.
    rmSync(join(dataDir, 'postmaster.pid'), { force: true });
  }
  return undefined;
}

async function adopt(dataDir: string, state: State): Promise<Adopted | undefined> {
  const file = readPostmasterFile(dataDir);
  if (!file?.ready || state.port === undefined) return undefined;
  try {
    const introduction = await introduce(state.password, state.port);
    if (introduction.dataDir !== dataDir) return undefined;
    const { password, port } = state;
    return { password, port, pid: file.pid, version: introduction.version };
  } catch (error) {
    if (isPassing(error)) return undefined;
    throw error;
  }
}

/** Stops a server that no supervisor of ours watches. */
export async function stopPostmaster(pid: number, dataDir: string, mode: 'fast' | 'immediate') {
  if (mode === 'fast' && (await signalAndWait(pid, dataDir, 'SIGINT', fastMs))) return;
  if (await signalAndWait(pid, dataDir, 'SIGQUIT', immediateMs)) return;
  throw new EmbeddedPostgresError(
    'stop_failed',
    `The PostgreSQL server of ${dataDir} (pid ${pid}) does not stop, neither fast (SIGINT) nor ` +
      'immediately (SIGQUIT). It is still running and no other one was started. ' +
      'Look at its log, end it by hand, then try again.',
  );
}

async function signalAndWait(
  pid: number,
  dataDir: string,
  signal: 'SIGINT' | 'SIGQUIT',
  waitMs: number,
): Promise<boolean> {
  if (!isPostmasterOf(pid, dataDir)) return true;
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (codeOf(error) !== 'ESRCH') throw error;
  }
  for (const deadline = Date.now() + waitMs; Date.now() < deadline; await delay(pollMs)) {
    if (!isPostmasterOf(pid, dataDir)) return true;
  }
  return false;
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

function stuck(dataDir: string, { owner, supervisor }: State): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    'busy',
    `The embedded PostgreSQL of ${dataDir} is held by another process (pid ${owner?.pid}, ` +
      `supervisor ${supervisor?.pid}) and neither answers nor stops. Nothing was changed. ` +
      'End that process, then try again.',
  );
}
