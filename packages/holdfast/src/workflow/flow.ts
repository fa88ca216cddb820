/** What the body of a workflow is given, and the options of what it asks for. */
import type pg from 'pg';
import type { ChildOptions, JobDefinition, PayloadOf } from '../job/job.js';
import type { Duration } from '../job/options/duration.js';
import type { Json, Kept } from '../job/options/stored.js';
import type { RetryFunction, RetryOptions } from '../job/retry.js';
import type { Logger } from '../postgres/log/log.js';
import type { Signals } from './definition.js';
import type { KeptError } from './errors.js';

/**
 * What the function of a step gets.
 * @example await flow.step('charge', ({ key, signal }) => bank.charge(order, { key, signal }));
 */
export interface StepAbout {
  /** The same in every attempt of this step: pass it to systems that refuse to do one thing twice. */
  readonly key: string;
  /** Aborted when the step's time limit, or the turn, is over. */
  readonly signal: AbortSignal;
  /** 1 on the first try. A try that a crash cut off is not counted. */
  readonly attempt: number;
}

/**
 * What an undo gets beside the value of its step.
 * @example
 * await flow.step('charge', ({ key }) => bank.charge(order, { key }), {
 *   undo: (paid, { key }) => (paid ? bank.refund(paid.id, { key }) : bank.refundByOrder(order.id, { key })),
 * });
 */
export interface UndoAbout extends StepAbout {
  /** `unknown`: the step may have happened or not; it failed, or its worker vanished before its value was recorded. */
  readonly outcome: 'done' | 'unknown';
}

/**
 * How a step is tried.
 * @example await flow.step('charge', ({ key }) => bank.charge(order, { key }), { maxAttempts: 10, retry: { cap: '1m' }, timeout: '10s' });
 */
export interface TryOptions {
  /** How often it is tried before it fails for good, 1 to 10,000. Default 5. */
  readonly maxAttempts?: number;
  /** How long to wait after a failed try. Default: as after a failed attempt of a job. */
  readonly retry?: RetryOptions | RetryFunction;
  /** After this time its signal is aborted and the try fails. Default: the `timeout` of the workflow ends the turn. */
  readonly timeout?: Duration;
}

/**
 * Options of `flow.step()`.
 * @example await flow.step('charge', ({ key }) => bank.charge(order, { key }), { maxAttempts: 3, undo: (paid, { key }) => paid && bank.refund(paid.id, { key }) });
 */
export interface StepOptions<Value> extends TryOptions {
  /**
   * Undoes it when the run fails for good or is cancelled with `undo`. `value` is undefined if the outcome is unknown.
   * Default: nothing is undone.
   */
  readonly undo?: (value: Json<Value> | undefined, about: UndoAbout) => unknown;
}

/**
 * Options of `flow.transaction()`.
 * @example
 * await flow.transaction('reserve', (tx) => tx.query('UPDATE stock SET free = free - 1 WHERE sku = $1', [order.sku]), {
 *   undo: (tx) => tx.query('UPDATE stock SET free = free + 1 WHERE sku = $1', [order.sku]),
 * });
 */
export interface TransactionOptions<Value> extends TryOptions {
  /** Undoes it, in a transaction that commits together with the marker of the undo. Default: nothing is undone. */
  readonly undo?: (tx: pg.PoolClient, value: Json<Value>, about: UndoAbout) => Promise<unknown>;
}

/**
 * Options of `flow.wait()`.
 * @example const approval = await flow.wait('approval', 'approved', { timeout: '3d' });
 */
export interface WaitOptions {
  /** After this time the wait returns null. Without the options it waits until the signal comes. */
  readonly timeout: Duration;
}

/**
 * The signal that a wait for several took: its name and its value.
 * @example
 * const taken = await flow.wait('answer', ['approved', 'refused']);
 * if (taken?.name === 'refused') throw new DeadLetter(taken.value);
 */
export type Taken<Signal extends object, Name extends keyof Signal> = {
  readonly [One in Name]: {
    /** Which signal came. */
    readonly name: One;
    /** What it carried. */
    readonly value: Signal[One];
  };
}[Name];

/**
 * How a child ended.
 * @example
 * const ended = await flow.children('receipts', sendReceipt, [{ orderId: 9182 }]);
 * const failed = ended.filter(({ status }) => status !== 'completed');
 */
export type ChildResult<Result> =
  | {
      /** Only a completed child has a value, and only a dead letter an error. */
      readonly status: 'completed';
      /** What its handler returned. */
      readonly value: Result;
    }
  | {
      readonly status: 'dead_letter';
      /** What its last attempt threw. */
      readonly error: string;
    }
  | { readonly status: 'cancelled' };

/**
 * Options of `flow.children()`.
 * @example await flow.children('receipts', sendReceipt, [{ orderId: 9182 }], { options: ({ orderId }) => ({ partitionKey: `order:${orderId}` }) });
 */
export interface ChildrenOptions<Input> {
  /**
   * Options of each child, such as its partition key. A child takes neither an idempotency key nor a unique key.
   * Default: those of its definition.
   */
  readonly options?: (input: Input, n: number) => ChildOptions;
}

/**
 * Options of `flow.restart()`.
 * @example await flow.restart({ ...order, total: 0 }, { version: 2 });
 */
export interface RestartOptions {
  /** The version that the run has from now on. Default: the version of this body. */
  readonly version?: number;
}

/**
 * What the body of a workflow asks for. Each has a name of its own in the run: what is recorded under it is returned in every
 * later turn, so the body comes back to the same place.
 * @example
 * worker.workflow(checkout, async (flow, order) => {
 *   const paid = await flow.step('charge', ({ key }) => bank.charge(order, { key }));
 *   await flow.sleep('cool off', '1h');
 *   return { paid };
 * });
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
  /**
   * Does something outside of this database and records what it returns as JSON. After a crash it may be done again, with
   * the same `key`.
   * @example const paid = await flow.step('charge', ({ key }) => bank.charge(order, { key }));
   */
  step<Value>(
    name: string,
    effect: (about: StepAbout) => Value | Promise<Value>,
    options?: StepOptions<Value>,
  ): Promise<Json<Value>>;
  /**
   * Commits your writes together with the marker of the step: exactly once.
   * @example await flow.transaction('reserve', (tx) => tx.query('UPDATE stock SET free = free - 1 WHERE sku = $1', [order.sku]));
   */
  transaction<Value>(
    name: string,
    work: (tx: pg.PoolClient, about: StepAbout) => Promise<Value>,
    options?: TransactionOptions<Value>,
  ): Promise<Json<Value>>;
  /**
   * Waits for a time. The run holds no handler, connection or memory meanwhile.
   * @example await flow.sleep('cool off', '14d');
   */
  sleep(name: string, duration: Duration): Promise<void>;
  /**
   * Waits until a time. It does not wait for a time in the past.
   * @example await flow.until('the day of delivery', new Date('2030-01-31T09:00:00Z'));
   */
  until(name: string, time: Date): Promise<void>;
  /**
   * Takes the oldest signal of this name that no other wait took, or waits for one. With several names it takes the oldest of
   * them all; with a `timeout` it returns null when the time is over.
   * @example const { by } = await flow.wait('approval', 'approved');
   */
  wait<Name extends keyof Signal & string>(name: string, signal: Name): Promise<Signal[Name]>;
  /** The same; it returns null after the time-out. */
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
  /** The same; it returns null after the time-out. */
  wait<Name extends keyof Signal & string>(
    name: string,
    signals: readonly Name[],
    options: WaitOptions,
  ): Promise<Taken<Signal, Name> | null>;
  /**
   * Enqueues a job or workflow for each input, waits for all of them, and returns how each ended, in order.
   * @example const ended = await flow.children('receipts', sendReceipt, [{ orderId: 9182 }, { orderId: 9183 }]);
   */
  children<ChildInput, Result>(
    name: string,
    job: JobDefinition<ChildInput, unknown, Result>,
    inputs: readonly PayloadOf<ChildInput>[],
    options?: ChildrenOptions<PayloadOf<ChildInput>>,
  ): Promise<ChildResult<Kept<Result>>[]>;
  /**
   * Begins the run anew under its id, with another input and no recorded steps. Nothing after it runs.
   * @example await flow.restart({ ...order, total: 0 });
   */
  restart(input: Input, options?: RestartOptions): Promise<never>;
  /**
   * Undoes what the run did, and ends it as cancelled. Nothing after it runs. `throw new Cancel(reason)` ends it without undo.
   * @example await flow.undo('nobody approved');
   */
  undo(reason: string): Promise<never>;
}

/**
 * The function of a workflow: it is called in each turn, and asks for the same things in the same order each time.
 * @example worker.workflow(checkout, async (flow, order) => flow.step('charge', ({ key }) => bank.charge(order, { key })));
 */
export type WorkflowBody<Input, Signal extends object = Signals, Result = unknown> = (
  flow: Flow<Signal, Input>,
  input: Input,
) => unknown extends Result ? unknown : Promise<Result>;

export type { KeptError };
