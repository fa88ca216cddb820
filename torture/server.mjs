// The Postgres of a run: the embedded one with fsync on, in a throw-away folder. Faults that end it take turns, so
// that two of them never restart it at once, and each leaves a server that answers.
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startEmbedded } from '../packages/embedded/dist/index.js';

/** A statement on a connection of its own, straight to the server. */
export async function sql(url, text, params, timeoutMs = 10_000) {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query(text, params)).rows;
  } finally {
    await client.end().catch(() => {});
  }
}

/** The same until it succeeds: for what must be done although the server may be away. */
export async function sqlUntil(url, text, params, timeoutMs = 60_000) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    try {
      return await sql(url, text, params);
    } catch (error) {
      if (Date.now() > end) throw error;
      await sleep(100);
    }
  }
}

/** Processes whose parent is this one. */
export function childrenOf(pid) {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid;
    } catch {
      return false;
    }
  });
}

export async function startServer(settings = {}) {
  const server = await startEmbedded({ throwaway: true, settings });
  let turn = Promise.resolve();
  return {
    get url() {
      return server.url;
    },
    get pid() {
      return server.pid;
    },
    /** One at a time; the server answers again when it resolves. */
    exclusive(work) {
      const mine = turn.then(work);
      turn = mine.catch(() => {});
      return mine;
    },
    restart: (mode) => server.restart(mode),
    /** As the kernel's out-of-memory killer does it: nothing is flushed, nobody is told. */
    async crash() {
      process.kill(server.pid, 'SIGKILL');
      await server.restart();
    },
    stop: () => server.stop(),
  };
}
