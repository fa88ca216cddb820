// What happens to worker processes: killed, frozen past their lease, told to stop in a storm, restarted in turn.
// Handlers that spin, abort or fill the heap come from the producers of this profile.
import { pidOf } from '../check/witness.mjs';
import { sql } from '../server.mjs';

/** Longer than the lease and the TTL, so that everything of the process is taken over meanwhile. */
const FREEZE_MS = [4_500, 8_000];

const someWorker = (world, random) => random.pick(world.fleet.workers.filter(({ runs }) => runs));

const kill = {
  name: 'kill',
  async strike(world, random) {
    return { hit: someWorker(world, random)?.signal('SIGKILL') };
  },
};

const killMost = {
  name: 'kill-most',
  async strike(world, random) {
    const keep = someWorker(world, random);
    const others = world.fleet.workers.filter((slot) => slot !== keep);
    return { hit: others.filter((slot) => slot.signal('SIGKILL')).length };
  },
};

async function freezeFor(slot, hold, ms) {
  if (!slot?.runs) return { hit: false };
  const { child } = slot;
  const hit = slot.signal('SIGSTOP');
  await hold(ms);
  child.kill('SIGCONT');
  return { hit };
}

const freeze = {
  name: 'freeze',
  strike: (world, random, hold) =>
    freezeFor(someWorker(world, random), hold, random.integer(...FREEZE_MS)),
};

/**
 * Frozen between two writes to the register, for so long that another worker writes meanwhile: when it wakes up, the
 * register must refuse it.
 */
const zombie = {
  name: 'zombie-writer',
  async strike(world, random, hold) {
    let slot;
    for (let tries = 0; tries < 30 && !slot; tries++) {
      const [held] = await sql(
        world.server.url,
        `SELECT claimed_by AS owner FROM holdfast.inbox WHERE type = 'long' AND status = 'processing'
         ORDER BY claimed_at DESC LIMIT 1`,
      );
      slot = world.fleet.workers.find(({ pid }) => pid && pid === pidOf(held?.owner));
      if (!slot) await hold(100);
    }
    return freezeFor(slot, hold, random.integer(7_000, 9_000));
  },
};

/** As when the machine of all of them is suspended: nobody is left to notice. */
const freezeAll = {
  name: 'freeze-everybody',
  async strike(world, random, hold) {
    const children = world.fleet.workers.filter(({ runs }) => runs).map(({ child }) => child);
    const hit = children.filter((child) => child.kill('SIGSTOP')).length;
    await hold(random.integer(6_500, 8_000));
    for (const child of children) child.kill('SIGCONT');
    return { hit };
  },
};

/** Short stops that no lease notices, one after the other. */
const stutter = {
  name: 'stutter',
  async strike(world, random, hold) {
    const slot = someWorker(world, random);
    if (!slot) return { hit: false };
    const { child } = slot;
    let hit = 0;
    for (let turn = 0; turn < 6; turn++) {
      if (child.kill('SIGSTOP')) hit++;
      await hold(random.integer(100, 900));
      child.kill('SIGCONT');
      await hold(random.integer(50, 300));
    }
    return { hit };
  },
};

const stop = {
  name: 'stop',
  async strike(world, random) {
    return { hit: someWorker(world, random)?.signal('SIGTERM') };
  },
};

const stopStorm = {
  name: 'stop-storm',
  async strike(world, random, hold) {
    let hit = 0;
    for (const slot of world.fleet.workers) {
      if (slot.signal('SIGTERM')) hit++;
      if (random.chance(0.5)) await hold(random.integer(20, 200));
    }
    return { hit };
  },
};

const rollingRestart = {
  name: 'rolling-restart',
  async strike(world, _random, hold) {
    let hit = 0;
    for (const slot of [...world.fleet.workers]) {
      if (!slot.runs) continue;
      const ended = slot.ended();
      if (slot.signal('SIGTERM')) hit++;
      await Promise.race([ended, hold(8_000)]);
      await hold(600);
    }
    return { hit };
  },
};

export const workerFaults = [
  kill,
  kill,
  killMost,
  freeze,
  freeze,
  zombie,
  freezeAll,
  stutter,
  stop,
  stopStorm,
  rollingRestart,
];
