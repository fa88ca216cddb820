/**
 * What a worker tells while it runs, for metrics, logs and tests. Facts about jobs, never payloads.
 * Listeners are called synchronously; one that throws is reported and does not disturb the worker.
 */
import type { QueueName } from '../job/queue-name.js';

/** What a worker tells; `kind` says of what. */
export type WorkerEvent =
  | {
      readonly kind: 'started';
      readonly workerId: string;
      /** By queue, the types that it has handlers for. */
      readonly handles: Readonly<Record<string, readonly string[]>>;
    }
  | { readonly kind: 'reregistered'; readonly workerId: string; readonly was: string }
  | { readonly kind: 'stopped'; readonly workerId: string }
  | {
      readonly kind: 'claimed';
      readonly queue: QueueName;
      readonly count: number;
      /** How many of which type. */
      readonly types: Readonly<Record<string, number>>;
      /** So many of them were taken over from workers that are gone. */
      readonly taken: number;
    }
  | JobEvent
  | EnqueuedEvent
  | ResultRefusedEvent
  | StepEvent
  | {
      readonly kind: 'statement';
      readonly queue: QueueName;
      readonly statement: StatementName;
      /** Until the database answered. */
      readonly ms: number;
    }
  | TickedEvent
  | ThrottledEvent
  | LeakedEvent
  | SettlesKeptEvent
  /** The database confirmed a heartbeat. */
  | { readonly kind: 'heartbeat'; readonly workerId: string }
  /** What the worker owns of a queue: so many buckets, of 1024. */
  | {
      readonly kind: 'ring';
      readonly workerId: string;
      readonly queue: QueueName;
      readonly owned: number;
    }
  | {
      readonly kind: 'maintained';
      readonly queue: QueueName;
      readonly recovered: number;
      readonly pruned: number;
    }
  | { readonly kind: 'error'; readonly what: string; readonly error: unknown };

/** A job started or left this worker. */
export interface JobEvent {
  readonly kind: 'started-job' | SettleResult;
  readonly queue: QueueName;
  readonly id: string;
  readonly type: string;
  readonly generation: number;
  /** With `started-job`: how long the job had been due. */
  readonly waitedMs?: number;
  /** At the end of a started job: how long its handler took. */
  readonly ranMs?: number;
  /** With `failed` and `dead_letter`: what was thrown. So are the next two. */
  readonly error?: unknown;
  /** Which attempt it was. */
  readonly attempt?: number;
  /** After so many it is a dead letter. */
  readonly maxAttempts?: number;
  /** With `failed`: how long until the next attempt is due. */
  readonly retryInMs?: number;
}

/** Jobs of one type were written to a queue. In a caller's transaction they are not committed yet. */
export interface EnqueuedEvent {
  readonly kind: 'enqueued';
  readonly queue: QueueName;
  readonly type: string;
  readonly count: number;
  /** How many of them found their idempotency key taken and were not written. */
  readonly deduplicated: number;
}

/** Schedules of a queue that were due were advanced, and their jobs written. */
export interface TickedEvent {
  readonly kind: 'ticked';
  readonly queue: QueueName;
  readonly jobs: number;
  /** Ticks without a job, because the job of the one before was not over. */
  readonly skipped: number;
  /** Ticks that nobody was there to write, and that are not caught up. */
  readonly missed: number;
  /** How late each schedule that wrote a job was. */
  readonly lagsMs: readonly number[];
}

/** A claim found jobs that no limit allows to start now. */
export interface ThrottledEvent {
  readonly kind: 'throttled';
  readonly queue: QueueName;
  readonly type: string;
}

/** A handler runs on although its job has left this worker; or such a one has ended. */
export interface LeakedEvent {
  readonly kind: 'leaked' | 'leak-ended';
  readonly queue: QueueName;
  readonly type: string;
  /** Its job; of a batch there are several. */
  readonly id?: string;
  /** How many of this type run on in this worker. */
  readonly running: number;
}

/** Jobs have ended and cannot be settled, because the database refuses that to everybody; or they are settled now. */
export interface SettlesKeptEvent {
  readonly kind: 'settles-kept';
  readonly queue: QueueName;
  /** How many there are in this worker, and how many more than before; below zero: fewer. */
  readonly jobs: number;
  readonly change: number;
  /** What the database said; null where there are fewer than before. */
  readonly error: unknown;
}

/** What a handler returned could not be kept: too large, or not JSON. Its job is completed all the same. */
export interface ResultRefusedEvent {
  readonly kind: 'result-refused';
  readonly queue: QueueName;
  readonly id: string;
  readonly type: string;
  /** With the path to what is wrong, and never with a value. */
  readonly why: string;
}

/** A try of a step of a workflow has ended. */
export interface StepEvent {
  readonly kind: 'step';
  readonly queue: QueueName;
  /** The run. */
  readonly id: string;
  /** The workflow. */
  readonly type: string;
  readonly step: string;
  readonly of: 'step' | 'transaction' | 'undo';
  readonly attempt: number;
  /** It threw. */
  readonly failed: boolean;
  readonly ms: number;
}

type Settle = 'complete' | 'fail' | 'dead_letter' | 'release' | 'snooze' | 'cancel';
/** The statements of a worker. */
export type StatementName = 'claim' | Settle;

/** How a job left a worker; `lost` when it was not this worker's to settle any more. */
export type SettleResult = Exclude<keyof WorkerStats, 'claimed'>;

/** How many jobs were claimed, and how many left in which way. */
export type WorkerStats = ReturnType<typeof noStats>;

export const noStats = () => ({
  ...{ claimed: 0, completed: 0, failed: 0, dead_letter: 0 },
  ...{ snoozed: 0, suspended: 0, released: 0, cancelled: 0, lost: 0 },
});

type Listener = (event: WorkerEvent) => unknown;

/** `own`: the worker's option `onEvent`. `others` may grow and shrink meanwhile. */
export function emitterOf(
  own: Listener | null,
  others: ReadonlySet<Listener>,
  failed: (error: unknown) => void,
) {
  const call = (listener: Listener, event: WorkerEvent) => {
    try {
      const answer = listener(event);
      if (answer instanceof Promise) answer.catch(failed);
    } catch (error) {
      failed(error);
    }
  };
  return {
    hasListeners: () => own !== null || others.size > 0,
    emit(event: WorkerEvent): void {
      if (own) call(own, event);
      for (const listener of others) call(listener, event);
    },
  };
}
