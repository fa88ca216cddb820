/**
 * A job definition, for the producer and the worker: the type's name, what its payload looks like, and how it is run. The
 * payload is checked against the schema when it is enqueued and again before the handler runs: stored is what the producer
 * passed, and the handler gets what the schema makes of it. `upgrade` brings payloads of older versions up step by step;
 * those of newer versions are not claimed.
 */

import { type DeadJob, type Hook, hookOf } from './dead-job.js';
import { HoldfastError, invalid, shown } from './errors/holdfast-error.js';
import { checkType } from './key.js';
import { checkLimit, type JobLimit, type Limit, limitKeyOf } from './limit.js';
import { type Duration, durationMs } from './options/duration.js';
import {
  type ChildOptions,
  ENQUEUE_OPTIONS,
  type EnqueueOptions,
  type Priority,
} from './options/enqueue-options.js';
import { checkKnown, type Known } from './options/known-options.js';
import { refuseOrdering } from './order.js';
import type { QueueName } from './queue-name.js';
import { type RetryDelay, type RetryFunction, type RetryOptions, resolveRetry } from './retry.js';
import { describeIssues, type StandardSchema } from './standard-schema.js';
import { checkUniqueBy, type Unique, type UniqueBy, uniqueOf } from './unique.js';

export { type ChildOptions, ENQUEUE_OPTIONS, type EnqueueOptions, type Priority };

/**
 * Options of `job()`.
 * @example const receipt = job<{ orderId: number }>('receipt', { maxAttempts: 8, timeout: '30s' });
 */
export interface JobOptions<Input, Payload, Result = unknown> {
  /** Checks payloads: any Standard Schema, such as zod, valibot or arktype. Default: nothing is checked. */
  readonly schema?: StandardSchema<Input, Payload>;
  /**
   * Checks what the handler returns, and types `hf.wait(job, id)`. A job whose result does not fit becomes a dead letter,
   * because a retry would repeat its work. Default: nothing is checked.
   */
  readonly result?: StandardSchema<Result, Result>;
  /** The version of the payload's shape. Raise it when you change the shape, and add an upgrade. Default 1. */
  readonly version?: number;
  /**
   * `upgrade[1]` turns a payload of version 1 into one of version 2, and so on. What an older version looked
   * like only you know, so `old` is what you say it is. Default: older payloads are refused.
   */
  // biome-ignore lint/suspicious/noExplicitAny: with `unknown` no function that names its type would fit.
  readonly upgrade?: Readonly<Record<number, (old: any) => unknown>>;
  /** The queue of its jobs. Default `inbox`. */
  readonly queue?: QueueName;
  /** How often a job is tried before it becomes a dead letter, 1 to 10,000. Default 5. */
  readonly maxAttempts?: number;
  /** 1 (first) to 4 (last). Default 2. No effect in a queue that is read by key. */
  readonly priority?: Priority;
  /** How long to wait after a failed attempt. Default: a random time up to 2 s, doubling with each attempt, at most 1 h. */
  readonly retry?: RetryOptions | RetryFunction;
  /** After this time the handler's signal is aborted and the attempt fails. Default: the worker's. */
  readonly timeout?: Duration;
  /** Folds enqueues of the same key into one job. Default: every enqueue makes a job. */
  readonly unique?: UniqueBy<Input>;
  /** How many run at once and how many start in a time, across the fleet. Default: no limit. */
  readonly limit?: JobLimit<Input>;
  /** Enqueued in the same statement when a job becomes a dead letter. Default: none. */
  readonly onDeadLetter?: Teller<PayloadOf<Input>>;
}

/** A payload without what does not come back from JSON as it went in: a Date, which becomes a text, or a BigInt. */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler may return nothing
type Plain<Payload> = Payload extends string | number | boolean | null | undefined | void
  ? Payload
  : Payload extends bigint | symbol | ((...args: never) => unknown)
    ? never
    : Payload extends { toJSON(...args: never): unknown }
      ? never
      : Payload extends readonly unknown[]
        ? { readonly [index: number]: Plain<Payload[number]> }
        : Payload extends object
          ? { [Name in keyof Payload]: Plain<Payload[Name]> }
          : Payload;

/** The payload of a job, which says what it is: what is passed is checked against it and does not widen it. */
export type PayloadOf<Input> = [Input][Input extends unknown ? 0 : never];

/** A name, or for a payload or a result that JSON cannot hold a sentence that the compiler shows. */
export type JobName<Input, Result = unknown> = [Input] extends [Plain<Input>]
  ? [Result] extends [Plain<Result>]
    ? string
    : 'The result holds what JSON cannot, such as a Date. Return a string.'
  : 'The payload holds what JSON cannot, such as a Date. Enqueue a string and let a schema convert it.';

/** Throws unless it was made by `job()`, of whichever copy of the package. `undone` says what was not done. */
export function checkDefinition(given: unknown, what: string, undone: string): void {
  const { type, queue, item, read } = (given ?? {}) as Partial<JobDefinition<never, unknown>>;
  const isOne = typeof type === 'string' && typeof queue === 'string';
  if (isOne && typeof item === 'function' && typeof read === 'function') return;
  throw invalid(`${what} must be a definition, made with job('…'), not ${shown(given)}. ${undone}`);
}

export const JOB_OPTIONS = {
  ...{ schema: true, result: true, version: true, upgrade: true, queue: true },
  ...{ maxAttempts: true, priority: true, retry: true, timeout: true, unique: true, limit: true },
  onDeadLetter: true,
} as const satisfies Known<JobOptions<unknown, unknown>>;

/** One job for `hf.enqueueMany()`. Make it with `job.item(payload, options)`. */
export interface EnqueueItem {
  /** Its definition. */
  readonly job: JobDefinition<never, unknown>;
  /** What the handler gets. */
  readonly payload: unknown;
  /** As for `hf.enqueue()`. */
  readonly options: EnqueueOptions;
  /** What `options.unique` and the definition come to. */
  readonly unique?: Unique | null;
}

/** What `job()` makes: the payload that is enqueued, the one that the handler gets, and what the handler returns. */
export interface JobDefinition<Input, Payload = Input, Result = unknown> {
  readonly type: string;
  readonly version: number;
  readonly queue: QueueName;
  readonly maxAttempts: number;
  readonly priority: number;
  /** The handler's time limit; null: the worker's. */
  readonly timeoutMs: number | null;
  readonly hasSchema: boolean;
  readonly hasResultSchema: boolean;
  /** Null: no limit. */
  readonly limit: Limit | null;
  readonly hasUnique: boolean;
  /** Where a dead letter is announced; null: nowhere. */
  readonly onDeadLetter: Hook | null;
  /** Whether `limit.rate` has a key. */
  readonly hasLimitKey: boolean;
  /** The key under which a payload counts in the rate; null: the rate has no keys. */
  limitKey(payload: unknown): string | null;
  /** When a failed attempt is tried again. */
  readonly retry: (attempt: number, error: unknown) => RetryDelay;
  /** Makes one item for `hf.enqueueMany()`. */
  item(payload: Input, options?: EnqueueOptions): EnqueueItem;
  /** Checks a payload of the current version against the schema. The error names paths, never values. */
  check(payload: unknown): Promise<Payload>;
  /** Checks a result against its schema. The error names paths, never values. */
  checkResult(result: unknown): Promise<Result>;
  /**
   * Brings a stored payload of any known version up to the current one, then checks it. Not a promise
   * when there is nothing to do: most jobs have no schema, and a worker reads every payload.
   */
  read(payload: unknown, version: number): Payload | Promise<Payload>;
}

/** A property and no method: so a job that reads more than the payload has is refused by the compiler. */
export type Teller<Payload> = JobDefinition<never, unknown> & {
  readonly item: (payload: DeadJob<Payload>, options?: EnqueueOptions) => EnqueueItem;
};

export function checkInteger(value: unknown, what: string, min: number, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max)
    return value;
  throw invalid(
    `${what} must be a whole number from ${min} to ${max}, not ${shown(value)}. Nothing was done.`,
  );
}

function checkUpgrades(
  type: string,
  version: number,
  upgrade: Readonly<Record<number, unknown>>,
): number {
  const from = Object.keys(upgrade).map(Number);
  const oldest = from.length === 0 ? version : Math.min(...from);
  for (let step = oldest; step < version; step++) {
    if (typeof upgrade[step] !== 'function') {
      throw invalid(
        `Job "${type}" has version ${version} but no upgrade function from version ${step}: ` +
          `add upgrade: { ${step}: (old) => … }, or leave out all versions before ${step + 1}.`,
      );
    }
  }
  if (from.some((step) => step >= version)) {
    throw invalid(
      `Job "${type}" has version ${version}, so upgrades may start from versions below it only.`,
    );
  }
  return oldest;
}

async function fit<Value>(
  schema: Pick<StandardSchema<unknown, Value>['~standard'], 'validate'> | undefined,
  value: unknown,
  code: 'PAYLOAD_INVALID' | 'RESULT_INVALID',
  what: string,
): Promise<Value> {
  if (!schema) return value as Value;
  const result = await schema.validate(value);
  if (!result.issues) return result.value;
  const issues = describeIssues(result.issues, value);
  throw new HoldfastError(code, `${what} does not fit its schema: ${issues}.`);
}

/**
 * Defines a job: its name, the type of its payload, and how it runs. Producers and workers share the definition.
 * @example
 * const sendReceipt = job<{ orderId: number }>('send_receipt', { maxAttempts: 8, timeout: '30s' });
 * await hf.enqueue(sendReceipt, { orderId: 9182 });
 */
export function job<Input = unknown, Result = unknown, Payload = Input>(
  name: JobName<Input, Result>,
  options: JobOptions<Input, Payload, Result> = {},
): JobDefinition<Input, Payload, Result> {
  const type = checkType(name);
  refuseOrdering(type, options);
  checkKnown(options, JOB_OPTIONS, `job("${type}")`, 'No definition was made.');
  const version = checkInteger(options.version ?? 1, `version of job "${type}"`, 1, 2 ** 31 - 1);
  const upgrade: Readonly<Record<number, (old: unknown) => unknown>> = options.upgrade ?? {};
  const oldest = checkUpgrades(type, version, upgrade);
  if (options.unique !== undefined) checkUniqueBy(type, options.unique);
  const rateKey = options.limit?.rate?.key;
  const hook = options.onDeadLetter;
  if (hook !== undefined)
    checkDefinition(hook, `onDeadLetter of job "${type}"`, 'No definition was made.');

  const check = (payload: unknown) =>
    fit(options.schema?.['~standard'], payload, 'PAYLOAD_INVALID', `The payload of "${type}"`);

  const definition: JobDefinition<Input, Payload, Result> = {
    type,
    version,
    queue: options.queue ?? 'inbox',
    maxAttempts: checkInteger(options.maxAttempts ?? 5, 'maxAttempts', 1, 10_000),
    priority: checkInteger(options.priority ?? 2, 'priority', 1, 4),
    timeoutMs:
      options.timeout === undefined ? null : durationMs(options.timeout, 'timeout', { min: 1 }),
    hasSchema: options.schema !== undefined,
    hasResultSchema: options.result !== undefined,
    limit:
      options.limit === undefined
        ? null
        : checkLimit(options.limit, `Job "${type}"`, 'No definition was made.'),
    hasLimitKey: rateKey !== undefined,
    hasUnique: options.unique !== undefined,
    onDeadLetter: hook ? hookOf(hook, `job "${type}"`, 'No definition was made.') : null,
    limitKey: (payload) =>
      rateKey === undefined ? null : limitKeyOf(type, rateKey, payload as Input),
    retry: resolveRetry(options.retry),
    item(payload, itemOptions = {}) {
      checkKnown(itemOptions, ENQUEUE_OPTIONS, `A job of "${type}"`, 'Nothing was enqueued.');
      return {
        job: definition as JobDefinition<never, unknown>,
        payload,
        options: itemOptions,
        unique: uniqueOf(type, payload, options.unique, itemOptions.unique),
      };
    },
    check,
    checkResult: (result) =>
      fit(options.result?.['~standard'], result, 'RESULT_INVALID', `The result of "${type}"`),
    read(payload, storedVersion) {
      const asItIs = storedVersion === version && !options.schema;
      return asItIs ? (payload as Payload) : readOther(payload, storedVersion);
    },
  };

  async function readOther(payload: unknown, storedVersion: number): Promise<Payload> {
    if (storedVersion < oldest || storedVersion > version) {
      throw new HoldfastError(
        'VERSION_UNSUPPORTED',
        `The payload of "${type}" has version ${storedVersion}; this worker knows ${oldest} to ${version}. ` +
          'Deploy a version with an upgrade for it, then retry the job.',
      );
    }
    let current = payload;
    for (let step = storedVersion; step < version; step++) {
      current = await upgrade[step]?.(current);
    }
    return check(current);
  }
  return definition;
}
