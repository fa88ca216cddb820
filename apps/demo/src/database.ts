/**
 * Where the demo's data lives: a database of its own, on the embedded server or on the one that
 * DATABASE_URL names. Nothing else on that server is touched, so everything in it may be cleaned
 * up.
 *
 * An embedded server that another process runs is used as it is, and goes away when that process
 * does. Then it is started here, on the same port, and the fleet finds it again.
 */

import { type EmbeddedServer, startEmbedded } from '@holdfast/embedded';
import pg from 'pg';
import { UsageError } from './usage.js';

export const DATABASE = 'holdfast_demo';

export interface DemoDatabase {
  readonly url: string;
  /** To be printed: without a password that is not ours. */
  readonly shownUrl: string;
  /** After a connection was refused: starts the server again if that is our business. */
  revive(): Promise<void>;
  close(): Promise<void>;
}

export async function openDatabase(say: (text: string) => void): Promise<DemoDatabase> {
  const given = process.env.DATABASE_URL;
  if (given) {
    const { hostname, port } = readUrl(given);
    say(`using the server of DATABASE_URL, ${hostname}:${port || 5432}`);
    const url = await createDatabase(given);
    const shown = new URL(url);
    shown.password = '';
    const nothing = async () => {};
    return { url, shownUrl: shown.toString(), revive: nothing, close: nothing };
  }
  let server: EmbeddedServer = await startEmbedded({ onProgress: say });
  const { port } = server;
  const url = await createDatabase(server.url);
  return {
    url,
    shownUrl: url,
    async revive() {
      if (!server.adopted) {
        // Killed, or out of memory: on its own port it is found again by all.
        if (isGone(server.pid)) await server.restart('immediate');
        return;
      }
      server = await startEmbedded({ onProgress: say });
      if (server.port === port) return;
      throw new Error(
        `The database came back on port ${server.port}, because another program took ${port}. ` +
          'The demo ends here; start it again.',
      );
    },
    close: () => server.stop(),
  };
}

/** The fleet reaches it over TCP, through lines that can be cut. */
function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  const ssl = url?.searchParams.get('sslmode') ?? process.env.PGSSLMODE ?? 'disable';
  if (!['disable', 'no-verify'].includes(ssl))
    throw new UsageError(
      `DATABASE_URL asks for sslmode ${ssl}, and the demo's workers reach the database through lines on 127.0.0.1, ` +
        'for which no certificate is valid. Nothing was made. Write sslmode=no-verify, or unset it.',
    );
  if (url?.hostname) return url;
  throw new UsageError(
    'DATABASE_URL cannot be used: write postgres://user:password@host:port/database, or unset it.',
  );
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}

const DUPLICATE = ['42P04', '23505'];

/** Returns its URL. It may be there already, or be made by another demo in the same moment. */
async function createDatabase(serverUrl: string): Promise<string> {
  const client = new pg.Client({ connectionString: serverUrl, connectionTimeoutMillis: 10_000 });
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query(`CREATE DATABASE ${DATABASE}`).catch((error: { code?: string }) => {
      if (!DUPLICATE.includes(error.code ?? '')) throw error;
    });
    // A worker that is frozen inside a transaction keeps its locks; the server ends that after a
    // while.
    await client.query(
      `ALTER DATABASE ${DATABASE} SET idle_in_transaction_session_timeout = '10s'`,
    );
  } finally {
    await client.end();
  }
  const url = new URL(serverUrl);
  url.pathname = `/${DATABASE}`;
  return url.toString();
}
