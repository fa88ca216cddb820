// A nats-server with JetStream on a free loopback port, in a folder that goes with it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openNats } from '../../../test/brokers/clients.mjs';

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

export async function startNats() {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-nats-'));
  const port = await freePort();
  const args = ['-a', '127.0.0.1', '-p', `${port}`, '-js', '-sd', folder];
  const child = spawn('nats-server', args, { stdio: 'ignore', cwd: folder });
  process.once('exit', () => child.kill('SIGKILL'));
  // It waits for the first connection.
  const { manager, close } = await openNats(port);
  await (await manager()).streams.add({ name: 'EVENTS', subjects: ['events.>'] });
  await close();
  return {
    port,
    async stop() {
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
