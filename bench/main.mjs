// `npm run bench [-- PART …] [--quick] [--whole] [--write-docs]`: Holdfast beside its peers on one
// Postgres.
// This file only checks the words, installs the peers when they are missing, and runs `run.mjs` on
// the Node that the peers need, so that Holdfast and they run on the same one.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ALONE, parseArguments } from './arguments.mjs';
import { ensurePeers, nodeBinary } from './install.mjs';

const words = process.argv.slice(2);
const { problem, parts } = parseArguments(words);
if (problem) {
  console.error(problem);
  process.exit(2);
}
const alone = parts.every((name) => ALONE.includes(name));
try {
  if (!alone) ensurePeers();
} catch (error) {
  console.error(error.message);
  process.exit(1);
}

// The channel tells the child when this process is gone, however it went.
const node = alone ? process.execPath : nodeBinary;
const child = spawn(node, [fileURLToPath(new URL('./run.mjs', import.meta.url)), ...words], {
  stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => process.exit(code ?? (signal ? 130 : 1)));
