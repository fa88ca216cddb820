// Runs the tests that `npm test` runs in a shorter form, in full: those that ask test/support/long.ts. About ten minutes.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const files = ['packages', 'apps', 'test']
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, String(name))),
  )
  .filter((name) => name.endsWith('.test.ts') && !name.includes('node_modules'))
  .filter((name) => /support\/long\.js'/.test(readFileSync(join(root, name), 'utf8')));
const result = spawnSync(
  process.execPath,
  ['scripts/test.mjs', ...files, ...process.argv.slice(2)],
  {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, HOLDFAST_LONG: '1' },
  },
);
process.exit(result.status ?? 1);
