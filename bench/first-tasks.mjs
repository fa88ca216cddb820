// `node bench/first-tasks.mjs [TASK …]`: the first things that one does with a queue, as whole programs for
// Holdfast, pg-boss and graphile-worker (bench/first-tasks). Each runs on a database of its own and must
// print what its task says; then its lines are counted and the table in docs/peers.md is written. With names
// of tasks only those run, and nothing is written. Build first: npm run build.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ensurePeers, nodeBinary } from './install.mjs';

try {
  ensurePeers();
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
const script = fileURLToPath(new URL('./first-tasks/run.mjs', import.meta.url));
const child = spawn(nodeBinary, [script, ...process.argv.slice(2)], { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => process.exit(code ?? (signal ? 130 : 1)));
