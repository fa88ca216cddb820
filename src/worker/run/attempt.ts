/**
 * A run: one attempt of one job, from the stored payload to an outcome. An outcome is a value; this
 * function never throws, whatever the handler does.
 *
 * The stated rules for what a worker may find:
 * - the payload does not fit the schema, or no upgrade leads from its version: a dead letter at once, because
 *   trying again cannot help; a human retries it after a deploy;
 * - the time limit is over: the signal is aborted and the attempt fails; a handler that goes on anyway
 *   settles nothing.
 */

import type { NewJob } from '../../enqueue/insert.js';
import { MAX_DELAY_MS } from '../../job/duration.js';
import { Cancel, DeadLetter, HoldfastError, RetryLater, Snooze } from '../../job/errors.js';
import { errorText } from '../../job/failure.js';
import type { JobDefinition } from '../../job/job.js';
import { errorType } from '../../tracing/error-type.js';
import { JobContext } from './context.js';
import type { ContextDeps, HandlerContext } from './handler-context.js';
import type { LeasedJob } from './leased-job.js';
import type { Many } from './many.js';
import { resultText } from './result.js';

export type Handler = (context: HandlerContext<unknown>) => unknown;

export interface Route {
  readonly job: JobDefinition<unknown, unknown>;
  /** Of one job, also of a type that is handled in batches. */
  readonly handler: Handler;
  /** Set for a type that is handled in batches. */
  readonly many?: Many;
}

export type Outcome =
  | {
      readonly kind: 'completed';
      readonly children: readonly NewJob[];
      /** What the handler returned, as JSON; null: nothing that is kept. */
      readonly result: string | null;
    }
  /** A transaction of the handler's completed the job, and it committed. */
  | { readonly kind: 'transacted' }
  | {
      readonly kind: 'failed';
      readonly delayMs: number;
      readonly error: string;
      readonly summary: string;
      /** In one word, for traces. */
      readonly errorType: string;
      readonly thrown: unknown;
      /** A transaction had the completion in it, and whether that committed is not known. */
      readonly handed: boolean;
    }
  | {
      readonly kind: 'dead_letter';
      readonly error: string;
      readonly summary: string;
      readonly errorType: string;
      readonly thrown: unknown;
    }
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  | { readonly kind: 'cancelled'; readonly reason: string }
  | { readonly kind: 'lost' };

const SUMMARY_CHARS = 300;

/** What the row, its history and a trace say of an error. */
export function described(error: unknown) {
  const text = errorText(error);
  const line = text.split('\n', 1)[0] as string;
  return {
    error: text,
    thrown: error,
    errorType: errorType(error),
    summary: line.length > SUMMARY_CHARS ? `${line.slice(0, SUMMARY_CHARS - 1)}…` : line,
  };
}

/** `instanceof` that a thrown Proxy cannot make throw. */
function isA<Kind>(error: unknown, kind: abstract new (...args: never[]) => Kind): error is Kind {
  try {
    return error instanceof kind;
  } catch {
    return false;
  }
}

/** Subclasses of RetryLater and Snooze may set anything; Postgres takes whole numbers only. */
const bounded = (ms: number) => (ms > 0 ? Math.min(Math.round(ms), MAX_DELAY_MS) : 0);

/** Timers cannot wait longer; for a handler, 24 days are no limit at all. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const DEAD_LETTER_AT_ONCE = new Set(['PAYLOAD_INVALID', 'VERSION_UNSUPPORTED', 'PAYLOAD_NOT_JSON']);

/** A promise only where the handler, or reading its payload, makes one: it costs more than a short job. */
export function runJob(
  held: LeasedJob,
  route: Route,
  deps: ContextDeps,
  defaultTimeoutMs: number | null,
): Outcome | Promise<Outcome> {
  const { row } = held;
  const timeoutMs = route.job.timeoutMs ?? defaultTimeoutMs;
  let payload: unknown;
  try {
    payload = route.job.read(JSON.parse(row.payload), row.version);
  } catch (error) {
    return unreadable(held, route, error, deps);
  }
  if (!(payload instanceof Promise)) return handle(held, route, payload, timeoutMs, deps);
  return payload.then(
    (read) => handle(held, route, read, timeoutMs, deps),
    (error) => unreadable(held, route, error, deps),
  );
}

function handle(
  held: LeasedJob,
  route: Route,
  payload: unknown,
  timeoutMs: number | null,
  deps: ContextDeps,
): Outcome | Promise<Outcome> {
  const context = new JobContext(held, payload, deps);
  const threw = (error: unknown) => afterThrow(held, route, context, error, deps);
  // Asked in the tick in which the attempt ends: a call begins before that, or is refused.
  const returned = (value: unknown): Outcome | Promise<Outcome> =>
    context.calls.none
      ? afterReturn(held, route, context, value, deps)
      : context.calls.ended().then(() => returned(value), threw);
  let answer: unknown;
  try {
    answer =
      timeoutMs === null
        ? route.handler(context)
        : withinTime(held, timeoutMs, async () => {
            const value = await route.handler(context);
            while (!context.calls.none) await context.calls.ended();
            context.end('returned');
            return value;
          });
    if (mayBePromise(answer)) return Promise.resolve(answer).then(returned, threw);
  } catch (error) {
    return threw(error);
  }
  return returned(answer);
}

/** Of whichever library; asking for `then` is left to the one who waits for it. */
const mayBePromise = (answer: unknown) =>
  (typeof answer === 'object' && answer !== null) || typeof answer === 'function';

function afterReturn(
  held: LeasedJob,
  route: Route,
  context: JobContext<unknown>,
  value: unknown,
  deps: ContextDeps,
): Outcome {
  context.end('returned');
  if (context.completion === 'done') return { kind: 'transacted' };
  if (context.completion === 'handed') {
    const error = new Error('the transaction that ctx.complete was given did not commit');
    return failed(held, route, error, deps, true);
  }
  return { kind: 'completed', children: context.children, result: resultText(value, held, deps) };
}

/** An upgrade function may fail for a reason that passes; a payload that does not fit will not. */
function unreadable(held: LeasedJob, route: Route, error: unknown, deps: ContextDeps): Outcome {
  if (isA(error, HoldfastError) && DEAD_LETTER_AT_ONCE.has(error.code)) {
    return { kind: 'dead_letter', ...described(error) };
  }
  return failed(held, route, error, deps, false);
}

function afterThrow(
  held: LeasedJob,
  route: Route,
  context: JobContext<unknown>,
  error: unknown,
  deps: ContextDeps,
): Outcome {
  context.end('failed');
  if (context.completion === 'done') {
    deps.log.warn(
      { job: held.id, type: held.row.type, err: described(error).summary },
      'a handler threw after its transaction had completed the job; the job stays completed',
    );
    return { kind: 'transacted' };
  }
  if (held.lost || held.gone) return { kind: 'lost' };
  if (isA(error, Snooze)) return { kind: 'snoozed', delayMs: bounded(error.delayMs) };
  if (isA(error, Cancel)) return { kind: 'cancelled', reason: described(error).error };
  if (isA(error, DeadLetter)) return { kind: 'dead_letter', ...described(error) };
  return failed(held, route, error, deps, context.completion === 'handed');
}

function failed(
  held: LeasedJob,
  route: Route,
  error: unknown,
  deps: ContextDeps,
  handed: boolean,
): Outcome {
  if (isA(error, RetryLater)) {
    return { kind: 'failed', delayMs: bounded(error.delayMs), ...described(error), handed };
  }
  const { delayMs, problem } = route.job.retry(held.row.attempts, error);
  if (problem !== undefined) {
    deps.log.warn(
      { job: held.id, type: held.row.type, err: described(problem).summary },
      'the retry function of a job failed; the default delay was used',
    );
  }
  return { kind: 'failed', delayMs, ...described(error), handed };
}

async function withinTime(
  held: LeasedJob,
  timeoutMs: number,
  work: () => unknown,
): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => {
        const error = new HoldfastError(
          'HANDLER_TIMEOUT',
          `The handler did not end within its time limit of ${timeoutMs} ms; its signal was aborted and the attempt failed.`,
        );
        held.abort(error);
        reject(error);
      },
      Math.min(timeoutMs, LONGEST_TIMER_MS),
    );
  });
  try {
    // When the limit wins, the handler's own rejection is still observed by the race and not unhandled.
    return await Promise.race([(async () => work())(), limit]);
  } finally {
    clearTimeout(timer);
  }
}
