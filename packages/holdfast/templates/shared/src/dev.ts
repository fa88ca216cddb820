// `npm run dev`: runs the first program of its arguments to its end, which migrates, and then the others side by side.
// The database is that of DATABASE_URL, or a Postgres from npm whose data stays in the folder .holdfast.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { startEmbedded } from '@holdfast/embedded';

const [first = '', ...others] = process.argv.slice(2);
const server = process.env.DATABASE_URL ? null : await startEmbedded({ onProgress: console.log });
const env = { ...process.env, DATABASE_URL: process.env.DATABASE_URL ?? server?.url };
const running = new Set<ChildProcess>();
let stopping = false;

/** Once: a second signal would end a worker that drains. */
function stop(): void {
  if (stopping) return;
  stopping = true;
  for (const child of running) child.kill('SIGTERM');
}
process.on('SIGTERM', stop);
process.on('SIGINT', stop);
// npm's shell may end at a SIGTERM without passing it on.
const parent = process.ppid;
setInterval(() => process.ppid === parent || stop(), 250).unref();

/** Resolves with the exit code. */
async function run(program: string): Promise<number> {
  const child = spawn(process.execPath, program.split(' '), { env, stdio: 'inherit' });
  running.add(child);
  const [code] = await once(child, 'exit');
  running.delete(child);
  return code ?? 1;
}

process.exitCode = await run(first);
if (process.exitCode === 0 && !stopping) {
  // When one ends, the others have no use.
  const codes = await Promise.all(others.map((program) => run(program).finally(stop)));
  process.exitCode = Math.max(...codes);
}
await server?.stop();
console.log(`dev: all has stopped, exit code ${process.exitCode}`);
