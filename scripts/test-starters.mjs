// `npm run test:starters [-- -t NAME]`: the templates of `holdfast init`, as a user gets them (test/starters/*.spec.ts). Our
// packages are packed; each template is written into an empty folder, installed from the registry, compiled, tested and
// started. Without a registry everything is skipped, and said so.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startVitest } from 'vitest/node';
import { ROOT } from './root.mjs';

const PACKAGES = [
  'holdfast',
  ...['testing', 'embedded', 'dashboard', 'nest'].map((name) => `@holdfast/${name}`),
];

const online = spawnSync('npm', ['view', 'pg', 'version'], { cwd: ROOT, timeout: 60_000 });
if (online.status !== 0)
  console.error('SKIPPED: npm reaches no registry, so no starter is installed and NONE IS TESTED.');

const folder = mkdtempSync(join(tmpdir(), 'holdfast-starters-'));
try {
  const which = PACKAGES.flatMap((name) => ['-w', name]);
  const quietly = ['--ignore-scripts', '--loglevel=error', '--pack-destination', folder];
  const pack = spawnSync('npm', ['pack', ...quietly, ...which], {
    cwd: ROOT,
    stdio: ['ignore', 2, 2],
  });
  if (pack.status !== 0) throw new Error('npm pack failed; nothing was tested.');
  process.env.HOLDFAST_STARTERS = folder;
  if (online.status !== 0) process.env.HOLDFAST_STARTERS_OFFLINE = '1';
  const at = process.argv.indexOf('-t');
  const vitest = await startVitest('test', [], {
    root: ROOT,
    config: 'vitest.suite.config.ts',
    watch: false,
    include: ['test/starters/**/*.spec.ts'],
    ...(at > 0 && { testNamePattern: process.argv[at + 1] }),
  });
  await vitest.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
