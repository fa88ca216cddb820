// `npm run torture:mutants`: who checks the checker? Each planted bug must be found by a short run of its profile, and
// by the part of the checker that is there for it. First a control: the product as it is passes the same run.
// Last a control of the ground: without synchronous commits a crash loses acknowledged work, and that is found.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { profileOf } from '../profiles.mjs';
import { run } from '../run.mjs';
import { buildMutant } from './build.mjs';
import { MUTANTS } from './list.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const { values } = parseArgs({
  options: {
    /** Only those whose name has one of these in it, with commas between. */
    only: { type: 'string', default: '' },
    /** From this one on, counted from 1: to go on after an interruption. */
    from: { type: 'string', default: '1' },
    seed: { type: 'string', default: 'mutants' },
    seconds: { type: 'string', default: '16' },
    /** A second and a third run, with other seeds, before a mutant counts as missed. */
    tries: { type: 'string', default: '2' },
  },
});

const CONTROLS = [
  { name: 'control: the product as it is', patches: {}, profile: 'worker+network', caughtBy: null },
  {
    name: 'negative control: synchronous_commit off, and a crash',
    patches: {},
    profile: 'database',
    faults: ['kill-postmaster'],
    // Otherwise the WAL writer saves within 0.2 s what nobody waited for.
    settings: { synchronous_commit: 'off', wal_writer_delay: '10s', wal_writer_flush_after: 0 },
    caughtBy: /^acceptance: .* is lost/,
  },
];

/** What is measured in phases that these runs cut short. */
const TOO_SHORT = /^liveness: (after healing|at the end|the backlog drained)/;

async function attempt(mutant, dist, seed) {
  const profile = profileOf(mutant.profile);
  const faults = mutant.faults
    ? profile.faults.filter(({ name }) => mutant.faults.includes(name))
    : profile.faults;
  return run({
    profile: {
      ...profile,
      settings: mutant.settings,
      producerConfig: (n) => ({ ...profile.producerConfig?.(n), ...mutant.producer }),
    },
    faults,
    ...{ seed, dist, everyMs: mutant.everyMs ?? 1_600 },
    seconds: mutant.seconds ?? Number(values.seconds),
    folder: join(ROOT, '.holdfast', 'torture', `mutant-${mutant.name.replaceAll(/\W+/g, '-')}`),
    ...{
      burst: 0,
      rate: mutant.rate ?? 40,
      baselineMs: 500,
      afterMs: 2_000,
      drains: 1,
      stillMs: 15_000,
      // What a stuck job is takes a whole drain to see; the rest shows in what was done.
      ...(!/stuck/.test(String(mutant.caughtBy)) && mutant.caughtBy && { drainMs: 3_000 }),
      ...(mutant.drainMs && { drainMs: mutant.drainMs }),
      workers: mutant.workers ?? 3,
      keepsCrashing: mutant.keepsCrashing,
    },
  });
}

/** What was found, or null. */
async function hunt(mutant) {
  const { dist, remove } = await buildMutant(mutant);
  const from = Date.now();
  try {
    for (let n = 1; n <= Number(values.tries); n++) {
      const { violations, counts } = await attempt(mutant, dist, `${values.seed}-${n}`);
      // A build that does nothing at all breaks every promise but one, and proves nothing.
      if (counts.throughput.before === 0 && counts.throughput.during === 0)
        throw new Error(`mutant "${mutant.name}" does not work at all`);
      const found = mutant.caughtBy
        ? violations.filter((text) => mutant.caughtBy.test(text))
        : violations.filter((text) => !TOO_SHORT.test(text));
      const seconds = Math.round((Date.now() - from) / 1000);
      if (found.length > 0 || !mutant.caughtBy) return { found, seconds, runs: n };
      if (violations.length > 0)
        console.log(`    other violations: ${violations.slice(0, 3).join(' | ')}`);
    }
    return {
      found: [],
      seconds: Math.round((Date.now() - from) / 1000),
      runs: Number(values.tries),
    };
  } finally {
    remove();
  }
}

const all = [CONTROLS[0], ...MUTANTS, CONTROLS[1]]
  .filter(({ name }) => values.only.split(',').some((part) => name.includes(part)))
  .slice(Number(values.from) - 1);
if (all.length === 0) {
  console.error(
    `No mutant is named "${values.only}", or there are fewer than ${values.from}; nothing was run.`,
  );
  process.exit(2);
}
let right = 0;
for (const mutant of all) {
  const { found, seconds, runs } = await hunt(mutant);
  const ok = mutant.caughtBy ? found.length > 0 : found.length === 0;
  if (ok) right++;
  const what = mutant.caughtBy ? (ok ? 'caught' : 'MISSED') : ok ? 'passed' : 'FAILED';
  console.log(
    `${what}: ${mutant.name} (${mutant.profile}, ${seconds} s, ${runs} run${runs > 1 ? 's' : ''})`,
  );
  if (found[0]) console.log(`    ${found.length} times, such as: ${found[0]}`);
}
console.log(`${right}/${all.length}`);
process.exit(right === all.length ? 0 : 1);
