/** `holdfast demo`: the product running on an embedded Postgres. A process of its own, with this terminal. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Call, EXIT, Failure } from '../../command.js';

export async function run({ given, args }: Call): Promise<number> {
  const script = fileURLToPath(new URL('../../../../../../apps/demo/src/main.js', import.meta.url));
  if (!existsSync(script))
    throw new Failure('This build of holdfast has no demo; nothing was started.');
  const forHowLong = given.text('for');
  const words = [...(forHowLong === undefined ? [] : ['--for', forHowLong]), ...args];
  const child = spawn(process.execPath, [script, ...words], { stdio: 'inherit' });
  // The terminal sends Ctrl-C to both; the demo drains and this process waits for it.
  const pass = (name: NodeJS.Signals) => void child.kill(name);
  const stay = () => {};
  process.on('SIGTERM', pass);
  process.on('SIGINT', stay);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      process.off('SIGTERM', pass);
      process.off('SIGINT', stay);
      // Before the shop is open, Ctrl-C ends it at once.
      resolve(code ?? (signal === 'SIGINT' ? EXIT.interrupted : EXIT.failed));
    });
  });
}
