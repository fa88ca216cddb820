// A fleet that never rests: workers join and leave about once a second, and some of them see an old fleet, because
// every question about it is cut off and notifications are swallowed.
import { WORKER_OPTIONS } from '../world.mjs';

const EVERY_MS = 1_000;
let joined = 0;

const churn = {
  name: 'join-and-leave',
  async strike(world, random, hold) {
    const guests = [];
    for (let turn = 0; turn < 3; turn++) {
      const guest = await world.fleet.add('worker', `guest-${++joined}`, {
        options: WORKER_OPTIONS,
      });
      guest.start();
      guests.push(guest);
      await hold(EVERY_MS);
    }
    const hit = guests.filter(({ runs }) => runs).length;
    for (const guest of guests) {
      await world.fleet.remove(guest, random.pick(['SIGTERM', 'SIGTERM', 'SIGKILL']));
    }
    return { hit };
  },
};

/** The statement by which a worker learns who else is there. */
const MEMBERS = /SELECT f\.epoch, w\.id, w\.status/;

const frozenView = {
  name: 'frozen-ring-view',
  async strike(world, random, hold) {
    const slot = random.pick(world.fleet.workers.filter(({ runs }) => runs));
    if (!slot) return { hit: false };
    const { line } = slot;
    let made = 0;
    line.deaf = true;
    line.cuts.push({ statement: MEMBERS, where: 'request', times: 1_000, made: () => made++ });
    await hold(random.integer(4_000, 9_000));
    line.deaf = false;
    line.cuts = line.cuts.filter(({ statement }) => statement !== MEMBERS);
    return { hit: made };
  },
};

const leave = {
  name: 'leave',
  async strike(world, random) {
    const slot = random.pick(world.fleet.workers.filter(({ runs }) => runs));
    return { hit: slot?.signal(random.pick(['SIGTERM', 'SIGKILL'])) };
  },
};

export const membershipFaults = [churn, churn, frozenView, frozenView, leave];
