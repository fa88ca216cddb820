// What happens to the systems at the other end, and what operators do meanwhile: a sink or a receiver is away, answers are
// lost, endpoints are disabled and enabled, secrets are replaced, and the read model is built anew.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { PROJECTION } from '../actors/shapes.mjs';
import { pidOf } from '../check/witness.mjs';
import { sql } from '../server.mjs';
import { again } from '../shapes.mjs';

const OVERLAP_MS = 5_000;

async function away(receiver, mode, wait) {
  const before = receiver.touched;
  receiver.turn(mode);
  await wait;
  receiver.turn('ok');
  return { mode, hit: receiver.touched - before };
}

const sinkAway = {
  name: 'sink-away',
  strike: ({ shapes }, random, hold) =>
    away(
      shapes.sink,
      random.pick(['refuse', 'fail', 'hang', 'busy']),
      hold(random.integer(2_000, 6_000)),
    ),
};

const lostAnswers = {
  name: 'lost-answers-of-the-sink',
  strike: ({ shapes }, random, hold) => away(shapes.sink, 'lose', hold(random.integer(300, 1_500))),
};

/** One at a time for each: two faults of one receiver would undo each other. */
async function withEndpoint({ shapes }, random, work) {
  const endpoint = random.pick(shapes.endpoints.filter(({ isAway }) => !isAway));
  if (!endpoint) return { hit: false };
  endpoint.isAway = true;
  try {
    return { endpoint: endpoint.name, ...(await work(endpoint)) };
  } finally {
    endpoint.isAway = false;
  }
}

const receiverAway = {
  name: 'receiver-away',
  strike: (world, random, hold) =>
    withEndpoint(world, random, ({ receiver }) =>
      away(
        receiver,
        random.pick(['refuse', 'fail', 'hang', 'lose', 'busy']),
        hold(random.integer(2_000, 6_000)),
      ),
    ),
};

const disable = {
  name: 'disabled-endpoint',
  strike: (world, random, hold) =>
    withEndpoint(world, random, async ({ id }) => {
      const { endpoints } = world.shapes.hooks;
      await again(() => endpoints.disable(id, { reason: 'torture' }));
      await hold(random.integer(1_000, 5_000));
      const { replayed } = await again(() => endpoints.enable(id));
      return { hit: true, replayed };
    }),
};

/** 410: the endpoint is disabled by the engine. */
const gone = {
  name: 'endpoint-gone',
  strike: (world, random, hold) =>
    withEndpoint(world, random, async ({ id, receiver }) => {
      const { mode, hit } = await away(receiver, 'gone', hold(random.integer(1_000, 3_000)));
      await hold(500);
      await again(() => world.shapes.hooks.endpoints.enable(id));
      return { mode, hit };
    }),
};

const rotate = {
  name: 'new-secret',
  strike: (world, random) =>
    withEndpoint(world, random, async ({ id, receiver }) => {
      const { rotate } = world.shapes.hooks.endpoints;
      const { secret } = await again(() => rotate(id, { overlap: OVERLAP_MS }));
      receiver.learn(secret, OVERLAP_MS);
      return { hit: true };
    }),
};

/** Beside those who write. What was being built, or was live before, goes. */
const rebuild = {
  name: 'rebuild',
  async strike({ shapes: { projections } }) {
    await projections.remove(PROJECTION);
    return { hit: true, build: await projections.rebuild(PROJECTION) };
  },
};

/** Whether it is stopped, by a signal. */
function stands(pid) {
  try {
    return / T /.test(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\)/, ''));
  } catch {
    return false;
  }
}

/**
 * A process that has read a page, and freezes before it writes it, past its lease: others have its shard by then. When it
 * wakes up, its cursor must refuse it.
 */
const freezeProjector = {
  name: 'freeze-projector',
  async strike({ server, fleet }, random, hold) {
    const owners = await sql(
      server.url,
      `SELECT claimed_by AS owner FROM holdfast.projectors WHERE status = 'processing'`,
    );
    const pids = owners.map(({ owner }) => pidOf(owner));
    const slot = random.pick(fleet.workers.filter(({ pid }) => pid && pids.includes(pid)));
    if (!slot) return { hit: false };
    const { child } = slot;
    child.kill('SIGUSR2');
    for (let tries = 0; tries < 70 && !stands(child.pid); tries++) await sleep(50);
    if (!stands(child.pid)) return { hit: false };
    // For the history: it stands already.
    slot.signal('SIGSTOP');
    await hold(random.integer(4_500, 8_000));
    child.kill('SIGCONT');
    return { hit: true };
  },
};

export const shapeFaults = [
  sinkAway,
  sinkAway,
  lostAnswers,
  receiverAway,
  receiverAway,
  disable,
  gone,
  rotate,
  rebuild,
  freezeProjector,
  freezeProjector,
];
