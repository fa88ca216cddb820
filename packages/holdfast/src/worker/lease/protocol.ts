/** What the main thread and the keeper's thread say to each other. Ids travel as one text: cloning many is dear. */
import type { Lease } from '../../lease/renew.js';
import type { Address } from '../../postgres/connect/address.js';
import type { Settings } from '../options.js';
import { CHECK_MS } from '../time.js';

type Times = 'leaseMs' | 'renewMs' | 'heartbeatMs' | 'ttlMs' | 'stallMs';

/** With `livenessLock` it holds its lock, and watches the locks of others. */
export interface KeeperSetup extends Pick<Settings, Times | 'livenessLock'> {
  readonly address: Address;
  /** The passwords come from a function of the main thread: ask for one at every connect. */
  readonly asksPasswords: boolean;
  /** A pooler stands between: no session behind it can keep a setting or a lock. */
  readonly pooled: boolean;
  /** A way past the pooler, for a session that holds the liveness lock. */
  readonly direct: Address | null;
  readonly schema: string;
  readonly queues: readonly string[];
  readonly workerId: string;
  /** When the registration was sent, by `monotonicMs`. It counts as the first heartbeat. */
  readonly registeredAt: number;
  readonly metadata: object;
  readonly prepare: boolean;
  readonly shared: SharedArrayBuffer;
  readonly load: string;
}

export const SLOT = {
  ticks: 0,
  /** When the last confirmed heartbeat of the present id was sent, by `monotonicMs`. */
  confirmedAt: 1,
} as const;

/** In `confirmedAt`: no heartbeat of this id is confirmed yet. */
export const NEVER = -(2n ** 52n);

/** How often the main thread shows that its event loop ticks. */
export const TICK_MS = CHECK_MS / 10;

/** One clock for all threads; `performance.now()` starts at zero in each. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export function confirmedAgoMs(shared: BigInt64Array): number {
  return monotonicMs() - Number(Atomics.load(shared, SLOT.confirmedAt));
}

export const pack = (jobs: Iterable<Lease>): string => {
  let text = '';
  for (const { id, generation } of jobs) text += `${id} ${generation},`;
  return text;
};

/** Neither a uuid nor a number contains a blank or a comma. */
export function unpack(text: string): Lease[] {
  return text
    .split(',')
    .slice(0, -1)
    .map((job) => {
      const [id, generation] = job.split(' ') as [string, string];
      return { id, generation: Number(generation) };
    });
}

export type PasswordAnswer = { readonly password: unknown } | { readonly refused: string };

/** Since the start. */
export interface Attempts {
  readonly failed: number;
  readonly completed: number;
}

/** By type: a number of attempts that began, and when the last one did. */
export type Starts = Readonly<Record<string, readonly [count: number, last: number]>>;

/** One queue of the main thread. Times are by `monotonicMs`. */
export interface QueueLoad {
  readonly running: number;
  /** Without jobs that were lost. */
  readonly held: number;
  readonly handlers: number;
  /** Since when all handlers have been busy, and none has begun another job; null: it is not so. */
  readonly fullSince: number | null;
  /** Since the start. A type of which nothing has started yet is left out. */
  readonly started: Starts;
}

/** What a heartbeat says of the main thread. */
export interface Load {
  readonly running: number;
  readonly held: number;
  readonly queues: Readonly<Record<string, QueueLoad>>;
  readonly attempts: Readonly<Record<string, Attempts>>;
  readonly trouble: TroubleReport | null;
}

/** What goes wrong in a worker that looks healthy; see trouble.ts. */
export interface TroubleReport {
  /** By queue and type, how many handlers run on although their job has left. */
  readonly leaked: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** By queue, how many jobs have ended and cannot be settled, and why. */
  readonly kept: Readonly<Record<string, { readonly jobs: number; readonly why: string }>>;
  /** What the database has refused lately for want of a right: what it said, and what was tried. */
  readonly denied: readonly { readonly said: string; readonly what: string }[];
}

/** Jobs of one claim that are held. Numbers rise and are never used again. */
export interface HeldBatch {
  readonly number: number;
  readonly queue: string;
  /** When they were claimed, by `monotonicMs`. */
  readonly heldAt: number;
  readonly jobs: string;
}

export type ToKeeper =
  | { readonly kind: 'hold'; readonly batch: HeldBatch }
  /** All that is held: what is not among these has left. */
  | { readonly kind: 'held'; readonly batches: readonly HeldBatch[] }
  | { readonly kind: 'identity'; readonly workerId: string }
  /** Sent when it has changed: a `Load`, as JSON. */
  | { readonly kind: 'load'; readonly load: string }
  | { readonly kind: 'password'; readonly ask: string; readonly answer: PasswordAnswer }
  | { readonly kind: 'stop' };

export interface KeeperEvents {
  ready(): void;
  lost(queue: string, jobs: readonly Lease[]): void;
  dead(workerId: string): void;
  /** The database has confirmed a heartbeat: `aliveForMs()` is positive again. */
  beat(workerId: string): void;
  gone(ids: readonly string[]): void;
  epoch(epoch: number): void;
  /** The registry calls this worker draining: it drains already, or a human wants it to. */
  drainAsked(): void;
  /** The liveness lock is held and others watch it, or it is known that it cannot be. */
  watched(): void;
  /** A connection needs a password; `of` is what `pg` tells a function for it. */
  passwordAsked(ask: string, of: object): void;
  failed(what: string, message: string, code: string | null): void;
}

export type Tell = <Kind extends keyof KeeperEvents>(
  kind: Kind,
  ...args: Parameters<KeeperEvents[Kind]>
) => void;

export interface FromKeeper {
  readonly kind: keyof KeeperEvents;
  readonly args: unknown[];
}
