// The profiles: which faults, and what else is different. `all` has those of all that share one world; a pooler and a
// pair of servers are worlds of their own, and the workers' faults go on in them too.
import { buildFaults, finishDeploy, NEW_BUILD, OLD_BUILD } from './faults/builds.mjs';
import { clockFaults } from './faults/clock.mjs';
import { databaseFaults } from './faults/database.mjs';
import { asynchronousFaults, synchronousFaults } from './faults/failover.mjs';
import { fleetFaults, limitFaults } from './faults/fleet.mjs';
import { membershipFaults } from './faults/membership.mjs';
import { networkFaults, workflowCuts } from './faults/network.mjs';
import { poolerFaults } from './faults/pooler.mjs';
import { shapeFaults } from './faults/shapes.mjs';
import { upgradeCourse } from './faults/upgrade.mjs';
import { workerFaults } from './faults/worker.mjs';
import { makeOldSchema, OLD_RELEASE } from './old-release.mjs';
import { pairOf } from './pair.mjs';
import { poolerMissing, startPooler } from './pooler.mjs';
import { closeShapes, healShapes, openShapes } from './shapes.mjs';
import { WORKER_OPTIONS } from './world.mjs';

/** Handlers that spin, abort, kill and fill the heap: a few in a thousand operations. */
const CRASHING = { crashShare: 0.004 };
/** Types with limits, and what stands before all others. */
const LIMITED = { limits: true };
/** With the two that are always there, 50. */
const SIDES = 48;
const MANY = { sides: SIDES };
/** Runs of workflows begin with either version, and every worker has bodies of both. */
const FLOWS = { flows: 2 };
/** Events that wait for the sink have a place in their worker, and must not take those of jobs. */
const ROOMY = { options: { ...WORKER_OPTIONS, concurrency: 40 } };
const byName = (faults, names) => faults.filter(({ name }) => names.includes(name));

/**
 * @typedef {object} Profile
 * @property {import('./nemesis.mjs').Fault[]} faults
 * @property {(n: number) => object} [producerConfig] by the number of the producer
 * @property {(n: number) => object} [workerConfig]
 * @property {(settings?: object) => Promise<any>} [makeServer]
 * @property {number} [sides] so many queues beside the two
 * @property {(url: string, dist: string, queues: { name: string, ordering: string }[]) => Promise<void>} [makeSchema]
 * @property {(world: any, facts: { seed: string, seconds: number }) => Promise<void>} [course] what goes on beside the
 *   faults; the healing waits for its end
 * @property {(world: any, history: any, seed: string) => Promise<void>} [prepare]
 * @property {(world: any) => void} [heal] beyond what the faults undo themselves
 * @property {(world: any) => Promise<void>} [close]
 * @property {() => string | null} [missing] why it cannot run here
 */

/** @type {Record<string, Profile>} */
export const PROFILES = {
  worker: { faults: workerFaults, producerConfig: () => CRASHING },
  database: { faults: databaseFaults },
  network: { faults: networkFaults },
  clock: { faults: [...clockFaults, ...byName(workerFaults, ['freeze', 'kill'])] },
  membership: { faults: membershipFaults },
  builds: {
    faults: [...buildFaults, ...byName(workerFaults, ['freeze'])],
    workerConfig: (n) => (n % 2 === 0 ? OLD_BUILD : NEW_BUILD),
    producerConfig: (n) => ({ payVersion: n === 1 ? 1 : 2 }),
    heal: finishDeploy,
  },
  upgrade: {
    faults: [
      ...byName(workerFaults, [
        'kill',
        'kill-most',
        'freeze',
        'stutter',
        'stop',
        'rolling-restart',
      ]),
      ...byName(databaseFaults, ['terminate-backends', 'old-transaction', 'row-locks']),
    ],
    makeSchema: makeOldSchema,
    course: upgradeCourse,
    workerConfig: () => ({ ...LIMITED, ...OLD_RELEASE }),
    producerConfig: () => ({ ...LIMITED, ...OLD_RELEASE, delayMs: 12_000, cappedLong: 0.01 }),
  },
  fleet: {
    faults: [...fleetFaults, ...fleetFaults, ...byName(workerFaults, ['kill', 'freeze-everybody'])],
  },
  limits: {
    faults: [...limitFaults, ...fleetFaults, ...byName(workerFaults, ['kill', 'freeze', 'stop'])],
    ...{ workerConfig: () => LIMITED, producerConfig: () => LIMITED },
  },
  queues: {
    faults: [...fleetFaults, ...workerFaults, ...byName(databaseFaults, ['terminate-backends'])],
    ...{ sides: SIDES, workerConfig: () => MANY, producerConfig: () => MANY },
  },
  workflow: {
    faults: [
      ...byName(workerFaults, ['kill', 'kill-most', 'freeze', 'stop', 'rolling-restart']),
      ...byName(databaseFaults, ['terminate-backends', 'kill-backend', 'row-locks']),
      ...byName(networkFaults, ['reset', 'half-close', 'lost-notifications']),
      ...workflowCuts,
    ],
    workerConfig: () => FLOWS,
    producerConfig: (n) => ({ flows: n === 1 ? 1 : 2 }),
  },
  shapes: {
    faults: [
      ...byName(workerFaults, ['kill', 'kill-most', 'freeze', 'stop', 'rolling-restart']),
      ...byName(databaseFaults, ['terminate-backends', 'old-transaction']),
      ...byName(networkFaults, ['reset', 'half-close', 'slow-commits', 'cut-answer-of-commit']),
      ...shapeFaults,
    ],
    workerConfig: () => ROOMY,
    prepare: openShapes,
    heal: healShapes,
    close: closeShapes,
  },
  pooler: {
    faults: [
      ...poolerFaults,
      ...byName(workerFaults, ['freeze', 'kill']),
      ...byName(networkFaults, ['reset']),
    ],
    missing: poolerMissing,
    async prepare(world) {
      world.pooler = await startPooler(world.server.url);
    },
    close: async (world) => world.pooler?.stop(),
  },
  failover: { faults: synchronousFaults, makeServer: pairOf({ synchronous: true }) },
  'failover-async': { faults: asynchronousFaults, makeServer: pairOf({ synchronous: false }) },
};

/** In one world: what these need does not exclude each other. */
const TOGETHER = ['worker', 'database', 'network', 'clock', 'membership', 'builds'];

/** `worker+network`: the faults of both, and what either needs. */
export function profileOf(name) {
  const parts = (name === 'all' ? TOGETHER : name.split('+')).map((part) => {
    const profile = PROFILES[part];
    if (!profile)
      throw new Error(
        `there is no profile "${part}"; there are all, every, ${Object.keys(PROFILES).join(', ')}`,
      );
    return profile;
  });
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
