/**
 * One Postgres for a whole test run: the embedded one in a throw-away folder, or the server that
 * DATABASE_URL names. A migrated template database is made on it; every test file clones that.
 *
 * The folder is in memory where there is plenty of it: fsync stays on, and costs nothing. Crashes of a server are
 * tested on servers of their own, on disk.
 */
import { existsSync, readFileSync, statfsSync, writeFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { type EmbeddedServer, startEmbedded } from '../../packages/embedded/src/index.js';
import { dropDatabase, makeTemplate } from '../../packages/testing/src/index.js';
import { executable, hasBrowser } from '../../scripts/chromium.mjs';

declare module 'vitest' {
  export interface ProvidedContext {
    serverUrl: string;
    template: string;
    /** FILE_COPY has Postgres write down all that it has in memory: cheap where its files are in memory, too. */
    strategy: 'FILE_COPY' | 'WAL_LOG';
  }
}

const IN_MEMORY = '/dev/shm';
const PLENTY = 4 * 2 ** 30;

const isInMemory = ({ dataDir }: EmbeddedServer) => dataDir.startsWith(IN_MEMORY);

function startServer(): Promise<EmbeddedServer> {
  const { TMPDIR } = process.env;
  const room = existsSync(IN_MEMORY) ? statfsSync(IN_MEMORY) : { bavail: 0, bsize: 0 };
  if (Math.min(room.bavail * room.bsize, freemem()) > PLENTY) process.env.TMPDIR = IN_MEMORY;
  try {
    // The folder is made before the first wait.
    return startEmbedded({
      throwaway: true,
      // A client that hangs in its login may hold up whoever makes or drops a database; by default for a minute.
      settings: {
        ...{ max_wal_size: '512MB', authentication_timeout: '20s' },
        max_prepared_transactions: '20',
      },
      onProgress: (message) => console.log(message),
    });
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  }
}

/**
 * A run of all tests has thousands of logins. With SCRAM each costs its client 4,096 rounds of a hash, and a process or
 * a thread that logs in loads all of WebCrypto; so passwords go over as they are. The embedded servers that tests start
 * for themselves keep SCRAM.
 */
async function cheapLogins({ url, dataDir }: EmbeddedServer): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const password = client.escapeLiteral(new URL(url).password);
  await client.query(`SET scram_iterations = 1; ALTER ROLE CURRENT_USER PASSWORD ${password}`);
  const rules = join(dataDir, 'pg_hba.conf');
  writeFileSync(rules, readFileSync(rules, 'utf8').replaceAll('scram-sha-256', 'password'));
  await client.query('SELECT pg_reload_conf()');
  await client.end();
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Before the files that use it: two processes that unpack it at once fail.
  if (hasBrowser()) await executable();
  const external = process.env.DATABASE_URL;
  const server = external ? null : await startServer();
  const url = external ?? (server?.url as string);
  if (server) await cheapLogins(server);
  const template = await makeTemplate(url);
  project.provide('serverUrl', url);
  project.provide('template', template);
  project.provide('strategy', server && isInMemory(server) ? 'FILE_COPY' : 'WAL_LOG');
  return async () => {
    if (server) await server.stop();
    else await dropDatabase(url, template);
  };
}
