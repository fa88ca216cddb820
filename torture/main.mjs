// `npm run torture -- --minutes 5 --seed S --profile P`: faults on a real fleet, a history, a verdict. Exit code 1: a
// violation was found; its histories are kept, and the command that repeats the schedule is printed.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { checkAll } from './check/index.mjs';
import { readHistories } from './history.mjs';
import { PROFILES, profileOf } from './profiles.mjs';
import { printResult } from './report.mjs';
import { run } from './run.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: randomBytes(4).toString('hex') },
    profile: { type: 'string', default: 'worker' },
    rate: { type: 'string', default: '100' },
    workers: { type: 'string', default: '4' },
    /** Only faults with these names. */
    faults: { type: 'string' },
    /** Short phases and wide bounds of speed, for `npm test`. */
    smoke: { type: 'boolean', default: false },
    /** Only checks the histories that a failed run kept in this folder. */
    check: { type: 'string' },
    /** Keeps the histories of a run that passed, too. */
    histories: { type: 'boolean', default: false },
    keep: { type: 'string', default: join(ROOT, '.holdfast', 'torture') },
    help: { type: 'boolean', short: 'h', default: false },
  },
});

if (values.help) {
  console.log(`npm run torture -- [--minutes 1] [--seed S] [--profile worker] [--rate 100] [--workers 4]
  [--faults NAME,NAME] [--histories] [--keep FOLDER] | --check FOLDER

profiles: ${Object.keys(PROFILES).join(', ')};
  every: one after the other; all: those of one world at once; worker+network: these two at once`);
  process.exit(0);
}

if (values.check) {
  const { state, run: facts } = JSON.parse(readFileSync(join(values.check, 'state.json'), 'utf8'));
  const result = checkAll({ history: readHistories(values.check), state, run: facts });
  printResult(result);
  process.exit(result.violations.length > 0 ? 1 : 0);
}

/** `every`: one profile after the other; `all`: all of them at once. */
const names = values.profile === 'every' ? Object.keys(PROFILES) : [values.profile];
let failed = 0;
const skipped = [];
for (const name of names) {
  const profile = profileOf(name);
  const missing = profile.missing?.();
  if (missing) {
    skipped.push(name);
    console.log(`\nSKIPPED: profile ${name} was not run: ${missing}\n`);
    continue;
  }
  const { seed } = values;
  const seconds = Number(values.minutes) * 60;
  const folder = join(values.keep, `${name}-${seed}`);
  console.log(`\ntorture: profile ${name}, seed ${seed}, ${seconds} s of faults`);
  const only = values.faults?.split(',');
  const result = await run({
    ...{ profile, seed, seconds, folder, dist: join(ROOT, 'packages/holdfast/build') },
    // What users install.
    product: join(ROOT, 'packages/holdfast/dist/index.js'),
    ...(only && { faults: profile.faults.filter((fault) => only.includes(fault.name)) }),
    ...(values.smoke && {
      producers: 1,
      // How fast a backlog drains is for the longer runs, which have the machine to themselves.
      burst: 0,
      baselineMs: 1_000,
      afterMs: 4_000,
    }),
    rate: Number(values.rate),
    workers: Number(values.workers),
    keepHistories: values.histories,
    say: (text) => console.log(`  ${text}`),
  });
  printResult(result);
  const isBroken = result.violations.length > 0;
  if (isBroken || values.histories) console.log(`  histories: ${folder}`);
  if (!isBroken) continue;
  failed++;
  const { minutes, rate, workers, faults, smoke } = values;
  const same = Object.entries({ minutes, seed, profile: name, rate, workers, faults })
    .filter(([, value]) => value !== undefined)
    .map(([option, value]) => `--${option} ${value}`);
  console.log(`  again:     npm run torture -- ${same.join(' ')}${smoke ? ' --smoke' : ''}`);
}
if (skipped.length > 0) console.log(`SKIPPED, not passed: ${skipped.join(', ')}`);
process.exit(failed > 0 ? 1 : 0);
