// `npm run test:nodes [-- MAJOR … FILE …]`: the first hour on other Nodes, one after another. Each gets the npm
// that it comes with, because npm writes the package.json that docs/start.md begins with. Both come from npm,
// into .versions. Without files: the start page, the package and a worker's journey.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
/** The npm that each major comes with. */
const NPM = { 22: 10, 24: 11, 26: 11 };
const FILES = [
  'test/product/start.test.ts',
  'test/product/package.test.ts',
  'test/product/smoke.test.ts',
  'test/worker/outcomes.test.ts',
];

const words = process.argv.slice(2);
const majors = words.filter((word) => /^\d+$/.test(word));
const files = words.filter((word) => !/^\d+$/.test(word));
const wrong = [
  ...majors.filter((major) => !NPM[major]),
  ...files.filter((file) => !existsSync(join(root, file))),
];
if (wrong.length > 0) {
  console.error(
    `${wrong.join(', ')}: neither a major (${Object.keys(NPM).join(', ')}) nor a file; nothing was run.`,
  );
  process.exit(2);
}

/** The folder of the commands `node`, `npm` and `npx`, installed when they are missing. */
function commandsOf(major) {
  const folder = join(root, '.versions', `node-${major}`);
  const modules = join(folder, 'node_modules');
  // npm writes this file last: an install that was interrupted lacks it.
  if (!existsSync(join(modules, '.package-lock.json'))) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
    const packages = [`node@${major}`, `npm@${NPM[major]}`];
    console.error(`test:nodes: installing ${packages.join(' and ')} …`);
    const args = ['install', '--no-save', '--no-audit', '--no-fund', ...packages];
    const { status } = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 2, 2] });
    if (status !== 0) throw new Error(`npm ${args.join(' ')} failed in ${folder}.`);
  }
  return join(modules, '.bin');
}

let failed = 0;
for (const major of majors.length > 0 ? majors : Object.keys(NPM)) {
  const commands = commandsOf(major);
  const env = { ...process.env, PATH: `${commands}${delimiter}${process.env.PATH}` };
  const version = spawnSync('node', ['--version'], { env, encoding: 'utf8' }).stdout.trim();
  console.log(`\n=== Node ${version}`);
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const args = [vitest, 'run', ...(files.length > 0 ? files : FILES)];
  const { status } = spawnSync(join(commands, 'node'), args, { cwd: root, env, stdio: 'inherit' });
  if (status !== 0) failed++;
  console.log(`=== Node ${version}: ${status === 0 ? 'passed' : 'FAILED'}`);
}
process.exit(failed > 0 ? 1 : 0);
