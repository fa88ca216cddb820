/**
 * One attempt of one job, from the stored payload to an outcome, which is a value: an attempt never throws. A payload that
 * cannot be read makes a dead letter at once. When the time limit is over the signal is aborted and the attempt fails.
 * Whatever aborted the signal, the attempt of a handler that goes on is over after a grace.
 */
import { Cancel, DeadLetter, HoldfastError, RetryLater, Snooze } from '../../job/errors/errors.js';
import { errorText, isA, summaryOf } from '../../job/errors/failure.js';
import { MAX_DELAY_MS } from '../../job/options/duration.js';
import { errorType } from '../../tracing/tracing.js';
import { TurnOver, takeTurn } from '../workflow/turn-of.js';
import type { Child } from './completion.js';
import { JobContext } from './context.js';
import type { ContextDeps } from './context-deps.js';
import type { Route } from './handler-context.js';
import type { Leakable } from './leaks.js';
import type { LeasedJob } from './leased-job.js';
import { resultText } from './result.js';

export type Outcome =
  | {
      readonly kind: 'completed';
      readonly children: readonly Child[];
      /** What the handler returned, as JSON; null: nothing that is kept. */
      readonly result: string | null;
    }
  /** A transaction of the handler's completed the job, and it committed. */
  | { readonly kind: 'transacted' }
  /** The handler put the completion into a transaction of its own. The archive knows whether that committed. */
  | { readonly kind: 'handed'; readonly ifNot: () => Failure }
  | Failure
  | ({ readonly kind: 'dead_letter' } & Described)
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  /** The turn of a run is over, and its row says for what it waits. `dueInMs`: until a time comes; null: for none. */
  | { readonly kind: 'suspended'; readonly dueInMs: number | null }
  /** The database refused the completion inside of a transaction to everybody: the job is not to blame. */
  | { readonly kind: 'refused'; readonly error: unknown }
  | { readonly kind: 'cancelled'; readonly reason: string }
  | { readonly kind: 'lost' };

type Described = Readonly<ReturnType<typeof described>>;

export interface Failure extends Described {
  readonly kind: 'failed';
  readonly delayMs: number;
  /** A transaction had the completion in it, and whether that committed is not known. */
  readonly handed: boolean;
}

const LOST: Outcome = { kind: 'lost' };
/** What the row, its history and a trace say of an error. */
export function described(error: unknown) {
  const text = errorText(error);
  return { error: text, thrown: error, errorType: errorType(error), summary: summaryOf(text) };
}

/** The handler threw what the database had said to its completion, as it was or as the cause of its own error. */
function isRefusalOf({ refusal }: JobContext<unknown>, error: unknown): boolean {
  if (refusal === null) return false;
  return error === refusal || (isA(error, Error) && error.cause === refusal);
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
  const { payload, version } = held.row;
  const attempt = new Attempt(held, route, deps, route.job.timeoutMs ?? defaultTimeoutMs);
  let read: unknown;
  try {
    read = route.job.read(JSON.parse(payload), version);
  } catch (error) {
    return attempt.unreadable(error);
  }
  if (!(read instanceof Promise)) return attempt.handle(read);
  return read.then(
    (value) => attempt.handle(value),
    (error) => attempt.unreadable(error),
  );
}

class Attempt implements Leakable {
  readonly #held: LeasedJob;
  readonly #route: Route;
  readonly #deps: ContextDeps;
  readonly #timeoutMs: number | null;
  #context!: JobContext<unknown>;
  #timer: NodeJS.Timeout | null = null;
  #decide: (outcome: Outcome) => void = () => {};
  /** It was ended so: what the handler says from now on does not count. */
  #decided = false;

  constructor(held: LeasedJob, route: Route, deps: ContextDeps, timeoutMs: number | null) {
    this.#held = held;
    this.#route = route;
    this.#deps = deps;
    this.#timeoutMs = timeoutMs;
  }

  /** An upgrade function may fail for a reason that passes; a payload that does not fit will not. */
  unreadable(error: unknown): Outcome {
    if (isA(error, HoldfastError) && DEAD_LETTER_AT_ONCE.has(error.code)) {
      return { kind: 'dead_letter', ...described(error) };
    }
    return this.#failed(error);
  }

  get of() {
    return this.#held.facts;
  }

  handle(payload: unknown): Outcome | Promise<Outcome> {
    const context = new JobContext(this.#held, payload, this.#deps, this.#route.job);
    this.#context = context;
    let answer: unknown;
    try {
      const { workflow, handler } = this.#route;
      answer = workflow ? takeTurn(context, workflow, this.#deps) : handler(context);
      if (context.hasResultSchema) answer = this.#checked(answer);
      if (mayBePromise(answer) || !context.calls.none)
        return this.#untilOver(Promise.resolve(answer));
    } catch (error) {
      return this.#threw(error);
    }
    return this.#returned(answer);
  }

  /** What a transaction of the handler's completed the job with was checked there. */
  async #checked(answer: unknown): Promise<unknown> {
    const context = this.#context;
    const value = await answer;
    await context.calls.ended();
    if (context.completion === 'none') await context.checkResult(value);
    return value;
  }

  /** Until the handler has ended; or until its time is over, or its job has left and its grace is over too. */
  #untilOver(answer: Promise<unknown>): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      this.#decide = resolve;
      this.#held.attempt = this;
      if (this.#timeoutMs !== null) this.#limit(this.#timeoutMs);
      if (this.#held.aborted) this.aborted();
      const ended = (outcome: Outcome) => {
        if (this.#timer) clearTimeout(this.#timer);
        this.#held.attempt = null;
        if (this.#held.aborted) this.#deps.leaks?.ended(this);
        resolve(outcome);
      };
      const end = (outcome: Outcome | Promise<Outcome>) =>
        outcome instanceof Promise ? outcome.then(ended) : ended(outcome);
      answer
        .then(
          (value) => end(this.#returned(value)),
          (error) => end(this.#threw(error)),
        )
        .catch(reject);
    });
  }

  #over(outcome: Outcome): void {
    this.#decided = true;
    this.#decide(outcome);
  }

  /** The job has left, or its time is over: from now on the handler has its grace. */
  aborted(): void {
    this.#deps.leaks?.watch(this, !this.#route.inBatch);
  }

  abandon(): void {
    this.#context.end('failed');
    this.#context.cutOff();
    this.#over({ kind: this.#context.completion === 'done' ? 'transacted' : 'lost' });
  }

  /** Asked in the tick in which the attempt ends: a call begins before that, or is refused. */
  #returned(value: unknown): Outcome | Promise<Outcome> {
    const context = this.#context;
    if (this.#decided) return LOST;
    if (!context.calls.none) {
      return context.calls.ended().then(
        () => this.#returned(value),
        (error) => this.#threw(error),
      );
    }
    context.end('returned');
    if (context.completion === 'done') return { kind: 'transacted' };
    if (context.completion === 'handed') {
      const error = () => new Error('the transaction that ctx.complete was given did not commit');
      return { kind: 'handed', ifNot: () => this.#failed(error(), true) };
    }
    const result = resultText(value, this.#held, this.#deps);
    return { kind: 'completed', children: context.children, result };
  }

  #threw(error: unknown): Outcome {
    const context = this.#context;
    if (this.#decided) return LOST;
    context.end('failed');
    if (context.completion === 'done') {
      this.#deps.log.warn(
        { ...this.#facts(error) },
        'a handler threw after its transaction had completed the job; the job stays completed',
      );
      return { kind: 'transacted' };
    }
    if (this.#held.lost || this.#held.gone) return LOST;
    if (isA(error, TurnOver)) return { kind: 'suspended', dueInMs: error.dueInMs };
    if (isRefusalOf(context, error)) return { kind: 'refused', error };
    if (isA(error, Snooze)) return { kind: 'snoozed', delayMs: bounded(error.delayMs) };
    if (isA(error, Cancel)) return { kind: 'cancelled', reason: described(error).error };
    if (isA(error, DeadLetter) || (error === context.refusedResult && error !== null))
      return { kind: 'dead_letter', ...described(error) };
    return this.#failed(error, context.completion === 'handed');
  }

  #failed(error: unknown, handed = false): Failure {
    const { delayMs, problem } = isA(error, RetryLater)
      ? { delayMs: bounded(error.delayMs) }
      : this.#route.job.retry(this.#held.row.attempts, error);
    if (problem !== undefined)
      this.#deps.log.warn(
        { ...this.#facts(problem) },
        'the retry function of a job failed; the default delay was used',
      );
    return { kind: 'failed', delayMs, ...described(error), handed };
  }

  #facts(error: unknown) {
    const { id, row } = this.#held;
    return { job: id, type: row.type, err: described(error).summary };
  }

  #limit(timeoutMs: number): void {
    const end = () => {
      const error = new HoldfastError(
        'HANDLER_TIMEOUT',
        `The handler did not end within its time limit of ${timeoutMs} ms; its signal was aborted and the attempt failed.`,
      );
      // First: what hears of the abort may ask the context for something at once.
      this.#context.timeOut(timeoutMs);
      this.#held.abort(error);
      this.#over(this.#threw(error));
    };
    this.#timer = setTimeout(end, Math.min(timeoutMs, LONGEST_TIMER_MS));
  }
}

/** Of whichever library; asking for `then` is left to the one who waits for it. */
const mayBePromise = (answer: unknown) =>
  (typeof answer === 'object' && answer !== null) || typeof answer === 'function';
