/**
 * One short conversation with a server: can a client log in, and whose server is it? The data
 * directory in the answer tells our server from a stranger that happens to listen on the same port.
 */
import pg from 'pg';
import { codeOf } from './errors.js';

export interface Introduction {
  /** Such as `18.4`. */
  version: string;
  dataDir: string;
}

export function serverUrl(password: string, port: number): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
}

export async function introduce(password: string, port: number): Promise<Introduction> {
  const client = new pg.Client({
    connectionString: serverUrl(password, port),
    connectionTimeoutMillis: 5_000,
    query_timeout: 5_000,
    ssl: false,
  });
  // A server that goes away between two steps fails the step; the event would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<Introduction>(
      `SELECT current_setting('server_version') AS version,
              current_setting('data_directory') AS "dataDir"`,
    );
    return rows[0]!;
  } finally {
    await client.end().catch(() => {});
  }
}

/** Whether a refused conversation may go better in a moment, as opposed to a wrong password. */
export function isPassing(error: unknown): boolean {
  const code = codeOf(error) ?? '';
  const refusal = /^[0-9A-Z]{5}$/.test(code) && !code.startsWith('E');
  // 57P01 to 57P03: shutting down, crashed, starting up. 53300: too many connections.
  return !refusal || code.startsWith('57P') || code === '53300';
}
