/** What `holdfast()` and a call of enqueue take, and the checks of their values. */
import type pg from 'pg';
import { checkItems } from '../enqueue/enqueue.js';
import { checkTx } from '../enqueue/transaction.js';
import { invalid, shown } from '../job/errors/holdfast-error.js';
import type { EnqueueItem } from '../job/job.js';
import { type Duration, durationMs } from '../job/options/duration.js';
import { checkChoice, checkFlag, checkKnown, type Known } from '../job/options/known-options.js';
import type { Logger, Redact } from '../postgres/log/log.js';
import type { LogLevel } from '../postgres/log/logger-of.js';
import type { Transaction } from '../postgres/queryable.js';
import type { Telemetry } from '../tracing/api.js';

/**
 * Options of `holdfast()`.
 * @example const hf = holdfast({ connectionString: process.env.DATABASE_URL ?? '', log: 'warn' });
 */
export interface HoldfastOptions {
  /** The database. Default: that of `connection` or `pool`, else DATABASE_URL, else PGHOST, PGUSER, PGDATABASE, … */
  readonly connectionString?: string;
  /** The connection in the words of `pg`: `ssl`, a password function, timeouts. Default: none. */
  readonly connection?: pg.ClientConfig;
  /** A pool of yours for enqueues and handlers' transactions. Workers open their own. Default: a pool of 10. */
  readonly pool?: pg.Pool;
  /** The schema with Holdfast's tables. Default `holdfast`. */
  readonly schema?: string;
  /** The largest payload in bytes. Default 1 MiB, at most 64 MiB. */
  readonly maxPayloadBytes?: number;
  /** Use prepared statements. Default true; never behind a pooler. */
  readonly prepare?: boolean;
  /** Whether a pooler such as PgBouncer is in front of the database. Default: Holdfast finds out. */
  readonly pooler?: boolean;
  /**
   * A direct connection for workers to listen and hold locks on, if the other one leads through a pooler. Default: the
   * other one.
   */
  readonly listenUrl?: string;
  /**
   * Reject enqueues of a type that no worker, alive or recently gone, has registered on its queue: TYPE_UNKNOWN. Each type
   * is asked for once. Default false.
   */
  readonly strictTypes?: boolean;
  /** Your logger, shaped like pino's. Default: lines on stderr; JSON if stderr is no terminal. */
  readonly logger?: Logger;
  /** The lowest level that is logged. Default: HOLDFAST_LOG, or `info`. A logger of yours has its own. */
  readonly log?: LogLevel;
  /** Gets the facts of every log line; what it returns is logged instead. Default: nothing is changed. */
  readonly redact?: Redact;
  /** OpenTelemetry's API, `import * as telemetry from '@opentelemetry/api'`. Default: no traces. */
  readonly telemetry?: Telemetry;
}

const HOLDFAST_OPTIONS = {
  ...{ connectionString: true, connection: true, pool: true, schema: true, prepare: true },
  ...{ pooler: true, strictTypes: true, listenUrl: true, maxPayloadBytes: true, telemetry: true },
  ...{ log: true, logger: true, redact: true },
} as const satisfies Known<HoldfastOptions>;

/**
 * Options of an enqueue call, beside those of the job.
 * @example await hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: client, onFull: 'error' });
 */
export interface EnqueueCall {
  /** Your transaction: anything with `query(text, params)`, or an adapter. Default: none; the call commits by itself. */
  readonly tx?: Transaction;
  /** If the idempotency key belongs to other work: throw (`'error'`, default), or return that job (`'existing'`). */
  readonly onMismatch?: 'error' | 'existing';
  /** If the queue holds `maxPending` jobs: throw (`'error'`, default), or wait for room (`'wait'`, not with `tx`). */
  readonly onFull?: 'error' | 'wait';
  /** With `onFull: 'wait'`: how long to wait for room. Default 30 s, at most a day. */
  readonly fullTimeout?: Duration;
}

export const CALL_OPTIONS = {
  ...{ tx: true, onMismatch: true, onFull: true, fullTimeout: true },
} as const satisfies Known<EnqueueCall>;

/** Throws what is wrong with them; names and numbers are checked where they are used. */
export function checkHoldfast(options: HoldfastOptions): void {
  const undone = 'Nothing was made.';
  checkKnown(options, HOLDFAST_OPTIONS, 'holdfast()', undone);
  checkFlag(options.prepare, 'prepare', undone);
  checkFlag(options.pooler, 'pooler', undone);
  checkFlag(options.strictTypes, 'strictTypes', undone);
  const { connection, pool } = options;
  if (connection !== undefined && (typeof connection !== 'object' || connection === null))
    throw refused(`connection must be an object as pg takes it, not ${shown(connection)}.`);
  // pg takes it for false, whatever PGSSLMODE says.
  if ((connection?.ssl as unknown) === null)
    throw refused('connection.ssl is null: write false for no TLS, true, or its options.');
  if (pool !== undefined && typeof pool?.connect !== 'function')
    throw refused(`pool must be a pool of pg, not ${shown(pool)}.`);
}

const refused = (problem: string) => invalid(`${problem} Nothing was made.`);

/** Throws what is wrong with a call of enqueueMany(), before anything is sent. */
export function checkCall(items: readonly EnqueueItem[], call: EnqueueCall): void {
  const undone = 'Nothing was enqueued.';
  checkKnown(call, CALL_OPTIONS, 'enqueueMany()', undone);
  checkChoice(call.onMismatch, ['error', 'existing'], 'onMismatch', undone);
  checkItems(items);
  const queue = items[0]?.job.queue;
  const other = items.find((item) => item.job.queue !== queue);
  if (other) {
    throw invalid(
      `One call enqueues into one queue, but "${queue}" and "${other.job.queue}" were given; ` +
        'nothing was enqueued. Make one call per queue, in one transaction if they belong together.',
    );
  }
  if ('tx' in call) checkTx(call.tx);
}

const FULL_TIMEOUT_MS = 30_000;
const MAX_FULL_TIMEOUT_MS = 86_400_000;

/** How long an enqueue waits for room; null: not at all. */
export function fullWaitMs({ tx, onFull = 'error', fullTimeout }: EnqueueCall): number | null {
  const refused = (problem: string) => invalid(`${problem} Nothing was enqueued.`);
  if (onFull !== 'error' && onFull !== 'wait')
    throw refused(`onFull must be 'error' or 'wait', not ${shown(onFull)}.`);
  if (onFull === 'error') {
    if (fullTimeout !== undefined) throw refused("fullTimeout goes with onFull: 'wait' only.");
    return null;
  }
  if (tx) {
    throw refused(
      "onFull: 'wait' would hold your transaction open, with its locks, until the queue has room. " +
        'Wait before you begin it, or leave onFull out.',
    );
  }
  if (fullTimeout === undefined) return FULL_TIMEOUT_MS;
  return durationMs(fullTimeout, 'fullTimeout', { min: 1, max: MAX_FULL_TIMEOUT_MS });
}
