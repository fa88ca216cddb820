// The four errors that a handler throws to say how a job ends. They are outcomes and not defects, so each is a class of
// its own, without a code. Postgres' own errors pass through untouched.

import { type Duration, durationMs, MAX_DELAY_MS } from '../options/duration.js';
import { brand } from './holdfast-error.js';

export { HoldfastError } from './holdfast-error.js';

/**
 * Throw it in a handler to run the job again after a delay. The attempt counts.
 * @example throw new RetryLater('5m', 'the mail server is busy');
 */
export class RetryLater extends Error {
  static {
    brand(RetryLater, 'RetryLater');
  }
  /** How long until the next attempt. */
  readonly delayMs: number;
  constructor(delay: Duration, reason = 'retry later', options?: { cause?: unknown }) {
    super(reason, options);
    this.delayMs = Math.min(durationMs(delay, 'the delay of RetryLater'), MAX_DELAY_MS);
  }
}

/**
 * Throw it in a handler if it is too early: the job runs after the delay. No attempt counts.
 * @example throw new Snooze('1h', 'the invoice is not ready');
 */
export class Snooze extends Error {
  static {
    brand(Snooze, 'Snooze');
  }
  /** How long until the job is due again. */
  readonly delayMs: number;
  constructor(delay: Duration, reason = 'snooze') {
    super(reason);
    this.delayMs = Math.min(durationMs(delay, 'the delay of Snooze'), MAX_DELAY_MS);
  }
}

/**
 * Throw it in a handler if no retry can help: the job becomes a dead letter now.
 * @example throw new DeadLetter('the address does not exist');
 */
export class DeadLetter extends Error {
  static {
    brand(DeadLetter, 'DeadLetter');
  }
  constructor(reason: string, options?: { cause?: unknown }) {
    super(reason, options);
  }
}

/**
 * Throw it in a handler if nobody wants the work any more: the job ends as cancelled.
 * @example throw new Cancel('the order was withdrawn');
 */
export class Cancel extends Error {
  static {
    brand(Cancel, 'Cancel');
  }
  constructor(reason: string) {
    super(reason);
  }
}
