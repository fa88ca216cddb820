// Runs the tests of the alert rules, test/alerts/*.spec.ts, with promtool. They are not part of `npm test`,
// because nothing installs promtool for them. Without it they are counted as skipped, and it says so.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { startVitest } from 'vitest/node';

const found = spawnSync('promtool', ['--version']);
if (found.status !== 0) {
  console.error(
    'test:alerts: promtool was NOT FOUND, so the alert rules are NOT TESTED: all tests below are skipped.\n' +
      'It is part of Prometheus. Install it and run this again:\n' +
      '  apt-get install --no-install-recommends prometheus     (Debian, Ubuntu; its service is not needed)',
  );
} else {
  console.error(`test:alerts: ${String(found.stdout).split('\n')[0]}`);
}
const root = fileURLToPath(new URL('..', import.meta.url));
const vitest = await startVitest('test', process.argv.slice(2), {
  root,
  config: 'vitest.suite.config.ts',
  watch: false,
  include: ['test/alerts/**/*.spec.ts'],
  // No test here needs a database.
  globalSetup: [],
});
await vitest.close();
