// What the server spends, read from outside: processor time of its processes from /proc, statements
// and their buffers from pg_stat_statements, WAL, updated rows, locks and deadlocks.
import { readdirSync, readFileSync } from 'node:fs';
import pg from 'pg';

const TICK_MS = 10;

function timesOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [parent, user, system, childUser, childSystem] = [1, 11, 12, 13, 14].map((n) =>
      Number(fields[n]),
    );
    return { parent, own: user + system, children: childUser + childSystem };
  } catch {
    return null;
  }
}

/** Milliseconds of the postmaster and of all its processes, those that have ended too. */
export function serverCpuMs(pid) {
  const main = timesOf(pid);
  let ticks = main.own + main.children;
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const times = timesOf(name);
    if (times?.parent === pid) ticks += times.own;
  }
  return ticks * TICK_MS;
}

/**
 * What a statement does, told by its text, the first that fits. Where the engine's texts change, these
 * must: a row that counts a kind and finds none says so. Constants stand as $1 there.
 */
const KINDS = {
  definition: /^\s*(--.*\s+)*(CREATE|ALTER|DO|COMMENT|GRANT|REVOKE)\b/,
  claim: /lease_generation \+ (1|\$\d+)/,
  'claim of merged lines': /\binbox_claim"?\(/,
  recover: /\borphans AS\b/,
  prune: /_prune_archive"?\(/,
};

export function kindOf(text) {
  return Object.keys(KINDS).find((kind) => KINDS[kind].test(text)) ?? 'other';
}

/** The engine reads the same views, so the meter's own statements are marked. */
const MARK = '/* meter */';
const OWN = /\/\* meter \*\/|pg_stat_force|^(BEGIN|COMMIT|ROLLBACK|SET|SHOW)\b/;

const READ = `SELECT ${MARK} s.queryid::text AS id, sum(s.calls)::int AS calls,
    sum(s.shared_blks_hit + s.shared_blks_read)::float8 AS blocks
  FROM pg_stat_statements(false) AS s
  WHERE s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
  GROUP BY s.queryid`;
const TEXTS = `SELECT ${MARK} s.queryid::text AS id, s.query FROM pg_stat_statements(true) AS s
  WHERE s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())`;

export async function openMeter(url, serverPid) {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  await client.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements');
  const texts = new Map();

  async function learnTexts() {
    for (const { id, query } of (await client.query(TEXTS)).rows) texts.set(id, query);
  }

  async function read() {
    const { rows } = await client.query(READ);
    if (rows.some(({ id }) => !texts.has(id))) await learnTexts();
    return new Map(rows.map((row) => [row.id, row]));
  }

  const one = async (text, params) =>
    (await client.query(text.replace('SELECT', `SELECT ${MARK}`), params)).rows[0].n;
  const meter = {
    cpuMs: () => serverCpuMs(serverPid),
    /** All statements of this database but the meter's own and the words of transactions. */
    async statements(kind = null) {
      const calls = [...(await this.calls(kind)).values()];
      return calls.reduce((a, b) => a + b, 0);
    },
    /** How often each was called, by the beginning of its text. */
    async calls(kind = null) {
      const found = new Map();
      for (const [id, row] of await read()) {
        const text = texts.get(id) ?? '';
        if (OWN.test(text) || (kind !== null && kindOf(text) !== kind)) continue;
        const begin = text.replaceAll(/\s+/g, ' ').trim().slice(0, 70);
        found.set(begin, (found.get(begin) ?? 0) + row.calls);
      }
      return found;
    },
    walBytes: () => one(`SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 AS n`),
    async updates(table) {
      await client.query('SELECT pg_stat_force_next_flush()');
      return one('SELECT n_tup_upd::int AS n FROM pg_stat_user_tables WHERE relid = $1::regclass', [
        table,
      ]);
    },
    deadlocks: () =>
      one('SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()'),
    advisoryLocks: () =>
      one(
        `SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory'
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      ),
    /**
     * Shared buffers of statements of a kind (by the beginning of its name), looked at every few milliseconds: the largest mean of
     * the calls between two looks, which are mostly one or none.
     */
    async watchBuffers(kind, work, everyMs = 25) {
      let before = await read();
      const largest = new Map();
      const seen = [];
      let total = 0;
      let calls = 0;
      let on = true;
      const look = async () => {
        const now = await read();
        for (const [id, row] of now) {
          if (!kindOf(texts.get(id) ?? '').startsWith(kind)) continue;
          const was = before.get(id) ?? { calls: 0, blocks: 0 };
          const made = row.calls - was.calls;
          if (made <= 0) continue;
          const each = (row.blocks - was.blocks) / made;
          total += row.blocks - was.blocks;
          calls += made;
          for (let n = 0; n < made; n++) seen.push(each);
          if (each > (largest.get(id) ?? -1)) largest.set(id, each);
        }
        before = now;
      };
      const looking = (async () => {
        while (on) {
          await look();
          await new Promise((resolve) => setTimeout(resolve, everyMs));
        }
      })();
      try {
        await work();
      } finally {
        on = false;
        await looking;
        await look();
      }
      if (calls === 0) throw new Error(`no statement of the kind ${kind} was seen`);
      const [id, most] = [...largest].reduce((a, b) => (b[1] > a[1] ? b : a), [null, 0]);
      const p95 = seen.sort((a, b) => a - b)[Math.ceil(0.95 * seen.length) - 1];
      const p50 = seen[Math.ceil(seen.length / 2) - 1];
      return { most, p50, p95, calls, mean: total / calls, text: texts.get(id) ?? '' };
    },
    close: () => client.end(),
  };
  return meter;
}
