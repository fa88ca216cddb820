// The world of a run: a server, the tables of the torture, the fleet. It is built, put under load, measured and
// taken down here; what is done to it stands in faults/.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { holdfast } from '../packages/holdfast/dist/index.js';
import { KEYED, sideQueues } from './actors/jobs.mjs';
import { Fleet } from './fleet.mjs';
import { SCHEMA, witnessOf } from './schema.mjs';
import { sql, sqlUntil, startServer } from './server.mjs';

/** So short that a run of minutes sees hundreds of take-overs, so long that a busy machine is no fault. */
export const WORKER_OPTIONS = {
  lease: '6s',
  renewEvery: '1500ms',
  heartbeat: '500ms',
  ttl: '3s',
  poll: '200ms',
  stallLimit: '4s',
  grace: '2s',
  concurrency: 8,
  maintenance: '1s',
};

/** A drain in which nothing leaves for so long has come to its end: far beyond any lease or retry. */
export const STILL_MS = 30_000;

/** Many rounds of maintenance, also of fifty queues on a busy machine. */
const TIDY_MS = 30_000;

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** A planted bug may be in a function of the schema: its functions are those of the build under test. */
async function migrated(url, dist, queues) {
  const built = await import(pathToFileURL(`${dist}/index.js`).href);
  const hf = built.holdfast({ connectionString: url, logger: quiet });
  await hf.migrate();
  for (const { name, ordering } of queues) await hf.createQueue(name, { ordering });
  await hf.close();
}

export async function buildWorld({
  folder,
  dist,
  product = join(dist, 'index.js'),
  history,
  makeServer = startServer,
  settings,
  sides,
  makeSchema = migrated,
}) {
  const server = await makeServer(settings);
  const more = sideQueues(sides).map((name) => ({ name, ordering: 'none' }));
  await makeSchema(server.url, dist, [{ name: KEYED, ordering: 'key' }, ...more]);
  const queues = ['inbox', KEYED, ...sideQueues(sides)];
  await sql(server.url, SCHEMA + queues.map(witnessOf).join(''));
  const world = {
    folder,
    dist,
    product,
    server,
    history,
    queues,
    entryUrl: () => world.pooler?.url ?? server.url,
  };
  world.fleet = new Fleet(world, history);
  return world;
}

/** @param {{ producers: number, workers: number, seed: string, workerConfig?: object, producerConfig?: object }} size */
export async function populate(world, size) {
  const { fleet } = world;
  await fleet.startRegister();
  const options = WORKER_OPTIONS;
  for (let n = 1; n <= size.workers; n++)
    await fleet.add('worker', `worker-${n}`, { options, ...size.workerConfig?.(n) });
  for (let n = 1; n <= size.producers; n++) {
    const { seed } = size;
    await fleet.add('producer', `producer-${n}`, { rate: 0, seed, ...size.producerConfig?.(n) });
  }
  await Promise.all(fleet.slots.map((slot) => slot.start()));
}

/** So many jobs a second, from all producers together. */
export function setRate(world, rate) {
  const { producers } = world.fleet;
  const share = rate / producers.length;
  for (const slot of producers) slot.tell({ do: 'rate', rate: share }, { rate: share });
}

const unfinishedOf = ({ queues, shapes }) =>
  queues
    .map(
      (queue) => `SELECT id, type, status::text, claimed_by, partition_key, attempts, crashes,
    available_at, lease_expires_at, '${queue}' AS queue, payload
    FROM holdfast.${queue} WHERE status <> 'dead_letter'`,
    )
    .concat(shapes?.unfinished ?? [])
    .join(' UNION ALL ');

export const unfinished = (world) => sqlUntil(world.server.url, unfinishedOf(world));

/** Waits until nothing waits or runs. What is left once nothing has left for so long, or at the limit, is returned. */
export async function drain(world, stillMs, limitMs = Number.POSITIVE_INFINITY) {
  const from = Date.now();
  let fewest = Number.POSITIVE_INFINITY;
  let at = Date.now();
  for (;;) {
    const [{ n }] = await sqlUntil(
      world.server.url,
      `SELECT count(*)::int AS n FROM (${unfinishedOf(world)}) AS u`,
    );
    if (n === 0) return [];
    if (n < fewest) {
      fewest = n;
      at = Date.now();
    } else if (Date.now() - at > stillMs) return unfinished(world);
    if (Date.now() - from > limitMs) return unfinished(world);
    await sleep(250);
  }
}

/** Waits until nothing is left of the claims of workers that are gone; what is left after that time is told by the check. */
export async function tidied({ server, queues }) {
  const claims = queues.map((queue) => `SELECT worker_id FROM holdfast.${queue}_claims`);
  const left = `SELECT count(*)::int AS n FROM (${claims.join(' UNION ALL ')}) AS c
    WHERE NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.id = c.worker_id AND w.status <> 'dead')`;
  const until = Date.now() + TIDY_MS;
  do await sleep(1_000);
  while (Date.now() < until && (await sqlUntil(server.url, left))[0].n > 0);
}

/** A backlog, and how fast the fleet works it off: jobs a second between the 5th and the 95th hundredth. */
export async function drainRate(world, count) {
  const { url } = world.server;
  const hf = holdfast({ connectionString: url, logger: quiet });
  const queues = ['inbox', KEYED];
  try {
    for (const queue of queues) await hf.pause(queue);
    const [{ from }] = await sqlUntil(url, 'SELECT clock_timestamp()::text AS from');
    const [producer] = world.fleet.producers;
    const done = new Promise((resolve) => {
      const hear = ({ kind }) => {
        if (kind !== 'burst') return;
        producer.child.off('message', hear);
        resolve();
      };
      producer.child.on('message', hear);
    });
    producer.tell({ do: 'burst', count });
    await done;
    for (const queue of queues) await hf.resume(queue);
    await drain(world, STILL_MS);
    const [row] = await sqlUntil(
      url,
      `WITH c AS (
         SELECT completed_at AS at FROM holdfast.inbox_archive WHERE created_at > $1
         UNION ALL SELECT completed_at FROM holdfast.${KEYED}_archive WHERE created_at > $1)
       SELECT count(*)::int AS jobs, extract(epoch FROM percentile_disc(0.95) WITHIN GROUP (ORDER BY at)
         - percentile_disc(0.05) WITHIN GROUP (ORDER BY at))::float AS seconds FROM c`,
      [from],
    );
    return (row.jobs * 0.9) / Math.max(row.seconds, 0.05);
  } finally {
    await hf.close();
  }
}

/** Memory of the processes, sessions and deadlocks of the server, once a second. */
export function startSampler(world, readRss) {
  const samples = [];
  let client = null;
  let asking = false;
  const timer = setInterval(async () => {
    const rss = Object.fromEntries(
      world.fleet.slots.filter(({ runs }) => runs).map((slot) => [slot.name, readRss(slot.pid)]),
    );
    const sample = { at: Date.now(), rss, connections: null, deadlocks: null };
    samples.push(sample);
    if (asking) return;
    asking = true;
    try {
      if (!client) {
        const fresh = new pg.Client({ connectionString: world.server.url, query_timeout: 2_000 });
        fresh.on('error', () => {
          if (client === fresh) client = null;
        });
        client = fresh;
        await fresh.connect();
      }
      const { rows } = await client.query(
        `SELECT count(*)::int AS connections, (SELECT sum(d.deadlocks)::int FROM pg_stat_database AS d) AS deadlocks
         FROM pg_stat_activity WHERE backend_type = 'client backend'`,
      );
      Object.assign(sample, rows[0]);
    } catch {
      client?.end().catch(() => {});
      client = null;
    } finally {
      asking = false;
    }
  }, 1_000);
  return {
    samples,
    /** As they were last counted; null: never. */
    connections: () =>
      samples.findLast(({ connections }) => connections !== null)?.connections ?? null,
    /** In all: a crash of the server sets its counter to 0. */
    deadlocks() {
      const counted = samples.flatMap((sample) => sample.deadlocks ?? []);
      return counted.reduce((sum, n, at) => sum + Math.max(0, n - (counted[at - 1] ?? 0)), 0);
    },
    async stop() {
      clearInterval(timer);
      await client?.end().catch(() => {});
    },
  };
}
