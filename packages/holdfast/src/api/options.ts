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

export interface HoldfastOptions {
  /** Default: the database of `connection` or of the pool, or of DATABASE_URL, or of PGHOST, PGUSER, PGDATABASE, … */
  readonly connectionString?: string;
  /** The same and more in the words of `pg`: `ssl`, a function for the password, time limits. */
  readonly connection?: pg.ClientConfig;
  /** A pool of yours for enqueue and handlers' transactions. Workers open their own to the same database. */
  readonly pool?: pg.Pool;
  /** Default `holdfast`. */
  readonly schema?: string;
  /** Default 1 MiB. */
  readonly maxPayloadBytes?: number;
  /** Prepare statements by name. Default true; behind a pooler it is never done. */
  readonly prepare?: boolean;
  /** Whether a pooler such as PgBouncer stands before the database. Default: found out by asking. */
  readonly pooler?: boolean;
  /**
   * A direct connection for the sessions of a worker that listen and hold locks, where the other one goes
   * through a transaction pooler. Default: the connection string.
   */
  readonly listenUrl?: string;
  /**
   * Refuse to enqueue a type that no worker has registered on its queue, live or not long gone: TYPE_UNKNOWN. For hf.enqueue,
   * hf.enqueueMany and ctx.enqueue. Default false. Each type is asked for once.
   */
  readonly strictTypes?: boolean;
  /** Anything of the shape of pino. Default: lines on stderr, readable on a terminal, JSON elsewhere. */
  readonly logger?: Logger;
  /** The least level that is logged. Default: HOLDFAST_LOG, or `info`; a logger of yours has its own. */
  readonly log?: LogLevel;
  /** Sees the facts of every line before the logger does; what it returns is logged instead. */
  readonly redact?: Redact;
  /** OpenTelemetry's API, `import * as telemetry from '@opentelemetry/api'`. Default: no traces. */
  readonly telemetry?: Telemetry;
}

const HOLDFAST_OPTIONS = {
  ...{ connectionString: true, connection: true, pool: true, schema: true, prepare: true },
  ...{ pooler: true, strictTypes: true, listenUrl: true, maxPayloadBytes: true, telemetry: true },
  ...{ log: true, logger: true, redact: true },
} as const satisfies Known<HoldfastOptions>;

export interface EnqueueCall {
  /** Your transaction: anything with `query(text, params)`, or one of the adapters. Leave it out if there is none. */
  readonly tx?: Transaction;
  /** When an idempotency key stands for other work: throw (default), or return the job that stands. */
  readonly onMismatch?: 'error' | 'existing';
  /** When more jobs wait than `maxPending` of the queue: throw (default), or wait for room. Not with `tx`. */
  readonly onFull?: 'error' | 'wait';
  /** How long to wait for room; default 30 s. */
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
