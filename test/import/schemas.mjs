// Writes test/support/import/*.sql: the tables of pg-boss and graphile-worker as they make them themselves, without
// what an import does not read. `node test/import/schemas.mjs postgres://…`, on an empty database of a server for which
// pg_dump is on the PATH; after `npm run test:import` has installed the packages.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { runMigrations } from 'graphile-worker-18';
import pg from 'pg';
import { PgBoss } from 'pg-boss-12';

const url = process.argv[2];
const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
await boss.start();
await boss.stop({ graceful: false });
await runMigrations({ connectionString: url });

// pg_dump of tables leaves out their types, and all rows.
const client = new pg.Client({ connectionString: url });
await client.connect();
const { rows } = await client.query(`
  SELECT (SELECT version FROM pgboss.version) AS boss, (SELECT max(id) FROM graphile_worker.migrations) AS graphile,
    enum_range(NULL::pgboss.job_state)::text[] AS states`);
await client.end();
const states = rows[0].states.map((state) => `'${state}'`).join(', ');

const dump = (name, release, version, schema, tables, more = '') => {
  const wanted = tables.flatMap((table) => ['-t', `${schema}.${table}`]);
  const args = ['--schema-only', '--no-owner', '--no-privileges', '--no-comments', ...wanted, url];
  const { stdout, stderr, status } = spawnSync('pg_dump', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  const text = stdout
    .split('\n')
    .filter((line) => !/^(--.*|\s*|SET .*|SELECT pg_cat.*|\\.*)$/.test(line));
  const head = `-- Of ${release}, made by test/import/schemas.mjs.\nCREATE SCHEMA ${schema};\n${more}`;
  const row = `INSERT INTO ${schema}.${tables[0]} VALUES (${version});\n`;
  writeFileSync(
    new URL(`../support/import/${name}.sql`, import.meta.url),
    `${head}${text.join('\n')}\n${row}`,
  );
};
const type = `CREATE TYPE pgboss.job_state AS ENUM (${states});\n`;
const boss12 = ['version', 'queue', 'schedule', 'subscription', 'job', 'job_common'];
dump('pg-boss', 'pg-boss 12.38.0', rows[0].boss, 'pgboss', boss12, type);
const graphile18 = ['migrations', '_private_*'];
dump('graphile-worker', 'graphile-worker 0.18.0', rows[0].graphile, 'graphile_worker', graphile18);
