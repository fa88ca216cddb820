/**
 * The keeper's thread: the entry that runs keeper-work.ts where a blocked event loop of the main thread cannot
 * starve it. The build makes one text of it and of all that it imports; that is what keeper.ts starts.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { startKeeper } from './keeper-work.js';

if (!parentPort) throw new Error('the keeper runs as a worker thread only');
const port: MessagePort = parentPort;
startKeeper(
  {
    postMessage: (message) => port.postMessage(message),
    on: (event, listener) => void port.on(event, listener),
    // In Deno the port of a thread has no close().
    close: () => ('close' in port ? port.close() : process.exit()),
  },
  workerData,
);
