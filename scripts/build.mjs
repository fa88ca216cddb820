// Makes what each package ships. The core is compiled into packages/holdfast/build, file by file, and from there bundled
// into a few files of dist: a process that loads hundreds of modules starts a quarter of a second later. The packages
// beside it are compiled file by file into their dist. The order follows their imports: each sees the types of those before.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { bundleCore, bundleForJest } from './build/bundles.mjs';
import { writeCommonJs } from './build/commonjs.mjs';
import { freeTypesOfPg } from './build/types.mjs';
import { writeClientFiles } from './client.mjs';
import { writeKeeperSource } from './keeper-source.mjs';
import { ROOT } from './root.mjs';

const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');

function run(args) {
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 2, 2] });
  return new Promise((resolve, reject) => {
    child.once('exit', (status) =>
      status === 0 ? resolve() : reject(new Error(`${args.join(' ')} ended with ${status}`)),
    );
  });
}

const compile = (place) => run([TSC, '-p', join(ROOT, place, 'tsconfig.build.json')]);

// Beside the rest: it takes seconds, and needs nothing of what is made here. V8 does not earn back what it would optimize
// of initdb.
const labData = run(['--liftoff-only', join(ROOT, 'scripts/lab-data.mjs')]);
labData.catch(() => undefined);

const core = join(ROOT, 'packages/holdfast');
await compile('packages/holdfast');
freeTypesOfPg(join(core, 'build'));
await writeKeeperSource(join(core, 'build'));
await bundleCore(core);
await Promise.all([
  compile('packages/testing').then(() => bundleForJest(core, join(ROOT, 'packages/testing'))),
  compile('packages/embedded'),
  compile('packages/nest'),
  compile('packages/dashboard').then(() => writeClientFiles(join(ROOT, 'packages/dashboard/dist'))),
]);
for (const name of ['testing', 'embedded', 'nest', 'dashboard']) {
  const dist = join(ROOT, 'packages', name, 'dist');
  freeTypesOfPg(dist);
  await writeCommonJs(dist, dist, { index: 'index' });
}
await compile('apps/demo');
await labData;
