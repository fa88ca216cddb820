// Bytes on disk and in the log for a step whose value has 20 bytes.
import pg from 'pg';
import { vacuum } from '../databases.mjs';
import { collect, startProcess } from './process.mjs';
import { ratio } from './steps.mjs';

const VALUE = 'x'.repeat(18);

async function measure(system, url, runs, steps) {
  const admin = new pg.Client({ connectionString: url });
  admin.on('error', () => {});
  await admin.connect();
  const worker = await startProcess(system, url, { concurrency: 10 });
  const client = await system.client(url);
  const go = async (count) => {
    const ended = collect([worker], 'ended', count);
    const input = { count: steps, value: VALUE };
    for (let n = 0; n < count; n++) await client.start('steps', input);
    await ended;
  };
  const read = async () => {
    await vacuum(url, system.schema);
    const { rows } = await admin.query(
      `SELECT sum(pg_total_relation_size(format('%I.%I', $1::text, t)::regclass))::float8 AS bytes
       FROM unnest($2::text[]) AS t`,
      [system.schema, system.tables],
    );
    return rows[0].bytes;
  };
  await go(1);
  const before = await read();
  await admin.query('CHECKPOINT');
  const { rows: from } = await admin.query('SELECT pg_current_wal_lsn() AS lsn');
  await go(runs);
  const { rows: wal } = await admin.query(
    'SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1)::float8 AS bytes',
    [from[0].lsn],
  );
  const count = runs * steps;
  const found = { disk: ((await read()) - before) / count, wal: wal[0].bytes / count };
  await client.close();
  await worker.kill();
  await admin.end();
  return found;
}

export async function space({ systems, databases, size, figure, fact }) {
  const found = {};
  for (const system of Object.values(systems)) {
    const url = await databases.fresh(system);
    found[system.name] = await measure(system, url, size(40, 10), 500);
    const { disk, wal } = found[system.name];
    fact(`workflows.bytes_a_step_${system.name}`, disk.toFixed(0));
    fact(`workflows.wal_bytes_a_step_${system.name}`, wal.toFixed(0));
  }
  const { holdfast, dbos } = found;
  ratio(figure, 'workflows.bytes_a_step', holdfast.disk, '<=', 200, 0);
  ratio(figure, 'workflows.wal_a_step_to_dbos', holdfast.wal / dbos.wal, '<=', 0.5);
}
