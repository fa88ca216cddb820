// How many jobs a second `holdfast import pg-boss` moves, within one database: `node bench/import.mjs [JOBS]` (300,000),
// after `npm run build`. Every tenth job has a singletonKey. What follows the number is for Node, such as --cpu-prof.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { startEmbedded } from '../packages/embedded/dist/index.js';
import { holdfast } from '../packages/holdfast/dist/index.js';

const jobs = Number(process.argv[2] ?? 300_000);
const CLI = fileURLToPath(new URL('../packages/holdfast/dist/cli.js', import.meta.url));
const TABLES = new URL('../test/support/import/pg-boss.sql', import.meta.url);
const QUEUE = `
INSERT INTO pgboss.queue (name, policy, retry_limit, retry_delay, retry_backoff, expire_seconds, retention_seconds,
  deletion_seconds, partition, table_name)
VALUES ('send_receipt', 'standard', 2, 0, false, 900, 1209600, 604800, false, 'job_common')`;
const FILL = `
INSERT INTO pgboss.job (name, data, policy, singleton_key)
SELECT 'send_receipt', jsonb_build_object('orderId', n, 'to', 'customer-' || n || '@example.com'), 'standard',
  CASE WHEN n % 10 = 0 THEN 'receipt-' || n END
FROM generate_series(1, $1::integer) AS n`;

const server = await startEmbedded({ throwaway: true });
try {
  const hf = holdfast({ connectionString: server.url });
  await hf.migrate();
  await hf.close();
  const client = new pg.Client({ connectionString: server.url });
  client.on('error', () => {});
  await client.connect();
  await client.query(readFileSync(TABLES, 'utf8'));
  await client.query(QUEUE);
  await client.query(FILL, [jobs]);
  await client.query('VACUUM (ANALYZE) pgboss.job');
  const started = performance.now();
  const child = spawn(
    process.execPath,
    [...process.argv.slice(3), CLI, 'import', 'pg-boss', '--url', server.url, '--yes'],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  const code = await new Promise((resolve) => child.once('close', resolve));
  const seconds = (performance.now() - started) / 1_000;
  const { rows } = await client.query('SELECT count(*)::int AS n FROM holdfast.inbox');
  await client.end();
  if (code !== 0 || rows[0].n !== jobs) throw new Error(`${rows[0].n} of ${jobs} jobs are here.`);
  console.log(`${jobs} jobs in ${seconds.toFixed(1)} s: ${Math.round(jobs / seconds)} jobs/s`);
} finally {
  await server.stop();
}
