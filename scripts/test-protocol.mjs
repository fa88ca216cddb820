// Runs the example workers in Python and in psql beside workers in TypeScript, under faults: test/protocol/*.spec.ts. They are
// not part of `npm test`, because nothing installs Python's driver and psql for them. What is missing is skipped, and it says so.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { startVitest } from 'vitest/node';

const runs = (command, ...args) => spawnSync(command, args).status === 0;
// Debian's own, where another python3 stands before it on the path.
const python = ['python3', '/usr/bin/python3'].find((one) => runs(one, '-c', 'import psycopg'));
const psql = runs('psql', '--version') && runs('bash', '--version');
if (!python)
  console.error(
    'test:protocol: Python with psycopg 3 was NOT FOUND, so the worker in Python is NOT TESTED: its tests are SKIPPED.\n' +
      '  apt-get install -y python3-psycopg     (Debian, Ubuntu)',
  );
if (!psql)
  console.error(
    'test:protocol: psql or bash was NOT FOUND, so the worker in psql is NOT TESTED: its tests are SKIPPED.\n' +
      '  apt-get install -y postgresql-client     (Debian, Ubuntu)',
  );
process.env.HOLDFAST_PYTHON = python ?? '';
process.env.HOLDFAST_PSQL = psql ? 'psql' : '';
const root = fileURLToPath(new URL('..', import.meta.url));
const vitest = await startVitest('test', process.argv.slice(2), {
  root,
  config: 'vitest.suite.config.ts',
  watch: false,
  include: ['test/protocol/**/*.spec.ts'],
});
await vitest.close();
