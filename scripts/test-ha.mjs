// Runs the tests of failover, rewind and upgrades, test/ha/*.spec.ts, with the system's own Postgres. They are not part
// of `npm test`, because nothing installs it for them. What cannot be run here is counted as skipped, and it says so.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startVitest } from 'vitest/node';

const HOME = '/usr/lib/postgresql';
const found = (existsSync(HOME) ? readdirSync(HOME) : []).filter(
  (name) => Number(name) >= 15 && existsSync(join(HOME, name, 'bin', 'pg_upgrade')),
);
for (const name of found) {
  const { stdout } = spawnSync(join(HOME, name, 'bin', 'postgres'), ['--version']);
  console.error(`test:ha: ${String(stdout).trim()}`);
}
if (found.length === 0) {
  console.error(
    `test:ha: NO POSTGRES WAS FOUND in ${HOME}, so failover, rewind and upgrades are NOT TESTED: all tests below are skipped.\n` +
      'Its programs are needed, which the embedded Postgres has not. Install it and run this again:\n' +
      '  apt-get install --no-install-recommends postgresql-15     (Debian, Ubuntu; its own cluster is not used)',
  );
} else if (found.length === 1) {
  console.error(
    `test:ha: only one major version has pg_upgrade here, so pg_upgrade TO A NEWER MAJOR VERSION IS NOT TESTED.\n` +
      `It is tried from ${found[0]} to ${found[0]}; install a second one beside it for the rest.`,
  );
}
const root = fileURLToPath(new URL('..', import.meta.url));
const vitest = await startVitest('test', process.argv.slice(2), {
  root,
  config: 'vitest.suite.config.ts',
  watch: false,
  include: ['test/ha/**/*.spec.ts'],
  // Servers of their own; one file at a time, because each has a fleet.
  globalSetup: [],
  fileParallelism: false,
});
await vitest.close();
