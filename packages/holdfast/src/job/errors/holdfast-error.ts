// The error that Holdfast itself throws: a code to branch on, a message that says what is wrong, what was (not) done and
// the fix, and the cause.
//
// Errors are known by a brand, a symbol that all copies of this package share. A program may hold two copies, one of its
// handlers and one of its worker, and `instanceof` must mean the same in both.

const BRAND = Symbol.for('holdfast.error');

/** Both stand on the prototype: V8 writes the stack while Error's constructor runs, before any field is there. */
export function brand(made: { readonly prototype: Error }, name: string): void {
  made.prototype.name = name;
  Object.defineProperty(made.prototype, BRAND, { value: name });
  Object.defineProperty(made, Symbol.hasInstance, {
    value(this: unknown, value: unknown): boolean {
      // Of a subclass it is asked as usual.
      if (this !== made) return Function.prototype[Symbol.hasInstance].call(this, value);
      return typeof value === 'object' && value !== null && Reflect.get(value, BRAND) === name;
    },
  });
}

/** What is wrong: docs/errors.md explains each code. */
export type HoldfastErrorCode =
  | 'PAYLOAD_INVALID'
  | 'RESULT_INVALID'
  | 'PAYLOAD_TOO_LARGE'
  | 'PAYLOAD_NOT_JSON'
  | 'KEY_INVALID'
  | 'TYPE_INVALID'
  | 'TYPE_UNKNOWN'
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
  | 'ENDPOINT_UNKNOWN'
  | 'ENDPOINTS_FULL'
  | 'RUN_GONE'
  | 'SIGNAL_UNKNOWN'
  | 'STEP_NAMED_TWICE'
  | 'STEP_TIMEOUT'
  | 'WORKFLOW_CHANGED'
  | 'PROJECTION_CHANGED'
  | 'PROJECTION_CLUSTER'
  | 'PROJECTION_UNKNOWN'
  | 'LOCKED'
  | 'POOL_BUSY'
  | 'CLOSED'
  | 'STOPPED';

/** Every error of Holdfast. Branch on `code`; the message says what is wrong, what was not done, and the fix. */
export class HoldfastError extends Error {
  static {
    brand(HoldfastError, 'HoldfastError');
  }
  /** What is wrong, to branch on. */
  readonly code: HoldfastErrorCode;
  constructor(code: HoldfastErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** An option whose value or name is wrong. */
export const invalid = (message: string, options?: { cause?: unknown }) =>
  new HoldfastError('OPTION_INVALID', message, options);

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
