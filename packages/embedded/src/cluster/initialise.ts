/**
 * Makes a new cluster with initdb, from nothing or from the remains of an interrupted attempt, which are deleted here:
 * `cluster.ts` has made sure that they are ours. The state says `initialising` before the first file is written and
 * `ready` after the last. The password reaches initdb through a file that is removed afterwards.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedPostgresError } from '../errors.js';
import { lastLines, logSize, openLog } from '../server/log-file.js';
import { identify } from '../server/processes.js';
import { claimHome } from '../server/shared-folder.js';
import { supervise } from '../server/supervisor.js';
import { type DataPlace, leaveNote, type Site } from '../site.js';
import { type State, writeState } from '../state.js';
import { entriesOf } from './cluster.js';

const initialiseMs = 120_000;

export async function initialise(site: Site, place: DataPlace, password: string): Promise<State> {
  const { account, stateFile } = site;
  const { dataDir, relocatedTo } = place;
  const state: State = { phase: 'initialising', password, relocatedTo };
  writeState(stateFile, state);
  leaveNote(site, place);
  if (relocatedTo) claimHome(relocatedTo, account);
  // The supervisor of an interrupted attempt is gone by now, but a child of its child may not be.
  for (const entry of entriesOf(dataDir)) {
    fs.rmSync(join(dataDir, entry), {
      recursive: true,
      force: true,
      maxRetries: 10,
      retryDelay: 100,
    });
  }
  fs.mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  if (account.steppedDown) fs.lchownSync(dataDir, account.uid, account.gid);
  const passwordFile = `${dataDir}.password`;
  try {
    writePasswordFile(site, passwordFile, password);
    await runInitdb(site, dataDir, passwordFile, (supervisor) =>
      writeState(stateFile, { ...state, ...supervisor }),
    );
  } finally {
    fs.rmSync(passwordFile, { force: true });
  }
  const ready: State = { ...state, phase: 'ready' };
  writeState(stateFile, ready);
  return ready;
}

function writePasswordFile({ account }: Site, file: string, password: string): void {
  fs.rmSync(file, { force: true });
  const descriptor = fs.openSync(file, 'wx', 0o600);
  try {
    if (account.steppedDown) fs.fchownSync(descriptor, account.uid, account.gid);
    fs.writeFileSync(descriptor, `${password}\n`);
  } finally {
    fs.closeSync(descriptor);
  }
}

async function runInitdb(
  site: Site,
  dataDir: string,
  passwordFile: string,
  remember: (who: Pick<State, 'owner' | 'supervisor'>) => void,
): Promise<void> {
  const { account, binaries, logFile, throwawayFolder } = site;
  const command = [
    binaries.initdb,
    ...['-D', dataDir, '--username=postgres', `--pwfile=${passwordFile}`],
    ...['--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', '--no-instructions'],
    // Bytewise order, as with C, but upper() and lower() know all of Unicode; 17 brought it.
    ...(Number(binaries.major) >= 17
      ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8']
      : []),
    ...(throwawayFolder ? ['--no-sync'] : []),
  ];
  const log = openLog(logFile);
  const from = logSize(log);
  const supervised = await supervise({ account, command, log, throwawayFolder });
  const giveUp = new AbortController();
  try {
    remember({ owner: identify(process.pid), supervisor: supervised.identity });
    const tooLong = delay(initialiseMs, undefined, giveUp).catch(() => undefined);
    const end = await Promise.race([supervised.ended, tooLong]);
    if (end?.status === 0) return;
    const how = end ? `initdb ended with status ${end.status}` : 'initdb took too long';
    throw initialisingFailed(site, dataDir, how, lastLines(logFile, from));
  } finally {
    giveUp.abort();
    await supervised.end('fast');
  }
}

function initialisingFailed(
  { account, logFile }: Site,
  dataDir: string,
  how: string,
  log: string,
): EmbeddedPostgresError {
  // Containers run programs under numbers that have no name, which PostgreSQL does not accept.
  const advice = log.includes('could not look up effective user ID')
    ? `Give user ${account.uid} a name in /etc/passwd, or run as a user who has one. `
    : '';
  return new EmbeddedPostgresError(
    'start_failed',
    `A database could not be initialised in ${dataDir}: ${how}. Nothing was started. ` +
      `${advice}The end of ${logFile}:\n${log}`,
  );
}
