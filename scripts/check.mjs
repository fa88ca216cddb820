// Format, lint, types, then the tests; import directions and the schema diff are tests.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const steps = [
  ['format and lint', ['node_modules/@biomejs/biome/bin/biome', 'check', '.']],
  ['types', ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.json']],
  ['types of the client', ['node_modules/typescript/bin/tsc', '-p', 'packages/dashboard/ui']],
  ...(process.argv.includes('--without-tests') ? [] : [['tests', ['scripts/test.mjs']]]),
];
for (const [what, args] of steps) {
  console.error(`check: ${what} …`);
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) {
    console.error(`check: ${what} failed.`);
    process.exit(status ?? 1);
  }
}
console.error('check: all good.');
