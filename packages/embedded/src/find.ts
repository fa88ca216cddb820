/** Whether an embedded server runs where `startEmbedded` puts it by default. It only looks. */
import { join, resolve } from 'node:path';
import { readPostmasterFile } from './cluster/cluster.js';
import { isAlive, isPostmasterOf } from './server/processes.js';
import { readState } from './state.js';

/** An embedded server that was started before. */
export interface FoundServer {
  readonly dataDir: string;
  /** Null: it does not run. */
  readonly pid: number | null;
  /** False: the process that would stop it was killed. */
  readonly supervised: boolean;
}

/**
 * Looks for the embedded server of a project folder; null: there has never been one.
 * @example const server = findEmbedded(process.cwd());
 */
export function findEmbedded(folder: string): FoundServer | null {
  const wanted = resolve(folder, '.holdfast', 'postgres');
  const state = readState(`${wanted}.state.json`);
  if (!state) return null;
  const dataDir = state.relocatedTo ? join(state.relocatedTo, 'data') : wanted;
  const file = readPostmasterFile(dataDir);
  const runs = file && isPostmasterOf(file.pid, dataDir);
  return { dataDir, pid: runs ? file.pid : null, supervised: isAlive(state.supervisor) };
}
