/**
 * The `node:worker_threads` of the lab's simulation, for vi.mock. The lab's module imports the core, which imports
 * `node:worker_threads`: a mock that waited for it would wait for itself. So tests wait, for `loaded`.
 */
import type * as threads from '../../packages/lab/src/simulation/thread.js';

export let Worker: typeof threads.Worker;
export const parentPort = null;
export const workerData = null;

export const loaded = import('../../packages/lab/src/simulation/thread.js').then((module) => {
  Worker = module.Worker;
});
