// `npm run test:brokers [-- FILE …]`: the sinks of the outbox on real brokers, test/brokers/*.spec.ts. The suite starts them on
// free loopback ports in new folders and ends them. The clients are installed into test/brokers when they are missing. A broker
// that is not installed is skipped, and says so: apt-get install nats-server redis-server rabbitmq-server kcat
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startVitest } from 'vitest/node';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'test/brokers');

function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: folder, stdio: ['ignore', 2, 2] });
  if (status === 0) return;
  console.error(
    `test:brokers: ${command} ${args.join(' ')} failed in ${folder}; nothing was tested.`,
  );
  process.exit(1);
}

// npm writes this file last: an install that was interrupted lacks it.
if (!existsSync(join(folder, 'node_modules', '.package-lock.json'))) {
  console.error('test:brokers: installing the libraries, once …');
  run('npm', ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']);
}

const vitest = await startVitest('test', process.argv.slice(2), {
  root,
  config: 'vitest.suite.config.ts',
  watch: false,
  // RabbitMQ takes half a minute to start on a busy machine.
  testTimeout: 180_000,
  hookTimeout: 180_000,
  include: ['test/brokers/**/*.spec.ts'],
});
await vitest.close();
