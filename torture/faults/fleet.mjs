// What happens to a whole fleet at once: all its processes die, as when their machine or their deploy does; somebody
// holds the row of a limit in psql; a block of jobs that nobody may run stands before all others, and is let go.
import { holdfast, job } from '../../packages/holdfast/dist/index.js';
import { sqlUntil } from '../server.mjs';
import { holding } from './database.mjs';

const BLOCK = [400, 900];
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const block = job('block', { priority: 1, maxAttempts: 20 });

const killFleet = {
  name: 'kill-fleet',
  async strike(world) {
    const hit = world.fleet.workers.filter((slot) => slot.signal('SIGKILL')).length;
    return { hit };
  },
};

const heldLimit = {
  name: 'held-limit',
  strike: (world, random, hold) =>
    holding(world, async (client, held) => {
      await client.query('BEGIN');
      const { rowCount } = await client.query('SELECT FROM holdfast.limits FOR UPDATE');
      const lasted = await held(hold(random.integer(2_000, 7_000)));
      return { hit: lasted ? rowCount : 0 };
    }),
};

/** `shut` keeps jobs of the type from being claimed, `open` undoes it, whatever else breaks meanwhile. */
function blockedHead(name, shut, open) {
  return {
    name: `blocked-head-${name}`,
    async strike(world, random, hold) {
      const hf = holdfast({ connectionString: world.server.url, logger: quiet });
      try {
        await shut(hf);
        const count = random.integer(...BLOCK);
        await hf.enqueueMany(Array.from({ length: count }, () => block.item({ ms: 0 })));
        await hold(random.integer(2_000, 6_000));
        return { hit: count };
      } finally {
        for (let tries = 0; tries < 20; tries++) {
          await sqlUntil(world.server.url, 'SELECT 1');
          const undone = await open(hf).then(
            () => true,
            () => false,
          );
          if (undone) break;
        }
        await hf.close();
      }
    },
  };
}

const paused = blockedHead(
  'paused',
  (hf) => hf.pause('inbox', { type: 'block' }),
  (hf) => hf.resume('inbox', { type: 'block' }),
);
const limited = blockedHead(
  'limited',
  (hf) => hf.limits.set({ type: 'block' }, { rate: { limit: 1, per: '1h' } }),
  (hf) => hf.limits.set({ type: 'block' }, null),
);

export const fleetFaults = [killFleet];
export const limitFaults = [heldLimit, heldLimit, paused, limited];
