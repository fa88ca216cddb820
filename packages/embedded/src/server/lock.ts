/**
 * One starter, stopper or restarter at a time for a data directory, across processes. The lock is a file that names its
 * holder; a holder that died is recognised by its process identity. PostgreSQL's own interlock is what keeps two
 * servers off the same data.
 */
import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { codeOf, EmbeddedPostgresError } from '../errors.js';
import { identify, isAlive, type ProcessIdentity } from './processes.js';

interface Holder {
  token: string;
  process: ProcessIdentity;
}

const pollMs = 50;
const breakingMs = 10_000;

/** `onWait` is told once, if the lock is not free at once. */
export async function withLock<T>(
  file: string,
  { waitMs, onWait }: { waitMs: number; onWait?: () => void },
  work: () => Promise<T>,
): Promise<T> {
  const me = identify(process.pid);
  if (!me) throw new Error(`cannot tell when process ${process.pid} started`);
  const holder: Holder = { token: randomUUID(), process: me };
  const deadline = Date.now() + waitMs;
  for (let attempt = 0; !take(file, holder); attempt++) {
    if (attempt === 0) onWait?.();
    if (Date.now() > deadline) throw busy(file, waitMs);
    breakIfStale(file);
    await delay(pollMs);
  }
  try {
    return await work();
  } finally {
    if (readHolder(file)?.token === holder.token) rmSync(file, { force: true });
  }
}

/** Takes the lock if it is free. The file appears whole, so that nobody reads half of a holder. */
function take(file: string, holder: Holder): boolean {
  const draft = `${file}.${holder.token}`;
  writeFileSync(draft, JSON.stringify(holder), { flag: 'wx', mode: 0o600 });
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/**
 * Removes the lock of a dead holder. Judging and removing must be one step, or a slow waiter would remove the lock that
 * a faster one took meanwhile: a second file, held for the length of this synchronous function, makes it one.
 */
function breakIfStale(file: string): void {
  const breaking = `${file}.breaking`;
  try {
    writeFileSync(breaking, '', { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    const since = statSync(breaking, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
    if (Date.now() - since > breakingMs) rmSync(breaking, { force: true });
    return;
  }
  try {
    if (!isAlive(readHolder(file)?.process)) rmSync(file, { force: true });
  } finally {
    rmSync(breaking, { force: true });
  }
}

function readHolder(file: string): Holder | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Holder;
  } catch {
    return undefined;
  }
}

function busy(file: string, waitMs: number): EmbeddedPostgresError {
  const pid = readHolder(file)?.process?.pid ?? 'unknown';
  return new EmbeddedPostgresError(
    'busy',
    `Another process (pid ${pid}) has been starting or stopping the embedded PostgreSQL of ` +
      `${file} for more than ${Math.round(waitMs / 1000)} s. Nothing was changed. ` +
      'Wait for it or end it, then try again.',
  );
}
