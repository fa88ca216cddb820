// `npm run test:import [-- FILE …]`: `holdfast import` from pg-boss, graphile-worker and BullMQ themselves,
// test/import/*.spec.ts. They are installed into test/import when they are missing; BullMQ is skipped, and says so,
// where no redis-server is on the PATH.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startVitest } from 'vitest/node';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'test/import');

function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: folder, stdio: ['ignore', 2, 2] });
  if (status === 0) return;
  console.error(
    `test:import: ${command} ${args.join(' ')} failed in ${folder}; nothing was tested.`,
  );
  process.exit(1);
}

// npm writes this file last: an install that was interrupted lacks it.
if (!existsSync(join(folder, 'node_modules', '.package-lock.json'))) {
  console.error('test:import: installing the libraries, once …');
  run('npm', ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']);
}
const vitest = await startVitest('test', process.argv.slice(2), {
  root,
  config: 'vitest.suite.config.ts',
  watch: false,
  include: ['test/import/**/*.spec.ts'],
});
await vitest.close();
