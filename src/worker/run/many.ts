/** What a handler of several jobs is given, and how it asks for them. */
import type pg from 'pg';
import { type Duration, durationMs } from '../../job/duration.js';
import { checkInteger } from '../../job/job.js';
import { checkKnown, type Known } from '../../job/known-options.js';
import type { Logger } from '../../postgres/log.js';
import type { HandlerContext } from './handler-context.js';

export interface BatchOptions {
  /** At most so many jobs in one call: 1 to 1,000. Default 100. */
  readonly max?: number;
  /** How long the first job of a batch may wait for others. Default 50 ms; 0: what was claimed together. */
  readonly within?: Duration;
}

/** A job of a batch: a handler's context, and two words for what became of it. The first word counts. */
export interface BatchJob<Payload>
  extends Omit<HandlerContext<Payload>, 'transaction' | 'complete'> {
  /** It succeeded, whatever becomes of the others. `result` is its result. */
  done(result?: unknown): void;
  /** As if its own handler had thrown this: an error, or RetryLater, Snooze, DeadLetter or Cancel. */
  fail(error: unknown): void;
}

export interface BatchContext<Payload> {
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
    work: (tx: pg.PoolClient, jobs: readonly BatchJob<Payload>[]) => Promise<Value>,
  ): Promise<Value>;
}

export type BatchHandler<Payload> = (
  jobs: readonly BatchJob<Payload>[],
  context: BatchContext<Payload>,
) => unknown;

/** What a route has for a type that is handled in batches. */
export interface Many {
  readonly max: number;
  readonly withinMs: number;
  readonly handler: BatchHandler<unknown>;
}

const OPTIONS = { max: true, within: true } as const satisfies Known<BatchOptions>;

export function resolveBatch(
  options: BatchOptions | undefined,
  handler: BatchHandler<never>,
): Many {
  checkKnown(options, OPTIONS, 'handleMany()', 'No handler was added.');
  const { max = 100, within = 50 } = options ?? {};
  return {
    max: checkInteger(max, 'max of handleMany()', 1, 1_000),
    withinMs: durationMs(within, 'within of handleMany()', { min: 0, max: 60_000 }),
    handler: handler as BatchHandler<unknown>,
  };
}
