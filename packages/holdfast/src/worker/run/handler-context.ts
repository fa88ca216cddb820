/** What a handler is given, of one job or of several, how it asks for several, and what giving it needs. */
import type pg from 'pg';
import type { Kept, OnceOptions, Stored } from '../../effects/value.js';
import { HoldfastError } from '../../job/errors/errors.js';
import {
  checkInteger,
  type EnqueueOptions,
  type JobDefinition,
  type PayloadOf,
} from '../../job/job.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import type { Logger } from '../../postgres/log/log.js';
import type { Queryable } from '../../postgres/queryable.js';

/** A job whose result may be undefined, as that of most jobs, may return anything. */
type Returned<Result, Value = Result> = undefined extends Result ? unknown : Value | Promise<Value>;

type ResultArgument<Result> = undefined extends Result ? [result?: Result] : [result: Result];

/** What `done` and `fail` of a job of a batch return. */
export interface Settled {
  readonly settled: true;
}

/** The handler of a job: it returns the result that the definition declares, or anything. */
export type JobHandler<Payload, Result = unknown> = (
  context: HandlerContext<Payload, Result>,
) => Returned<Result>;

export interface HandlerContext<Payload, Result = unknown> {
  readonly payload: Payload;
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly partitionKey: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Rises with every claim of this job: hand it to systems that can refuse an older one. */
  readonly fenceToken: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly createdAt: Date;
  /** The instant of the schedule that made the job, however late it runs; null: no schedule made it. */
  readonly scheduledAt: Date | null;
  /** Aborted when the lease is lost, the time limit is over, or the worker's grace period is. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** Runs `effect` unless an earlier attempt did; returns its value as the marker keeps it, in JSON. */
  once<Value>(name: string, effect: () => Value | Promise<Value>): Promise<Stored<Value>>;
  /** The same, without `undefined`: where the marker keeps no value, what `fallback` returns. */
  once<Value, Fallback>(
    name: string,
    effect: () => Value | Promise<Value>,
    options: OnceOptions<Fallback>,
  ): Promise<Kept<Value> | Fallback>;
  /**
   * The handler's writes and the completion of the job commit together, under the fence. What `work` returns is
   * the result of the job.
   */
  transaction<Value extends Result>(work: (tx: pg.PoolClient) => Promise<Value>): Promise<Value>;
  /** The same for a transaction of your own: call it as the last statement before COMMIT. */
  complete(tx: Queryable, ...result: ResultArgument<Result>): Promise<void>;
  /** A child job of any queue, written with the completion (or, inside `transaction`, with that transaction). */
  enqueue<Input>(
    job: JobDefinition<Input, unknown>,
    payload: PayloadOf<Input>,
    options?: EnqueueOptions,
  ): Promise<{ id: string }>;
}

export interface BatchOptions {
  /** At most so many jobs in one call: 1 to 1,000. Default 100. */
  readonly max?: number;
  /** How long the first job of a batch may wait for others. Default 50 ms; 0: what was claimed together. */
  readonly within?: Duration;
}

/** A job of a batch: a handler's context, and two words for what became of it. The first word counts. */
export interface BatchJob<Payload, Result = unknown>
  extends Omit<HandlerContext<Payload, Result>, 'transaction' | 'complete'> {
  /** It succeeded, whatever becomes of the others. `result` is its result. */
  done(...result: ResultArgument<Result>): Settled;
  /** As if its own handler had thrown this: an error, or RetryLater, Snooze, DeadLetter or Cancel. */
  fail(error: unknown): Settled;
}

export interface BatchContext<Payload, Result = unknown> {
  readonly type: string;
  readonly queue: string;
  /** Aborted when the signals of all jobs are of which nothing was said yet. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  /**
   * The handler's writes and the completion of all jobs of which nothing was said yet commit together; `jobs` are
   * those. If one of them was lost it throws LEASE_LOST and nothing is committed; a second call is without it.
   */
  transaction<Value>(
    work: (tx: pg.PoolClient, jobs: readonly BatchJob<Payload, Result>[]) => Promise<Value>,
  ): Promise<Value>;
}

export type BatchHandler<Payload, Result = unknown> = (
  jobs: readonly BatchJob<Payload, Result>[],
  context: BatchContext<Payload, Result>,
) => Returned<Result, readonly Settled[]>;

/** What a route has for a type that is handled in batches. */
export type Many = Readonly<ReturnType<typeof resolveBatch>>;

const OPTIONS = { max: true, within: true } as const satisfies Known<BatchOptions>;

export function resolveBatch(options: BatchOptions | undefined, handler: BatchHandler<never>) {
  checkKnown(options, OPTIONS, 'handleMany()', 'No handler was added.');
  const { max = 100, within = 50 } = options ?? {};
  return {
    max: checkInteger(max, 'max of handleMany()', 1, 1_000),
    withinMs: durationMs(within, 'within of handleMany()', { min: 0, max: 60_000 }),
    handler: handler as BatchHandler<unknown>,
  };
}

export type Handler = (context: HandlerContext<unknown>) => unknown;

export interface Route {
  readonly job: JobDefinition<unknown, unknown>;
  /** Of one job, also of a type that is handled in batches. */
  readonly handler: Handler;
  readonly many?: Many;
  /** The handler is that of a batch, and has other jobs. */
  readonly inBatch?: boolean;
}

/** What the handler asked for does not fit the state of its job. */
export const jobState = (text: string) => new HoldfastError('JOB_STATE', text);

export function leaseLost(id: string, doing: string): HoldfastError {
  return new HoldfastError(
    'LEASE_LOST',
    `Job ${id} is no longer owned by this attempt, so ${doing} had no effect. ` +
      'Another worker has taken it over, or it was cancelled; stop working on it.',
  );
}

/** What a handler asks for after its time limit: the attempt has failed, so nothing may be written in its name. */
export function timedOut(id: string, timeoutMs: number, doing: string): HoldfastError {
  return new HoldfastError(
    'HANDLER_TIMEOUT',
    `The time limit of job ${id}, ${timeoutMs} ms, is over and its attempt has failed, so ${doing} was refused and nothing was written. ` +
      'What the handler may still do: clean up outside of Holdfast, and throw. Pass ctx.signal on, or raise timeout.',
  );
}
