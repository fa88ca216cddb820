// A Redis for BullMQ's own backend, where a `redis-server` is on the PATH. It keeps an append-only
// file, as BullMQ asks for in production, in a folder that goes away with it.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** Null, and a loud sentence, when there is none. */
export async function startRedis(say) {
  if (spawnSync('redis-server', ['--version']).status !== 0) {
    say('*** BullMQ on Redis: SKIPPED, there is no redis-server on the PATH ***');
    return null;
  }
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-redis-'));
  const child = spawn(
    'redis-server',
    ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--appendonly', 'yes'],
    { stdio: ['ignore', 'pipe', 'inherit'], cwd: folder },
  );
  await new Promise((resolve, reject) => {
    child.stdout.on('data', (text) => `${text}`.includes('Ready to accept') && resolve());
    child.once('exit', (code) => reject(new Error(`redis-server ended with ${code}`)));
  });
  return {
    url: `redis://127.0.0.1:${port}`,
    async stop() {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await gone;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
