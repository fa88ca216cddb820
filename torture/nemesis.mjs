// The nemesis: breaks something about every three seconds, by a schedule that the seed decides. Faults overlap; each
// undoes what it did when its time is over or when the healing begins.
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { randomOf } from './random.mjs';

/**
 * @typedef {object} Fault
 * @property {string} name
 * @property {(world: any, random: ReturnType<typeof randomOf>, hold: (ms: number) => Promise<void>) => Promise<{ hit: unknown }>} strike
 *   `hold` waits for so long, or until the healing begins; `hit` says whether, or how often, it had an effect
 */

/** Which fault when: a pure function of the seed. */
export function scheduleOf(seed, faults, durationMs, everyMs) {
  const random = randomOf(`${seed}/schedule`);
  const schedule = [];
  for (let at = everyMs / 2; at < durationMs; at += everyMs * (0.5 + random.next())) {
    schedule.push({ at, fault: random.pick(faults), seed: `${seed}/${schedule.length}` });
  }
  return schedule;
}

export async function runNemesis(world, schedule, history) {
  const healing = new AbortController();
  setMaxListeners(0, healing.signal);
  const hold = (ms) => sleep(ms, undefined, { signal: healing.signal }).catch(() => {});
  const open = new Set();
  const startedAt = Date.now();
  let last = 0;
  for (const { at, fault, seed } of schedule) {
    await sleep(at - last);
    last = at;
    history.record('fault', 'invoke', { name: fault.name, wall: Date.now() });
    const struck = Promise.resolve().then(() => fault.strike(world, randomOf(seed), hold));
    const done = struck.then(
      (facts) => history.record('fault', 'ok', { name: fault.name, ...facts }),
      (error) => history.record('fault', 'fail', { name: fault.name, error: String(error) }),
    );
    open.add(done);
    done.finally(() => open.delete(done));
  }
  return {
    tookMs: Date.now() - startedAt,
    /** Everything is undone when it resolves. */
    async heal() {
      healing.abort();
      await Promise.all(open);
      for (const line of world.fleet.lines) line.heal();
      for (const slot of world.fleet.slots) if (slot.runs) slot.child.kill('SIGCONT');
    },
  };
}
