/**
 * The server's log, beside the data directory: PostgreSQL and its preparation write it, this file
 * opens it for them and reads back the end of it when something failed. One older log is kept.
 */
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { openOwn } from '../state.js';

const largestBytes = 16 * 1024 * 1024;
const tailBytes = 8 * 1024;
const tailLines = 20;

/** Opens the log for appending. */
export function openLog(file: string): number {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > largestBytes) {
    rmSync(`${file}.1`, { force: true });
    renameSync(file, `${file}.1`);
  }
  return openOwn(file, constants.O_CREAT | constants.O_APPEND | constants.O_WRONLY);
}

export function logSize(descriptor: number): number {
  return fstatSync(descriptor).size;
}

/** The last lines that were written after this position. */
export function lastLines(file: string, from: number): string {
  let descriptor: number;
  try {
    descriptor = openSync(file, 'r');
  } catch {
    return '(there is no log)';
  }
  try {
    const { size } = fstatSync(descriptor);
    const start = Math.max(from, size - tailBytes);
    const buffer = Buffer.alloc(Math.max(0, size - start));
    readSync(descriptor, buffer, 0, buffer.length, start);
    return buffer.toString('utf8').trimEnd().split('\n').slice(-tailLines).join('\n');
  } finally {
    closeSync(descriptor);
  }
}
