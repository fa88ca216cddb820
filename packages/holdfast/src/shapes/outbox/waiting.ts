/** Waiting that ends: for a permit of a breaker, and for an answer. */
import { Snooze } from '../../job/errors/errors.js';
import type { HandlerContext } from '../../worker/run/handler-context.js';
import { JobFacts } from '../../worker/run/leased-job.js';
import type { Breaker, Permit } from './breaker.js';
import { type PublishOptions, Unavailable } from './sink.js';

interface Patience {
  /** Of the event: its lease is lost, or the grace period is over. */
  readonly signal: AbortSignal;
  /** The worker begins to stop. */
  readonly stopping: AbortSignal;
  readonly ms: number;
  /** How long the event stays away after that. */
  readonly awayMs: number;
}

/** Throws Snooze when the time is over, and at once when the worker stops: another one may reach the broker. */
export function waitForPermit(breaker: Breaker, patience: Patience): Promise<Permit> {
  const { signal, stopping, ms, awayMs } = patience;
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      leave();
      clearTimeout(timer);
      signal.removeEventListener('abort', onLost);
      waits.delete(stopNow);
      settle();
    };
    const onLost = () => end(() => reject(signal.reason));
    const stopNow = () => end(() => reject(new Snooze(0, 'the worker stops')));
    const away = awayMs * (1 + Math.random());
    const tooLong = () => end(() => reject(new Snooze(away, 'the sink does not answer')));
    const waits = waitsOf(stopping);
    const timer = setTimeout(tooLong, Math.max(0, ms));
    const leave = breaker.wait((permit) => end(() => resolve(permit)));
    waits.add(stopNow);
    signal.addEventListener('abort', onLost, { once: true });
    if (signal.aborted) onLost();
    else if (stopping.aborted) stopNow();
  });
}

/** Those that wait when the worker stops. One listener for all: Node warns of many. */
const allWaits = new WeakMap<AbortSignal, Set<() => void>>();

function waitsOf(stopping: AbortSignal): Set<() => void> {
  const known = allWaits.get(stopping);
  if (known) return known;
  const waits = new Set<() => void>();
  stopping.addEventListener('abort', () => {
    for (const stop of [...waits]) stop();
  });
  allWaits.set(stopping, waits);
  return waits;
}

/** How exact the end of a wait is. */
const CHECKS = { share: 10, minMs: 5, maxMs: 100 } as const;

/**
 * Answers of the broker that are waited for, each until its time is over or its event is lost, whether or not the client
 * minds the signal. One timer looks at all of them, and no signal is made for an event unless a sink asks for it:
 * thousands of messages a second go without.
 */
export class Deadlines {
  readonly timeoutMs: number;
  readonly #everyMs: number;
  readonly #open = new Set<Deadline>();
  #timer: NodeJS.Timeout | null = null;

  constructor(timeoutMs: number) {
    this.timeoutMs = timeoutMs;
    this.#everyMs = Math.min(CHECKS.maxMs, Math.max(CHECKS.minMs, timeoutMs / CHECKS.share));
  }

  add(one: Deadline): void {
    this.#open.add(one);
    this.#timer ??= setInterval(() => this.#check(), this.#everyMs);
  }

  remove(one: Deadline): void {
    this.#open.delete(one);
  }

  /** It stops by itself: to stop with each last answer would make a timer for each message of a slow stream. */
  #check(): void {
    const now = performance.now();
    for (const one of this.#open) one.check(now);
    if (this.#open.size > 0 || !this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }
}

/** One of them, from the moment at which its message is sent. */
export class Deadline implements PublishOptions {
  readonly sentAt = performance.now();
  readonly #all: Deadlines;
  readonly #context: Aborts;
  #controller: AbortController | null = null;
  #reason: unknown = null;
  #reject: (reason: unknown) => void = () => {};
  timedOut = false;

  constructor(all: Deadlines, context: Aborts) {
    this.#all = all;
    this.#context = context;
  }

  get timeoutMs(): number {
    return this.#all.timeoutMs;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason !== null) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  check(now: number): void {
    if (isAborted(this.#context)) this.#stop(this.#context.signal.reason);
    else if (now - this.sentAt >= this.timeoutMs) {
      this.timedOut = true;
      this.#stop(new Unavailable(`no answer within ${this.timeoutMs} ms`));
    }
  }

  #stop(reason: unknown): void {
    this.#all.remove(this);
    this.#reason = reason;
    this.#controller?.abort(reason);
    this.#reject(reason);
  }

  answer<Value>(answer: Promise<Value>): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      this.#all.add(this);
      const end = (settle: () => void) => {
        this.#all.remove(this);
        settle();
      };
      answer.then(
        (value) => end(() => resolve(value)),
        (error) => end(() => reject(error)),
      );
    });
  }
}

type Aborts = Pick<HandlerContext<unknown>, 'signal'>;

/** The signal of a context is made when somebody asks for it, and is dearer than the rest of a short handler. */
export const isAborted = (context: Aborts): boolean =>
  context instanceof JobFacts ? context.held.aborted : context.signal.aborted;
