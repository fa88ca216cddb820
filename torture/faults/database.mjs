// What happens to a database server under load: sessions ended, processes killed, restarts, no connection left, and
// what people do to it in psql.
import pg from 'pg';
import { childrenOf, sql } from '../server.mjs';

const IDLE_SESSIONS = 300;
/** What is held for less has touched nobody. */
const EFFECT_MS = 200;

/**
 * A session of somebody else, who holds something for a while. Where the server goes meanwhile, it was held until then:
 * `held` says so, by the time that it took.
 */
export async function holding(world, work) {
  const client = new pg.Client({ connectionString: world.server.url });
  client.on('error', () => {});
  const gone = new Promise((resolve) => client.once('end', resolve));
  const held = async (holding) => {
    const from = performance.now();
    await Promise.race([holding, gone]);
    return performance.now() - from >= EFFECT_MS;
  };
  try {
    await client.connect();
    return await work(client, held);
  } finally {
    await client.end().catch(() => {});
  }
}

const terminate = {
  name: 'terminate-backends',
  async strike(world, random) {
    const rows = await sql(
      world.server.url,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < $1`,
      [random.pick([0.2, 0.5, 1])],
    );
    return { hit: rows.length };
  },
};

const killBackend = {
  name: 'kill-backend',
  async strike(world, random) {
    // Postgres ends all others and recovers.
    return world.server.exclusive(async () => {
      const pid = random.pick(childrenOf(world.server.pid));
      if (pid) process.kill(Number(pid), 'SIGKILL');
      return { hit: pid !== undefined };
    });
  },
};

/** Each resolves when the server answers again, and throws if it never went. */
const ending = (name, end) => ({
  name,
  async strike(world) {
    await world.server.exclusive(() => end(world.server));
    return { hit: true };
  },
});

const killPostmaster = ending('kill-postmaster', (server) => server.crash());
const immediateRestart = ending('immediate-restart', (server) => server.restart('immediate'));
const fastRestart = ending('fast-restart', (server) => server.restart('fast'));

const exhaustion = {
  name: 'connection-exhaustion',
  async strike(world, random, hold) {
    const clients = [];
    let refused = 0;
    for (let n = 0; n < IDLE_SESSIONS && refused < 20; n += 20) {
      const opened = Array.from({ length: 20 }, async () => {
        const client = new pg.Client({ connectionString: world.server.url });
        client.on('error', () => {});
        await client.connect().then(
          () => clients.push(client),
          () => refused++,
        );
      });
      await Promise.all(opened);
    }
    await hold(random.integer(2_000, 5_000));
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
    return { hit: refused, sessions: clients.length };
  },
};

const horizon = {
  name: 'old-transaction',
  strike: (world, random, hold) =>
    holding(world, async (client, held) => {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await client.query('SELECT txid_current(), count(*) FROM holdfast.inbox');
      return { hit: await held(hold(random.integer(5_000, 15_000))) };
    }),
};

const readers = {
  name: 'repeatable-readers',
  strike: (world, random, hold) =>
    holding(world, async (client) => {
      for (let turn = 0; turn < random.integer(3, 8); turn++) {
        await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
        await client.query('SELECT count(*) FROM holdfast.lines');
        await hold(400);
        await client.query('SELECT count(*) FROM holdfast.lines');
        await client.query('COMMIT');
      }
      return { hit: true };
    }),
};

const rowLocks = {
  name: 'row-locks',
  strike: (world, random, hold) =>
    holding(world, async (client, held) => {
      const queue = random.pick(['inbox', 'lines']);
      await client.query('BEGIN');
      const { rowCount } = await client.query(
        `SELECT id FROM holdfast.${queue} WHERE status = 'processing' OR random() < 0.2
         LIMIT ${random.integer(1, 30)} FOR UPDATE SKIP LOCKED`,
      );
      const lasted = await held(hold(random.integer(500, 7_000)));
      return { hit: lasted ? rowCount : 0 };
    }),
};

export const databaseFaults = [
  terminate,
  terminate,
  killBackend,
  killPostmaster,
  immediateRestart,
  fastRestart,
  exhaustion,
  horizon,
  readers,
  rowLocks,
  rowLocks,
];
