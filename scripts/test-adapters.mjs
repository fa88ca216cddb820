// `npm run test:adapters [-- FILE …]`: the adapters for libraries that the main install leaves out,
// test/adapters/*.spec.ts, on the real libraries; and in pglite/ the queries of ORMs on the kit's PGlite and on a server,
// with equal results. The libraries are installed into test/adapters when they are missing.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startVitest } from 'vitest/node';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'test/adapters');

function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: folder, stdio: ['ignore', 2, 2] });
  if (status === 0) return;
  console.error(
    `test:adapters: ${command} ${args.join(' ')} failed in ${folder}; nothing was tested.`,
  );
  process.exit(1);
}

// npm writes this file last: an install that was interrupted lacks it.
if (!existsSync(join(folder, 'node_modules', '.package-lock.json'))) {
  console.error('test:adapters: installing the libraries, once …');
  run('npm', ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']);
}
run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', folder]);
const vitest = await startVitest('test', process.argv.slice(2), {
  root,
  config: 'vitest.suite.config.ts',
  watch: false,
  include: ['test/adapters/**/*.spec.ts'],
});
await vitest.close();
