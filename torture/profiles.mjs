// The profiles: which faults, and what else is different. `all` has the faults of those that share one world.
import { databaseFaults } from './faults/database.mjs';
import { networkFaults } from './faults/network.mjs';
import { workerFaults } from './faults/worker.mjs';

/** Handlers that spin, abort, kill and fill the heap: a few in a thousand operations. */
const CRASHING = { crashShare: 0.004 };

/**
 * @typedef {object} Profile
 * @property {import('./nemesis.mjs').Fault[]} faults
 * @property {(n: number) => object} [producerConfig]
 * @property {(n: number) => object} [workerConfig]
 * @property {() => string | null} [missing] why it cannot run here
 */

/** @type {Record<string, Profile>} */
export const PROFILES = {
  worker: { faults: workerFaults, producerConfig: () => CRASHING },
  database: { faults: databaseFaults },
  network: { faults: networkFaults },
};

/** `worker+network`: the faults of both, and what either needs. */
export function profileOf(name) {
  const parts = name.split('+').map((part) => {
    const profile = PROFILES[part];
    if (!profile)
      throw new Error(
        `there is no profile "${part}"; there are ${Object.keys(PROFILES).join(', ')}`,
      );
    return profile;
  });
  if (parts.length === 1) return { name, ...parts[0] };
  const merged = (field) => (n) => Object.assign({}, ...parts.map((part) => part[field]?.(n)));
  return {
    name,
    ...Object.assign({}, ...parts),
    faults: parts.flatMap(({ faults }) => faults),
    producerConfig: merged('producerConfig'),
    workerConfig: merged('workerConfig'),
    missing: () => parts.map(({ missing }) => missing?.()).find(Boolean) ?? null,
  };
}
