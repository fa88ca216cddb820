/** Waiting that ends: for a permit of a breaker, and for an answer. */
import { Snooze } from '../../job/errors/errors.js';
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

/**
 * Waits for a broker's answer until the time is over or the event is lost, whether or not the client minds the signal. The
 * signal is made only for sinks that ask for it: thousands of messages a second go without.
 */
export class Deadline implements PublishOptions {
  readonly timeoutMs: number;
  readonly #lost: AbortSignal;
  #controller: AbortController | null = null;
  #reason: unknown = null;
  timedOut = false;

  constructor(lost: AbortSignal, timeoutMs: number) {
    this.#lost = lost;
    this.timeoutMs = timeoutMs;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason !== null) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  answer<Value>(answer: Promise<Value>): Promise<Value> {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        this.#lost.removeEventListener('abort', onLost);
      };
      const stop = (reason: unknown) => {
        end();
        this.#reason = reason;
        this.#controller?.abort(reason);
        reject(reason);
      };
      const onLost = () => stop(this.#lost.reason);
      const timer = setTimeout(() => {
        this.timedOut = true;
        stop(new Unavailable(`no answer within ${this.timeoutMs} ms`));
      }, this.timeoutMs);
      this.#lost.addEventListener('abort', onLost, { once: true });
      answer.then(
        (value) => {
          end();
          resolve(value);
        },
        (error) => {
          end();
          reject(error);
        },
      );
      if (this.#lost.aborted) onLost();
    });
  }
}
