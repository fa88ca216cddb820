/**
 * The keeper's thread: the entry that runs keeper-work.ts where a blocked event loop of the main thread cannot
 * starve it. The build makes one text of it and of all that it imports; that is what keeper.ts starts.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { KeeperWork } from './keeper-work.js';

if (!parentPort) throw new Error('the keeper runs as a worker thread only');
new KeeperWork(parentPort, workerData);
