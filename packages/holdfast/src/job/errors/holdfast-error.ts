// The error that Holdfast itself throws. It carries a code to branch on; its message says what is wrong, what was (not)
// done and the fix, and its cause keeps whatever lay underneath.

import { brand } from './brand.js';

export type HoldfastErrorCode =
  | 'PAYLOAD_INVALID'
  | 'RESULT_INVALID'
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
  | 'VERSION_MISMATCH'
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
