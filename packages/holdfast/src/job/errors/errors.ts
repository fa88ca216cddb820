// The four errors that a handler throws to say how a job ends. They are outcomes and not defects, so each is a class of
// its own, without a code. Postgres' own errors pass through untouched.

import { type Duration, durationMs, MAX_DELAY_MS } from '../options/duration.js';
import { brand } from './holdfast-error.js';

export { HoldfastError } from './holdfast-error.js';

/** Thrown by a handler: run this job again after the delay. The attempt is spent. */
export class RetryLater extends Error {
  static {
    brand(RetryLater, 'RetryLater');
  }
  readonly delayMs: number;
  constructor(delay: Duration, reason = 'retry later', options?: { cause?: unknown }) {
    super(reason, options);
    this.delayMs = Math.min(durationMs(delay, 'the delay of RetryLater'), MAX_DELAY_MS);
  }
}

/** Thrown by a handler: it is too early, run this job after the delay. No attempt is spent. */
export class Snooze extends Error {
  static {
    brand(Snooze, 'Snooze');
  }
  readonly delayMs: number;
  constructor(delay: Duration, reason = 'snooze') {
    super(reason);
    this.delayMs = Math.min(durationMs(delay, 'the delay of Snooze'), MAX_DELAY_MS);
  }
}

/** Thrown by a handler: no retry can help; the job becomes a dead letter now. */
export class DeadLetter extends Error {
  static {
    brand(DeadLetter, 'DeadLetter');
  }
  constructor(reason: string, options?: { cause?: unknown }) {
    super(reason, options);
  }
}

/** Thrown by a handler: the work is no longer wanted, archive the job as cancelled. */
export class Cancel extends Error {
  static {
    brand(Cancel, 'Cancel');
  }
  constructor(reason: string) {
    super(reason);
  }
}
