// What a fleet takes without working: connections of an idle worker, and the disk of waiting jobs.
import pg from 'pg';
import { plain } from '../statistics.mjs';
import { loadSystem } from '../systems/index.mjs';

const MAX_CONNECTIONS = 3;
const MAX_BYTES = 450;

const count = async (admin) =>
  (
    await admin.query(
      `SELECT count(*)::int AS n FROM pg_stat_activity
       WHERE datname = current_database() AND backend_type = 'client backend'`,
    )
  ).rows[0].n;

/** All connections of its process to the database, whatever they are called. */
export async function connections({ open, figure, say }) {
  for (const queues of [[], ['second', 'third', 'fourth']]) {
    const scene = await open();
    for (const queue of queues) await scene.hf.createQueue(queue);
    const before = await count(scene.admin);
    await scene.worker({}, queues);
    await scene.settle();
    await scene.settle();
    const n = (await count(scene.admin)) - before;
    const { rows } = await scene.admin.query(
      `SELECT application_name AS name, left(query, 60) AS query FROM pg_stat_activity
       WHERE datname = current_database() AND backend_type = 'client backend'
         AND pid <> pg_backend_pid()`,
    );
    for (const { name, query } of rows) say(`${name}: ${query.replaceAll(/\s+/g, ' ')}`);
    const name = `fleet.connections_${queues.length + 1}_queue${queues.length > 0 ? 's' : ''}`;
    figure(name, `${n}`, `<= ${MAX_CONNECTIONS}`, n <= MAX_CONNECTIONS);
    await scene.close();
  }
}

/** `{ "orderId": 1000017, "note": "…" }`, 67 bytes. */
function payloadOf(n) {
  const short = { orderId: 1_000_000 + n, note: '' };
  return { ...short, note: 'x'.repeat(67 - JSON.stringify(short).length) };
}

async function bytesPerJob(url, system, jobs) {
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  const size = async () =>
    Number(
      (
        await admin.query(
          `SELECT sum(pg_total_relation_size(c.oid)) AS bytes
           FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
           WHERE n.nspname = $1 AND c.relkind = 'r'`,
          [system.schema],
        )
      ).rows[0].bytes,
    );
  const before = await size();
  const producer = await system.producer(url, { connections: 2, configuration: 'steady' });
  for (let n = 0; n < jobs; n += 1_000)
    await producer.many(Array.from({ length: 1_000 }, (_, k) => ({ payload: payloadOf(n + k) })));
  await producer.close();
  const bytes = (await size()) - before;
  await admin.end();
  return bytes / jobs;
}

/** Tables and indexes of the whole schema, of jobs that wait. */
export async function disk({ databases, quick, figure, fact }) {
  const jobs = quick ? 20_000 : 100_000;
  for (const name of ['holdfast', 'graphile-worker', 'pg-boss']) {
    const system = await loadSystem(name);
    const bytes = await bytesPerJob(await databases.fresh(system), system, jobs);
    if (name === 'holdfast')
      figure(
        'fleet.disk_per_job',
        `${plain(bytes)} bytes`,
        `<= ${MAX_BYTES} bytes`,
        bytes <= MAX_BYTES,
      );
    else fact(`fleet.disk_per_job_${name}`, `${plain(bytes)} bytes`);
  }
}
