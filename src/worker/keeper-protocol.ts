/**
 * What the main thread and the keeper's thread say to each other. Plain data, cloned on the way. Ids go as
 * one text: cloning many small ones is among the dearest things that a short job costs.
 */
import type { Held } from '../lease/renew.js';

export interface KeeperSetup {
  readonly connectionString: string;
  /** A pooler stands between: no session behind it can keep a setting or a lock. */
  readonly pooled: boolean;
  /** A way past the pooler, for a session that holds the liveness lock. */
  readonly directUrl: string | null;
  /** Hold the liveness lock, and watch the locks of others. */
  readonly liveness: boolean;
  readonly schema: string;
  readonly queues: readonly string[];
  readonly workerId: string;
  readonly metadata: object;
  readonly leaseMs: number;
  readonly renewMs: number;
  readonly heartbeatMs: number;
  readonly stallMs: number;
  /** Hear SIGTERM and SIGINT, in case that the main thread cannot. */
  readonly handleSignals: boolean;
  /** How long handlers may go on after a signal. */
  readonly graceMs: number;
  readonly prepare: boolean;
  /** Counters that both threads see, by the slots below. */
  readonly shared: SharedArrayBuffer;
}

/** Where each shared counter lies. */
export const SLOT = {
  /** Raised by the main thread while its event loop turns. */
  beat: 0,
  /** Handlers that run and jobs that are held, for the registry. */
  running: 1,
  held: 2,
  /** When the keeper heard the first signal, by `signalClock`; 0 when it has heard none. */
  signalledAt: 3,
  /** Jobs that the thread was told of and that have not left, also when it was not told of that yet. */
  kept: 4,
} as const;
export const SLOTS = Object.keys(SLOT).length;

/** The wall clock as it fits into a slot. It wraps around after 24 days, and is never 0. */
export function signalClock(): number {
  return (Date.now() & 0x7fffffff) | 1;
}

/** Neither a uuid nor a number has a blank or a comma in it. */
export const pack = (jobs: readonly Held[]): string => {
  let text = '';
  for (const { id, generation } of jobs) text += `${id} ${generation},`;
  return text;
};

export function* unpack(text: string): Generator<Held> {
  for (let from = 0; from < text.length; ) {
    const blank = text.indexOf(' ', from);
    const comma = text.indexOf(',', blank);
    yield { id: text.slice(from, blank), generation: Number(text.slice(blank + 1, comma)) };
    from = comma + 1;
  }
}

export interface JobsOf {
  readonly batch: number;
  readonly jobs: string;
}

export type ToKeeper =
  | {
      readonly kind: 'hold';
      readonly queue: string;
      /** Rises, and is never used again: what is said of a batch that is not known is of no interest. */
      readonly batch: number;
      readonly jobs: string;
      /** Batches that are over. */
      readonly over: readonly number[];
    }
  /** Batches that are over, and jobs that have left others. */
  | { readonly kind: 'left'; readonly over: readonly number[]; readonly jobs: readonly JobsOf[] }
  /** Only these are left of the batch. */
  | { readonly kind: 'rest'; readonly batch: number; readonly jobs: string }
  | { readonly kind: 'identity'; readonly workerId: string }
  /** The main thread drains. After a signal the process has to end by itself, or is ended. */
  | { readonly kind: 'drain'; readonly graceMs: number; readonly signalled: boolean }
  /** `guard`: handlers are left that may still keep the process; the thread stays to end it. */
  | { readonly kind: 'stop'; readonly guard: boolean };

export type FromKeeper =
  | {
      readonly kind: 'lost';
      readonly queue: string;
      readonly ids: readonly string[];
      readonly generations: readonly number[];
    }
  | { readonly kind: 'dead'; readonly workerId: string }
  /** The database has confirmed a heartbeat. */
  | { readonly kind: 'beat'; readonly workerId: string }
  /** Declared dead by this worker just now. */
  | { readonly kind: 'gone'; readonly ids: readonly string[] }
  | { readonly kind: 'epoch'; readonly epoch: number }
  /** The registry calls this worker draining: it drains already, or a human wants it to. */
  | { readonly kind: 'drain-asked' }
  /** The liveness lock is held and others watch it, or it is known that it cannot be. */
  | { readonly kind: 'watched' }
  | { readonly kind: 'stalled'; readonly forMs: number }
  | {
      readonly kind: 'trouble';
      readonly what: string;
      readonly message: string;
      readonly code: string | null;
    }
  | { readonly kind: 'stopped' };
