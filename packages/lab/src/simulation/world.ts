/** The simulation that runs now. Mocked modules find it here; there is one at a time. */
import type { Clock, Owner } from './clock.js';
import type { Network } from './network.js';
import type { Server } from './server.js';
import type { Answer } from './wire.js';

export interface World {
  readonly clock: Clock;
  readonly server: Server;
  readonly network: Network;
  /** Ends a process; another one takes its place. */
  readonly kill: (owner: Owner) => void;
  /** A statement was executed. */
  readonly note: (
    owner: Owner,
    what: string,
    params: readonly unknown[],
    answer: Answer,
    sentAt: number,
    text: string,
  ) => void;
}

let world: World | null = null;

export function enter(next: World | null): void {
  world = next;
}

export function here(): World {
  if (!world) throw new Error('no simulation runs');
  return world;
}

export function me(): Owner {
  const { current } = here().clock;
  if (!current) throw new Error('nobody of the simulation runs');
  return current;
}
