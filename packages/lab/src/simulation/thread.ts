/** The `node:worker_threads` of a simulation: the keeper's work runs in line, and messages take a turn. */
import { EventEmitter } from 'node:events';
import type { FromKeeper, KeeperSetup, ToKeeper } from 'holdfast/internal';
import { startKeeper } from 'holdfast/internal';
import { here, me } from './world.js';

export class Worker extends EventEmitter {
  readonly #owner = me();
  readonly #port = new EventEmitter();

  constructor(_source: string, { workerData }: { workerData: KeeperSetup }) {
    super();
    const port = {
      postMessage: (message: FromKeeper) => this.#turn(() => this.emit('message', message)),
      on: (event: 'message', listener: (message: ToKeeper) => void) =>
        void this.#port.on(event, listener),
      close: () => this.#turn(() => this.emit('exit')),
    };
    this.#turn(() => startKeeper(port, workerData));
  }

  postMessage(message: ToKeeper): void {
    this.#turn(() => this.#port.emit('message', message));
  }

  async terminate(): Promise<void> {}

  #turn(run: () => void): void {
    here().clock.at(this.#owner, 0.1, run);
  }
}

export const parentPort = null;
export const workerData = null;
