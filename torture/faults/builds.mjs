// A deploy of an application that takes its time: workers of an older build, which know fewer types and an older version
// of a payload, beside workers of the new one, restarted back and forth. Both are of this release; faults/upgrade.mjs is
// about two releases.

export const OLD_BUILD = {
  payVersion: 1,
  types: ['pay', 'mail', 'long', 'child', 'flaky', 'crash', 'step', 'guarded'],
};
export const NEW_BUILD = { payVersion: 2, types: null };

function deploy(name, signal, build) {
  return {
    name,
    async strike(world, random) {
      const slot = random.pick(world.fleet.workers.filter(({ runs }) => runs));
      if (!slot) return { hit: false };
      slot.config = { ...slot.config, ...build };
      return { hit: slot.signal(signal) };
    },
  };
}

const rollOut = {
  name: 'roll-out',
  async strike(world, random, hold) {
    const build = random.pick([OLD_BUILD, NEW_BUILD]);
    // The first worker is always of the new build: somebody must know everything.
    let hit = 0;
    for (const slot of world.fleet.workers.slice(1)) {
      slot.config = { ...slot.config, ...build };
      if (slot.signal('SIGTERM')) hit++;
      await hold(1_200);
    }
    return { hit };
  },
};

export const buildFaults = [
  rollOut,
  rollOut,
  deploy('back-to-old', 'SIGTERM', OLD_BUILD),
  deploy('on-to-new', 'SIGKILL', NEW_BUILD),
  deploy('on-to-new', 'SIGTERM', NEW_BUILD),
];

/** After a deploy everybody is new. */
export function finishDeploy(world) {
  for (const slot of world.fleet.workers) {
    if (slot.config.payVersion === NEW_BUILD.payVersion) continue;
    slot.config = { ...slot.config, ...NEW_BUILD };
    slot.signal('SIGTERM');
  }
}
