// `npm run bench -- fleet-size [--quick] [--rounds N] [--only ROW]`: what must not grow with the size
// of a fleet, a backlog or an archive. Each row has a fresh database for each of its scenes and uses
// the public API only; a row is named by its number or its name.
import { openDatabases } from '../databases.mjs';
import { serverIsOld } from '../fleet/processes.mjs';
import { loadSystem } from '../systems/index.mjs';
import { killWorkers, openScene } from './scene.mjs';

const ROWS = [
  'declared-limits',
  'held-limit',
  'blocked-heads',
  'held-claims',
  'changed-rate',
  'keyed-rate',
  'fleet-kills',
  'old-archive',
  'one-of-many',
  'many-queues',
  'ticks',
  'turns',
  'unique-cancels',
];

function chosen(only) {
  if (only === null) return ROWS;
  const name = ROWS[Number(only) - 1] ?? only;
  if (ROWS.includes(name)) return [name];
  throw new Error(`there is no row called ${only}; there are ${ROWS.join(', ')}, or 1 to 13`);
}

/** One that breaks is short, and the others still run. */
export async function fleetSize(context) {
  const { stage, server, url, quick, options, figure, fact, say, only } = context;
  const names = chosen(only);
  const databases = openDatabases(stage.admin, url);
  const system = await loadSystem('holdfast');
  let scene = null;
  const open = async () => {
    scene = await openScene({ databases, system, server });
    return scene;
  };
  const size = (whole, small) => (quick ? small : whole);
  await serverIsOld(stage.admin);
  try {
    for (const name of names) {
      const from = performance.now();
      say(`— ${ROWS.indexOf(name) + 1} ${name}`);
      try {
        const { run } = await import(`./${name}.mjs`);
        await run({ open, size, rounds: options.rounds ?? size(3, 1), figure, fact, say });
      } catch (error) {
        console.error(error);
        figure(`fleet-size.${name}_ran`, `no: ${error.message.split('\n')[0]}`, 'yes', false);
        await killWorkers();
        await scene?.close().catch(() => {});
      }
      say(`  ${name} took ${((performance.now() - from) / 1000).toFixed(0)} s`);
    }
  } finally {
    await killWorkers();
    await databases.close();
  }
}
