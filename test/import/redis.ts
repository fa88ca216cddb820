/** A Redis of its own for these tests, where a redis-server is on the PATH. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const hasRedis = spawnSync('redis-server', ['--version']).status === 0;
if (!hasRedis)
  console.error(
    '*** BullMQ: SKIPPED, there is no redis-server on the PATH (apt-get install redis-server) ***',
  );

export interface Redis {
  readonly url: string;
  stop(): Promise<void>;
}

export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}

/** On a socket that no other process can meet: Redis picks no free port by itself. */
export async function startRedis(port: number): Promise<Redis> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-redis-'));
  const child = spawn(
    'redis-server',
    ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  await new Promise<void>((resolve, reject) => {
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
