// Runs the tests that need PgBouncer, test/pooler/*.spec.ts (all of them, or those named on the command
// line). They are not part of `npm test`, because nothing installs PgBouncer for them.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { startVitest } from 'vitest/node';

const PATH = `${process.env.PATH}:/usr/sbin:/usr/local/sbin`;
const found = spawnSync('pgbouncer', ['--version'], { env: { ...process.env, PATH } });
if (found.status !== 0) {
  console.error(
    'test:pooler: PgBouncer was not found, so nothing was tested. Install it and run this again:\n' +
      '  apt-get install pgbouncer     (Debian, Ubuntu; its system service is not needed)',
  );
  process.exit(1);
}
console.error(`test:pooler: ${String(found.stdout).split('\n')[0]}`);
const root = fileURLToPath(new URL('..', import.meta.url));
const filters = process.argv.slice(2);
const vitest = await startVitest('test', filters, {
  root,
  config: 'vitest.suite.config.ts',
  watch: false,
  include: ['test/pooler/**/*.spec.ts'],
});
await vitest.close();
