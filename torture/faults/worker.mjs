// What happens to worker processes: killed, frozen past their lease, told to stop in a storm, restarted in turn.
// Handlers that spin, abort or fill the heap come from the producers of this profile.

/** Longer than the lease and the TTL, so that everything of the process is taken over meanwhile. */
const FREEZE_MS = [4_500, 8_000];

const someWorker = (world, random) => random.pick(world.fleet.workers.filter(({ runs }) => runs));

const kill = {
  name: 'kill',
  async strike(world, random) {
    return { killed: someWorker(world, random)?.signal('SIGKILL') };
  },
};

const killMost = {
  name: 'kill-most',
  async strike(world, random) {
    const keep = someWorker(world, random);
    for (const slot of world.fleet.workers) if (slot !== keep) slot.signal('SIGKILL');
  },
};

const freeze = {
  name: 'freeze',
  async strike(world, random, hold) {
    const slot = someWorker(world, random);
    if (!slot) return;
    const { child } = slot;
    slot.signal('SIGSTOP');
    await hold(random.integer(...FREEZE_MS));
    child.kill('SIGCONT');
  },
};

/** As when the machine of all of them is suspended: nobody is left to notice. */
const freezeAll = {
  name: 'freeze-everybody',
  async strike(world, random, hold) {
    const children = world.fleet.workers.filter(({ runs }) => runs).map(({ child }) => child);
    for (const child of children) child.kill('SIGSTOP');
    await hold(random.integer(6_500, 8_000));
    for (const child of children) child.kill('SIGCONT');
  },
};

/** Short stops that no lease notices, one after the other. */
const stutter = {
  name: 'stutter',
  async strike(world, random, hold) {
    const slot = someWorker(world, random);
    if (!slot) return;
    const { child } = slot;
    for (let turn = 0; turn < 6; turn++) {
      child.kill('SIGSTOP');
      await hold(random.integer(100, 900));
      child.kill('SIGCONT');
      await hold(random.integer(50, 300));
    }
  },
};

const stop = {
  name: 'stop',
  async strike(world, random) {
    someWorker(world, random)?.signal('SIGTERM');
  },
};

const stopStorm = {
  name: 'stop-storm',
  async strike(world, random, hold) {
    for (const slot of world.fleet.workers) {
      slot.signal('SIGTERM');
      if (random.chance(0.5)) await hold(random.integer(20, 200));
    }
  },
};

const rollingRestart = {
  name: 'rolling-restart',
  async strike(world, _random, hold) {
    for (const slot of [...world.fleet.workers]) {
      if (!slot.runs) continue;
      const ended = slot.ended();
      slot.signal('SIGTERM');
      await Promise.race([ended, hold(8_000)]);
      await hold(600);
    }
  },
};

export const workerFaults = [
  kill,
  kill,
  killMost,
  freeze,
  freeze,
  freezeAll,
  stutter,
  stop,
  stopStorm,
  rollingRestart,
];
