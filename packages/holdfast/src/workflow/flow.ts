/** What the body of a workflow is given, and the options of what it asks for. */
import type pg from 'pg';
import type { EnqueueOptions, JobDefinition, PayloadOf } from '../job/job.js';
import type { Duration } from '../job/options/duration.js';
import type { Json, Kept } from '../job/options/stored.js';
import type { RetryFunction, RetryOptions } from '../job/retry.js';
import type { Logger } from '../postgres/log/log.js';
import type { Signals } from './definition.js';
import type { KeptError } from './errors.js';

/** What the function of a step gets. */
export interface StepAbout {
  /** The same in every attempt of this step: pass it to systems that refuse to do one thing twice. */
  readonly key: string;
  /** Aborted when the step's time limit, or the turn, is over. */
  readonly signal: AbortSignal;
  /** 1 on the first try. A try that a crash cut off is not counted. */
  readonly attempt: number;
}

/** What an undo gets beside the value of its step. */
export interface UndoAbout extends StepAbout {
  /** `unknown`: the step may have happened or not; it failed, or its worker vanished before its value was recorded. */
  readonly outcome: 'done' | 'unknown';
}

/** How a step is tried. */
export interface TryOptions {
  /** How often it is tried before it fails for good, 1 to 10,000. Default 5. */
  readonly maxAttempts?: number;
  /** How long to wait after a failed try. Default: as jobs. */
  readonly retry?: RetryOptions | RetryFunction;
  /** After this time its signal is aborted and the try fails. Default: none of its own. */
  readonly timeout?: Duration;
}

/**
 * Options of `flow.step()`.
 * @example await flow.step('charge', ({ key }) => bank.charge(order, { key }), { maxAttempts: 3, undo: (paid, { key }) => paid && bank.refund(paid.id, { key }) });
 */
export interface StepOptions<Value> extends TryOptions {
  /** Undoes it when the run fails for good or is cancelled with undo. `value` is undefined if the outcome is unknown. */
  readonly undo?: (value: Json<Value> | undefined, about: UndoAbout) => unknown;
}

/** Options of `flow.transaction()`. */
export interface TransactionOptions<Value> extends TryOptions {
  /** Undoes it, in a transaction that commits together with the marker of the undo. */
  readonly undo?: (tx: pg.PoolClient, value: Json<Value>, about: UndoAbout) => Promise<unknown>;
}

/** Options of `flow.wait()`. */
export interface WaitOptions {
  /** After this time the wait returns null. */
  readonly timeout: Duration;
}

/** A signal that a wait for several took. */
export type Taken<Signal extends object, Name extends keyof Signal> = {
  readonly [One in Name]: { readonly name: One; readonly value: Signal[One] };
}[Name];

/** How a child ended. */
export type ChildResult<Result> =
  | { readonly status: 'completed'; readonly value: Result }
  | { readonly status: 'dead_letter'; readonly error: string }
  | { readonly status: 'cancelled' };

/** Options of `flow.children()`. */
export interface ChildrenOptions<Input> {
  /** Options of each child, such as its partition key. A child takes neither an idempotency key nor a unique key. */
  readonly options?: (input: Input, n: number) => Omit<EnqueueOptions, 'idempotencyKey' | 'unique'>;
}

/**
 * What the body of a workflow asks for. Each has a name of its own in the run: what is recorded under it is returned in every
 * later turn, so the body comes back to the same place.
 * @example const paid = await flow.step('charge', ({ key }) => bank.charge(order, { key })); await flow.sleep('cool off', '1h');
 */
export interface Flow<Signal extends object = Signals, Input = unknown> {
  /** The id of the run. */
  readonly id: string;
  /** The name of the workflow. */
  readonly type: string;
  /** The version of the body. */
  readonly version: number;
  /** 1, unless turns in a row ended without getting on. */
  readonly attempt: number;
  /** When the run was enqueued. */
  readonly createdAt: Date;
  /** The headers it was enqueued with. */
  readonly headers: Readonly<Record<string, string>>;
  /** Aborted when the lease, the time limit of a turn or the worker's grace period is over. */
  readonly signal: AbortSignal;
  /** Your logger, with the run's facts on every line. */
  readonly log: Logger;
  /** Does something outside of this database, once, and records what it returns as JSON. */
  step<Value>(
    name: string,
    effect: (about: StepAbout) => Value | Promise<Value>,
    options?: StepOptions<Value>,
  ): Promise<Json<Value>>;
  /** Commits your writes together with the marker of the step: exactly once. */
  transaction<Value>(
    name: string,
    work: (tx: pg.PoolClient, about: StepAbout) => Promise<Value>,
    options?: TransactionOptions<Value>,
  ): Promise<Json<Value>>;
  /** Waits for a time. The run holds no handler, connection or memory meanwhile. */
  sleep(name: string, duration: Duration): Promise<void>;
  /** Waits until a time. One in the past is over at once. */
  until(name: string, time: Date): Promise<void>;
  /** Takes the oldest signal of this name that nobody took, or waits for it. */
  wait<Name extends keyof Signal & string>(name: string, signal: Name): Promise<Signal[Name]>;
  /** The same; null after the time-out. */
  wait<Name extends keyof Signal & string>(
    name: string,
    signal: Name,
    options: WaitOptions,
  ): Promise<Signal[Name] | null>;
  /** Takes the oldest signal of one of these names. */
  wait<Name extends keyof Signal & string>(
    name: string,
    signals: readonly Name[],
  ): Promise<Taken<Signal, Name>>;
  /** The same; null after the time-out. */
  wait<Name extends keyof Signal & string>(
    name: string,
    signals: readonly Name[],
    options: WaitOptions,
  ): Promise<Taken<Signal, Name> | null>;
  /** Enqueues a job or workflow for each input, waits for all of them, and returns how each ended, in order. */
  children<ChildInput, Result>(
    name: string,
    job: JobDefinition<ChildInput, unknown, Result>,
    inputs: readonly PayloadOf<ChildInput>[],
    options?: ChildrenOptions<PayloadOf<ChildInput>>,
  ): Promise<ChildResult<Kept<Result>>[]>;
  /** Ends this turn and begins the run anew in place, with another input and no recorded steps. */
  restart(input: Input): Promise<never>;
}

/** The function of a workflow: it is called in each turn, and asks for the same things in the same order each time. */
export type WorkflowBody<Input, Signal extends object = Signals, Result = unknown> = (
  flow: Flow<Signal, Input>,
  input: Input,
) => unknown extends Result ? unknown : Promise<Result>;

export type { KeptError };
