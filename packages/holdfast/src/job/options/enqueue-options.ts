/** The options of one enqueued job. */
import type { UniqueOptions } from '../unique.js';
import type { Duration } from './duration.js';
import type { Known } from './known-options.js';

/** 1 is first. */
export type Priority = 1 | 2 | 3 | 4;

/**
 * Options of one enqueued job.
 * @example await hf.enqueue(sendReceipt, { orderId: 9182 }, { delay: '15m' });
 */
export type EnqueueOptions = ChildOptions & OnceOptions;

/** Those that a job takes which belongs to another one: no key decides whether it is written. */
export type ChildOptions = UsualOptions & DueOptions;

/** When a job is due: after a time, or at one. */
export type DueOptions =
  | {
      /** How long the job waits before it is due. Default 0, at most ten years. */
      readonly delay?: Duration;
      readonly runAt?: undefined;
    }
  | {
      readonly delay?: 'Give delay or runAt, not both.' | undefined;
      /** When the job is due, in place of `delay`. A time in the past means now. Default: now. */
      readonly runAt?: Date;
    };

/** How one job runs. */
interface UsualOptions {
  /** The stream that the job belongs to, such as `order:9182`. Default: one of its own. */
  readonly partitionKey?: string;
  /** A coarser key, such as `tenant:7`, for queues with `perGroup`. Default: none. */
  readonly group?: string;
  /** 1 (first) to 4 (last); default 2. */
  readonly priority?: Priority;
  /** How often the job is tried before it becomes a dead letter. Default: its definition's. */
  readonly maxAttempts?: number;
  /** Texts that travel with the job, for the handler's `ctx.headers`. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Of a run of a workflow: a word by which `hf.runs()` finds it, such as `vip`. Default: none. */
  readonly tag?: string;
}

/** The two keys may belong to two different jobs. */
type OnceOptions =
  | {
      /** Enqueue the job once: a second enqueue with this key returns the first job. Default: none. */
      readonly idempotencyKey?: string;
      readonly unique?: false | undefined;
    }
  | {
      readonly idempotencyKey?:
        | 'Give idempotencyKey or unique: they may belong to two jobs.'
        | undefined;
      /** Fold enqueues of the same key into one job; `false`: never. Default: as the definition says. */
      readonly unique?: UniqueOptions | false;
    };

/** Of one job, not of the call. */
export const ENQUEUE_OPTIONS = {
  ...{ partitionKey: true, group: true, idempotencyKey: true, delay: true, runAt: true },
  ...{ priority: true, maxAttempts: true, headers: true, unique: true, tag: true },
} as const satisfies Known<EnqueueOptions>;
