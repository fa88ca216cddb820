// Every error that Holdfast itself throws, and the four that a handler throws to say how a job
// ends. A HoldfastError carries a code to branch on; its message says what is wrong, what was (not)
// done and the fix, and its cause keeps whatever lay underneath. RetryLater, Snooze, DeadLetter and
// Cancel are outcomes rather than defects, so they are classes of their own and carry no code.
// Postgres' own errors are not wrapped here: they pass through untouched.

import { type Duration, durationMs, MAX_DELAY_MS } from '../options/duration.js';
import { brand } from './brand.js';

export type HoldfastErrorCode =
  | 'PAYLOAD_INVALID'
  | 'PAYLOAD_TOO_LARGE'
  | 'PAYLOAD_NOT_JSON'
  | 'KEY_INVALID'
  | 'TYPE_INVALID'
  | 'OPTION_INVALID'
  | 'IDEMPOTENCY_MISMATCH'
  | 'LEASE_LOST'
  | 'SCHEMA_TOO_OLD'
  | 'SCHEMA_TOO_NEW'
  | 'SCHEMA_MISSING'
  | 'QUEUE_UNKNOWN'
  | 'QUEUE_EXISTS'
  | 'QUEUE_BUSY'
  | 'QUEUE_FULL'
  | 'NAME_INVALID'
  | 'HANDLER_TIMEOUT'
  | 'HANDLER_MISSING'
  | 'VERSION_UNSUPPORTED'
  | 'WORKER_STATE'
  | 'KEEPER_FAILED'
  | 'JOB_STATE'
  | 'JOB_UNKNOWN'
  | 'WAIT_TIMEOUT'
  | 'SCHEDULE_UNKNOWN'
  | 'SCHEDULE_TAKEN'
  | 'LIMIT_UNKNOWN'
  | 'LOCKED'
  | 'POOL_BUSY'
  | 'CLOSED'
  | 'STOPPED';

export class HoldfastError extends Error {
  static {
    brand(HoldfastError, 'HoldfastError');
  }
  readonly code: HoldfastErrorCode;
  constructor(code: HoldfastErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

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

/** How an error message quotes a value it was given: short, and without running any of its code. */
export function shown(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
    case 'bigint':
      // The digits of a huge one would take seconds to compute.
      return BigInt.asIntN(64, value) === value ? `the BigInt ${value}n` : 'a huge BigInt';
    case 'object':
      return value === null ? 'null' : Array.isArray(value) ? 'an array' : 'an object';
    case 'function':
      return 'a function';
    case 'symbol':
      return 'a symbol';
    default:
      return String(value);
  }
}
