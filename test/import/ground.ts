/** What the specs of imports share: the command in this process, and a database of its own for a source. */
import { expect } from 'vitest';
import { call, type Ran } from '../support/cli-run.js';

export function importer(url: () => string, source: string) {
  return async (...args: string[]): Promise<Ran> =>
    call(['import', source, '--url', url(), ...args]);
}

/** It ended well; what it said. */
export async function done(ran: Promise<Ran>): Promise<string> {
  const { code, out, err } = await ran;
  expect({ code, err: code === 0 ? '' : err }).toEqual({ code: 0, err: '' });
  return `${out}${err}`;
}
