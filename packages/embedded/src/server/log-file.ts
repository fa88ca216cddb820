/**
 * The server's log, beside the data directory: it is opened here for PostgreSQL and initdb, and its end is read back when
 * something failed. One older log is kept.
 */
import * as fs from 'node:fs';
import { openOwn } from '../state.js';

const largestBytes = 16 * 1024 * 1024;
const tailBytes = 8 * 1024;
const tailLines = 20;

export function openLog(file: string): number {
  if ((fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0) > largestBytes) {
    fs.rmSync(`${file}.1`, { force: true });
    fs.renameSync(file, `${file}.1`);
  }
  return openOwn(file, fs.constants.O_CREAT | fs.constants.O_APPEND | fs.constants.O_WRONLY);
}

export function logSize(descriptor: number): number {
  return fs.fstatSync(descriptor).size;
}

/** The last lines that were written after this position. */
export function lastLines(file: string, from: number): string {
  let descriptor: number;
  try {
    descriptor = fs.openSync(file, 'r');
  } catch {
    return '(there is no log)';
  }
  try {
    const { size } = fs.fstatSync(descriptor);
    const start = Math.max(from, size - tailBytes);
    const buffer = Buffer.alloc(Math.max(0, size - start));
    fs.readSync(descriptor, buffer, 0, buffer.length, start);
    return buffer.toString('utf8').trimEnd().split('\n').slice(-tailLines).join('\n');
  } finally {
    fs.closeSync(descriptor);
  }
}
