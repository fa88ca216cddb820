/**
 * What is remembered about a data directory between runs: its password, its last port, and which processes run it. The
 * file lies beside the data directory, can be read by its owner only, and is replaced in one step. Data whose state says
 * `initialising` was interrupted.
 */
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { codeOf, EmbeddedPostgresError } from './errors.js';
import type { ProcessIdentity } from './server/processes.js';

export interface State {
  phase: 'initialising' | 'ready';
  password: string;
  /** Where the data is, if not beside this file. Else unsaid, so that a project can be moved. */
  relocatedTo?: string | undefined;
  port?: number;
  /** The process that called startEmbedded, and the shell that watches over the server for it. */
  owner?: ProcessIdentity | undefined;
  supervisor?: ProcessIdentity | undefined;
}

export function readState(file: string): State | undefined {
  let descriptor: number;
  try {
    descriptor = openOwn(file, fs.constants.O_RDONLY);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw unreadable(file, error);
  }
  try {
    return check(JSON.parse(fs.readFileSync(descriptor, 'utf8')));
  } catch (error) {
    throw unreadable(file, error);
  } finally {
    fs.closeSync(descriptor);
  }
}

export function writeState(file: string, state: State): void {
  const fresh = `${file}.${randomBytes(6).toString('hex')}`;
  const descriptor = fs.openSync(fresh, 'wx', 0o600);
  try {
    fs.writeFileSync(descriptor, `${JSON.stringify(state, null, 2)}\n`);
    fs.fsyncSync(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
  try {
    fs.renameSync(fresh, file);
  } catch (error) {
    fs.rmSync(fresh, { force: true });
    throw error;
  }
}

/** Opens a file only if it is ours: in a folder like /tmp, others could have put one there first. */
export function openOwn(file: string, flags: number): number {
  const descriptor = fs.openSync(file, flags | fs.constants.O_NOFOLLOW, 0o600);
  const { uid } = fs.fstatSync(descriptor);
  if (uid === process.getuid?.()) return descriptor;
  fs.closeSync(descriptor);
  throw new EmbeddedPostgresError(
    'wrong_owner',
    `${file} belongs to user ${uid}, not to the user who runs this. It was left alone and nothing ` +
      'was started. Run as that user, or choose another dataDir.',
  );
}

function check(value: unknown): State {
  const state = value as Partial<State> | null;
  const known = state?.phase === 'initialising' || state?.phase === 'ready';
  if (!known || typeof state.password !== 'string') {
    throw new Error('it does not hold what Holdfast writes there');
  }
  return state as State;
}

function unreadable(file: string, cause: unknown): EmbeddedPostgresError {
  if (cause instanceof EmbeddedPostgresError) return cause;
  return new EmbeddedPostgresError(
    'state_unreadable',
    `${file} cannot be read (${cause instanceof Error ? cause.message : String(cause)}), so that ` +
      'the password of the database beside it is not known. Nothing was started or changed. ' +
      'Run as the user who started it before; or delete the file and its data directory to begin anew.',
    cause,
  );
}
