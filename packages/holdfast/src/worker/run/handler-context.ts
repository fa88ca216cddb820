/** What a handler is given, of one job or of several, how it asks for several, and what giving it needs. */

import type pg from 'pg';
import type { OnceOptions } from '../../effects/value.js';
import { HoldfastError } from '../../job/errors/errors.js';
import {
  checkInteger,
  type EnqueueOptions,
  type JobDefinition,
  type PayloadOf,
} from '../../job/job.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import type { Kept, Stored } from '../../job/options/stored.js';
import type { QueueName } from '../../job/queue-name.js';
import type { Logger } from '../../postgres/log/log.js';
import type { Queryable } from '../../postgres/queryable.js';

/** A job whose result may be undefined, as that of most jobs, may return anything. */
type Returned<Result> = unknown extends Result ? unknown : Result | Promise<Result>;

type ResultArgument<Result> = undefined extends Result ? [result?: Result] : [result: Result];

/** What `done` and `fail` of a job of a batch return. */
export interface Settled {
  readonly settled: true;
}

/** The handler of a job: it returns the result that the definition declares, or anything. */
export type JobHandler<Payload, Result = unknown> = (
  context: HandlerContext<Payload, Result>,
) => Returned<Result>;

/**
 * What a handler gets: the job, and what it may do with it.
 * @example worker.handle(sendReceipt, async ({ payload, signal, once }) => { await once('send', () => mail.send(payload.orderId, { signal })); });
 */
export interface HandlerContext<Payload, Result = unknown> {
  /** The payload, upgraded and checked. */
  readonly payload: Payload;
  /** The id of the job. */
  readonly id: string;
  /** The name of its definition. */
  readonly type: string;
  /** The queue it came from. */
  readonly queue: QueueName;
  /** The stream it belongs to; without one of yours, an own one. */
  readonly partitionKey: string;
  /** 1 on the first attempt. */
  readonly attempt: number;
  /** After so many failed attempts it becomes a dead letter. */
  readonly maxAttempts: number;
  /** Rises with every claim. Pass it to systems that can refuse an older one. */
  readonly fenceToken: number;
  /** The headers it was enqueued with. */
  readonly headers: Readonly<Record<string, string>>;
  /** When it was enqueued. */
  readonly createdAt: Date;
  /** The time its schedule asked for, however late it runs; null: no schedule made it. */
  readonly scheduledAt: Date | null;
  /** Aborted when the lease, the time limit or the worker's grace period is over. */
  readonly signal: AbortSignal;
  /** Your logger, with the job's facts on every line. */
  readonly log: Logger;
  /**
   * Runs `effect` unless an earlier attempt did, and returns its value as JSON keeps it.
   * @example worker.handle(sendReceipt, ({ payload, once }) => once('mail', () => mail.send(payload.orderId)));
   */
  once<Value>(name: string, effect: () => Value | Promise<Value>): Promise<Stored<Value>>;
  /** The same; where the marker keeps no value, it returns what `fallback` returns. */
  once<Value, Fallback>(
    name: string,
    effect: () => Value | Promise<Value>,
    options: OnceOptions<Fallback>,
  ): Promise<Kept<Value> | Fallback>;
  /**
   * Commits your writes together with the completion of the job, fenced. What `work` returns is the result.
   * @example
   * worker.handle(sendReceipt, ({ payload, transaction }) =>
   *   transaction((tx) => tx.query('UPDATE orders SET paid = true WHERE id = $1', [payload.orderId])),
   * );
   */
  transaction<Value extends Result>(work: (tx: pg.PoolClient) => Promise<Value>): Promise<Value>;
  /**
   * Completes the job in a transaction of yours. Call it last before COMMIT.
   * @example
   * worker.handle(sendReceipt, async ({ complete }) => {
   *   await client.query('BEGIN');
   *   await complete(client);
   *   await client.query('COMMIT');
   * });
   */
  complete(tx: Queryable, ...result: ResultArgument<Result>): Promise<void>;
  /**
   * Enqueues a child job that commits with this one (inside `transaction`, with that transaction).
   * @example worker.handle(sendReceipt, ({ payload, enqueue }) => enqueue(sendReceipt, payload, { delay: '7d' }));
   */
  enqueue<Input>(
    job: JobDefinition<Input, unknown>,
    payload: PayloadOf<Input>,
    options?: EnqueueOptions,
  ): Promise<{ id: string }>;
}

/** How jobs are gathered for `worker.handleMany()`. */
export interface BatchOptions {
  /** At most so many jobs in one call, 1 to 1,000. Default 100. */
  readonly max?: number;
  /** How long the first job waits for others. Default 50 ms; 0: only what was claimed together. */
  readonly within?: Duration;
}

/** A job of a batch. Call `done` or `fail` to settle it; the first call counts. */
export interface BatchJob<Payload, Result = unknown>
  extends Omit<HandlerContext<Payload, Result>, 'transaction' | 'complete'> {
  /**
   * Completes this job, whatever becomes of the others. `result` is its result.
   * @example worker.handleMany(sendReceipt, {}, (jobs) => jobs.map((one) => one.done()));
   */
  done(...result: ResultArgument<Result>): Settled;
  /**
   * Ends this job as if its own handler had thrown: an error, RetryLater, Snooze, DeadLetter or Cancel.
   * @example worker.handleMany(sendReceipt, {}, (jobs) => jobs.map((one) => one.fail(new RetryLater('1m', 'busy'))));
   */
  fail(error: unknown): Settled;
}

/** What a batch handler gets beside its jobs. */
export interface BatchContext<Payload, Result = unknown> {
  /** The type of the jobs. */
  readonly type: string;
  /** The queue they came from. */
  readonly queue: QueueName;
  /** Aborted once the signal of every unsettled job is aborted. */
  readonly signal: AbortSignal;
  /** Your logger, with the facts of the batch. */
  readonly log: Logger;
  /**
   * Commits your writes together with the completion of all unsettled jobs, which `work` gets as `jobs`. If one of them
   * is lost, it throws LEASE_LOST and commits nothing; a second call leaves that job out.
   * @example
   * worker.handleMany(sendReceipt, {}, (_, { transaction }) =>
   *   transaction((tx, jobs) => tx.query('UPDATE orders SET paid = true WHERE id = ANY ($1)', [jobs.map(({ payload }) => payload.orderId)])),
   * );
   */
  transaction<Value>(
    work: (tx: pg.PoolClient, jobs: readonly BatchJob<Payload, Result>[]) => Promise<Value>,
  ): Promise<Value>;
}

/** Handles several jobs of a type in one call. */
export type BatchHandler<Payload, Result = unknown> = (
  jobs: readonly BatchJob<Payload, Result>[],
  context: BatchContext<Payload, Result>,
) => undefined extends Result ? unknown : readonly Settled[] | Promise<readonly Settled[]>;

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
  /**
   * How many jobs of this type one worker can run at once, for as long as it lives. They have a queue of their own, which
   * has as many handlers; when the worker drains, their signals are aborted at once.
   */
  readonly residents?: number;
  /** The handler mostly waits for somebody else, and a worker has many of them. */
  readonly waits?: boolean;
  /** Of a workflow, instead of the handler. */
  readonly workflow?: WorkflowRoute;
  /** How many attempts have begun in this worker, and when the last one did. Counted by who runs them. */
  readonly starts?: { count: number; at: number };
}

export interface WorkflowRoute {
  readonly definition: object;
  /** By version. */
  readonly bodies: ReadonlyMap<number, (flow: never, input: never) => unknown>;
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
