/**
 * What taking a job asks, writes and returns: the same in every claim, so that a crash costs the same in all
 * of them. What is the same for all rows stands in a subquery of its own, which Postgres evaluates once.
 *
 * The parameters that all claims share come first: `$1` the worker, `$2` its lease in milliseconds, `$3` the
 * number of this claim, `$4` the worker's claims of which nothing is left, `$5` how many jobs it wants, `$6`
 * the types whose first version it handles, `$7` the newest version that it handles by type, and under '' the
 * version of the queue's limits that it knows.
 */
import { historyWith, MAY_BE_CAUSE } from '../postgres/fragments.js';
import {
  bool,
  int2,
  int4,
  int8,
  json,
  type Param,
  plainArray,
  type Row,
  text,
  textArray,
  timestamp,
  uuid,
} from '../postgres/statement.js';

export interface ClaimTerms {
  readonly workerId: string;
  readonly leaseMs: number;
  /** Counts the claims of this worker. */
  readonly number: number;
  /** Earlier claims of this worker of which nothing is left. */
  readonly finished: readonly number[];
  readonly limit: number;
  /** Handled types with the newest payload version that this worker understands. */
  readonly versions: Readonly<Record<string, number>>;
  /**
   * In a queue that is read by key, the limit under which these types are claimed: that of this type, or with '' only
   * that of the queue. Left out: nothing limits them.
   */
  readonly under?: string | undefined;
  /** The version of the queue's limits that says which types are not among them. Left out: whatever they are. */
  readonly limitsVersion?: number;
}

export function termsOf({
  workerId,
  leaseMs,
  number,
  finished,
  limit,
  versions,
  limitsVersion,
}: ClaimTerms): Param[] {
  return [
    workerId,
    leaseMs,
    number,
    plainArray(finished),
    limit,
    textArray(Object.keys(versions)),
    // No type has an empty name.
    JSON.stringify(limitsVersion === undefined ? versions : { ...versions, '': limitsVersion }),
  ];
}

/** Whether this worker handles the job. Nearly every job is of version 1; that is cheap to find out. */
export const HANDLED = `(i.version = 1 AND i.type = ANY ($6::text[])
        OR i.version <= ($7::jsonb -> i.type)::integer)`;

/** The worker knows which types of the queue `q` are limited. One that does not would take them without asking. */
export const LIMITS_KNOWN = `coalesce(q.limits_version = ($7::jsonb -> '')::bigint, true)`;

/** The queue, while jobs may be claimed from it in the way that `how` says, by a worker that knows its limits. */
export const openQueue = (how: string) => `open_queue AS MATERIALIZED (
  SELECT q.paused_types, q.paused_keys, q.age_after, q.ordering
  FROM holdfast.queues AS q
  WHERE q.name = 'inbox' AND NOT q.paused AND ${LIMITS_KNOWN} AND ${how}
)`;

/**
 * In a queue that is read by key: how many jobs the limits leave of those that are wanted. `under` is the parameter that
 * names the limit: NULL: none, a type, or '' for those that only the limit of the queue holds for.
 */
export const allowed = (under: string) => `allowed AS MATERIALIZED (
  SELECT a.* FROM holdfast.inbox_allowance($5::integer, ${under}) AS a
)`;

/** What was claimed is paid for, where there is a rate. */
export const PAY = `paid AS (
  INSERT INTO holdfast.rates (limit_id, key, started_tat, slot_tat)
  SELECT a.rate_id, '', a.base + (SELECT count(*) FROM claimed) * a.pace, a.base
  FROM allowed AS a
  WHERE a.rate_id IS NOT NULL AND EXISTS (SELECT FROM claimed)
  ON CONFLICT (limit_id, key) DO UPDATE SET started_tat = excluded.started_tat
)`;

/** What a claim under a limit was allowed. */
export interface Allowance {
  /** So many jobs it could take, of those that it wanted. */
  readonly allowed: number;
  /** When there may be more; null: nothing is known of it. */
  readonly againMs: number | null;
}

/** Neither its type nor its key is paused. Where none is, the lists are NULL and nothing is compared. */
export const NOT_PAUSED = `(i.type = ANY ((SELECT o.paused_types FROM open_queue AS o)::text[])) IS NOT TRUE
        AND (i.partition_key = ANY ((SELECT o.paused_keys FROM open_queue AS o)::text[])) IS NOT TRUE`;

/** Its lease ran out and nobody has recovered it yet. */
export const EXPIRED = `(i.status = 'processing' AND i.lease_expires_at <= now())`;

/**
 * A job whose owner vanished gets the attempt back that it never finished. Its `crashes` rises if it may have been
 * the cause, and its history says that the owner vanished. One that ran alone is a suspect, which no claim takes
 * over: only recovery spends attempts.
 */
export const TAKE = `status = 'processing',
      claimed_by = $1::text,
      claimed_at = now(),
      lease_expires_at = (SELECT now() + $2::integer * interval '1 millisecond'),
      lease_generation = i.lease_generation + 1,
      attempts = i.attempts + CASE WHEN i.status = 'processing' THEN 0 ELSE 1 END,
      crashes = i.crashes + CASE WHEN i.status = 'processing' AND ${MAY_BE_CAUSE} THEN 1 ELSE 0 END,
      started = false,
      last_error = CASE WHEN i.status = 'processing'
        THEN 'The worker ' || i.claimed_by || ' vanished while it held this job.' ELSE i.last_error END,
      history = CASE WHEN i.status = 'processing'
        THEN ${historyWith(`'outcome', 'vanished', 'spent', false`)}
        ELSE i.history END`;

/** What is as usual is not sent; `TAKEN_COLUMNS` says what that is. */
export const RETURN_TAKEN = `i.id, i.type, nullif(i.version, 1) AS version, i.partition_key, i.payload,
    i.headers, nullif(i.attempts, 1) AS attempts, nullif(i.max_attempts, 5) AS max_attempts,
    nullif(i.lease_generation, 1) AS lease_generation, nullif(i.crashes, 0) AS crashes,
    nullif(i.created_at, i.available_at) AS created_at, i.partition_bucket,
    nullif(i.priority, 2) AS priority,
    -- Its owner vanished, and this claim was the one to write it down.
    CASE WHEN i.crashes > 0 AND (i.history -> -1 ->> 'at')::timestamptz = now() THEN true END AS taken,
    i.available_at AS cursor_at, i.position AS cursor_position`;

/**
 * The claim's own row: by it, others find what this worker holds. It is written in the statement that takes
 * the jobs, and deleted by a later claim of the same worker, when all of them have left.
 */
const record = (columns: string, values: string) => `recorded AS (
  INSERT INTO holdfast.inbox_claims (worker_id, number, jobs${columns})
  SELECT $1::text, $3::bigint, array_agg(c.id)${values} FROM claimed AS c HAVING count(*) > 0
), forgotten AS (
  DELETE FROM holdfast.inbox_claims AS f
  WHERE f.worker_id = $1::text AND f.number = ANY ($4::bigint[])
)`;

export const RECORD_CLAIM = record('', '');
/** With the buckets of its jobs. */
export const RECORD_CLAIM_IN_BUCKETS = record(
  ', buckets',
  ', array_agg(c.partition_bucket::smallint)',
);

/** The database's time of the claim, in milliseconds. */
export const CLOCK = `(SELECT (date_part('epoch', now()) * 1000)::bigint) AS clock`;

export const TAKEN_COLUMNS = {
  id: uuid,
  type: text,
  version: int4.or(1),
  partition_key: text,
  payload: json,
  headers: json.orNull,
  attempts: int4.or(1),
  max_attempts: int4.or(5),
  lease_generation: int8.or(1),
  crashes: int4.or(0),
  /** Null: it was due when it was made, see `cursor_at`. */
  created_at: timestamp.orNull,
  partition_bucket: int4,
  priority: int2.or(2),
  taken: bool.or(false),
  /** From when on it was due, and its position. */
  cursor_at: timestamp,
  cursor_position: int8,
} as const;

/** Of the rows that `RETURN_TAKEN` returned, as `c`. */
export const SELECT_TAKEN = Object.keys(TAKEN_COLUMNS)
  .map((name) => `c.${name}`)
  .join(', ');

/** In place of `SELECT_TAKEN`, in a row that is not about a job. */
export const NO_JOB = Object.entries(TAKEN_COLUMNS)
  .map(([name, { pgType }]) => `NULL::${pgType} AS ${name}`)
  .join(', ');

export type ClaimedJob = Row<typeof TAKEN_COLUMNS>;

export interface Claimed {
  /** Rises when the membership of the fleet changes. */
  readonly epoch: number;
  /** The database's time of the claim, in milliseconds. */
  readonly clock: number;
  readonly jobs: ClaimedJob[];
}

/** Takes the row about the whole claim out of the rows about its jobs. */
export function splitHead<R extends { readonly epoch: number | null }>(rows: R[]): R {
  const at = rows.findIndex((row) => row.epoch !== null);
  const [head] = at < 0 ? [] : rows.splice(at, 1);
  if (!head) throw new Error('the table fleet has lost its row');
  return head;
}
