// `npm run bench -- fleet [--quick] [--whole] [--only NAME]`: what a fleet promises, measured. A
// section is loaded when it runs. Those of the first list reach behind Holdfast's public API and
// share one database; scenarios have a fresh one each and use the public API only.
import { openDatabases } from '../databases.mjs';
import { loadSystem } from '../systems/index.mjs';
import { stopWorkers } from './processes.mjs';
import { openScene } from './scene.mjs';

const sections = {
  ring: async () => (await import('./ring.mjs')).ring,
  latency: async () => (await import('./wakeups.mjs')).latency,
  producers: async () => (await import('./wakeups.mjs')).producers,
  order: async () => (await import('./order.mjs')).order,
  horizon: async () => (await import('./order.mjs')).horizon,
  recovery: async () => (await import('./recovery.mjs')).recovery,
};
const scenarios = {
  'oldest-first': async () => (await import('./oldest-first.mjs')).oldestFirst,
  'idle-hands': async () => (await import('./hands.mjs')).idleHands,
  'even-hands': async () => (await import('./hands.mjs')).evenHands,
  frozen: async () => (await import('./frozen.mjs')).frozen,
  'crash-beside': async () => (await import('./crashes.mjs')).crashBeside,
  'deep-recovery': async () => (await import('./crashes.mjs')).deepRecovery,
  delayed: async () => (await import('./delayed.mjs')).delayed,
  connections: async () => (await import('./resources.mjs')).connections,
  disk: async () => (await import('./resources.mjs')).disk,
};

async function runSections(names, { url, quick, figure, say }) {
  if (names.length === 0) return;
  const fixture = await (await import('../fixture.mjs')).openFixture(url);
  try {
    for (const name of names) {
      say(`— ${name}`);
      await (await sections[name]())({ fixture, quick, figure, say });
    }
  } finally {
    await stopWorkers();
    await fixture.close();
  }
}

/** One that breaks is short, and the others still run. */
async function runScenarios(names, { stage, url, quick, options, figure, fact, say }) {
  const databases = openDatabases(stage.admin, url);
  const system = await loadSystem('holdfast');
  const { whole } = options;
  try {
    for (const name of names) {
      say(`— ${name}`);
      let scene = null;
      const open = async () => {
        scene = await openScene(databases, system);
        return scene;
      };
      try {
        const run = await scenarios[name]();
        await run({ open, databases, quick, whole, figure, fact, say });
      } catch (error) {
        console.error(error);
        figure(`fleet.${name}_ran`, `no: ${error.message.split('\n')[0]}`, 'yes', false);
        await scene?.close().catch(() => {});
      }
    }
  } finally {
    await stopWorkers();
    await databases.close();
  }
}

export async function fleet(context) {
  const { only } = context;
  const names = [...Object.keys(sections), ...Object.keys(scenarios)];
  if (only && !names.includes(only))
    throw new Error(`there is no section called ${only}; there are ${names.join(', ')}`);
  const chosen = only ? [only] : names;
  await runSections(
    chosen.filter((name) => sections[name]),
    context,
  );
  await runScenarios(
    chosen.filter((name) => scenarios[name]),
    context,
  );
}
