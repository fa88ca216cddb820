// `node scripts/lines.mjs [REVISION]`: the lines of what is shipped, with comments and blank lines and without tests, of
// the checkout's last commit or of the one that is named. Version 0.1 had all of it in src and ui.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const cwd = fileURLToPath(new URL('..', import.meta.url));
const git = (...args) => execFileSync('git', args, { cwd, encoding: 'utf8', maxBuffer: 2 ** 30 });

const [revision = 'HEAD'] = process.argv.slice(2);
const SHIPPED = /^(?:(src|ui)|packages\/([a-z]+)\/(?:src|ui))\/.*\.(?:tsx?|css|html)$/;
const lines = {};
for (const path of git('ls-tree', '-r', '--name-only', revision).split('\n')) {
  const [, old, name = old] = SHIPPED.exec(path) ?? [];
  if (!name || /\.test\.tsx?$/.test(path)) continue;
  const count = git('show', `${revision}:${path}`).split('\n').length - 1;
  lines[name] = (lines[name] ?? 0) + count;
}
for (const [name, count] of Object.entries(lines)) console.log(`${name.padEnd(12)} ${count}`);
console.log(`all          ${Object.values(lines).reduce((sum, count) => sum + count, 0)}`);
