/**
 * What taking a job asks, writes and returns: the same for jobs without order and for ordered ones, so
 * that a crash costs the same in both. In every statement `$7` is the worker that claims, `$8` its lease.
 * What is the same for all rows stands in a subquery of its own, which Postgres evaluates once.
 *
 * A job whose owner vanished gets the attempt back that it never finished, unless it was running alone
 * (`isolated`) and its owner is not who claims now; its `crashes` rises, and its history says so.
 */
import {
  bool,
  int2,
  int4,
  int8,
  json,
  type Row,
  text,
  tid,
  timestamp,
  uuid,
} from '../postgres/statement.js';

/**
 * Whether this worker handles the job: its type, with a version that is not too new and not for others
 * (`above`). Nearly every job is of a first version that is handled as it is; that is cheap to find out.
 */
export const handles = (plain: string, versions: string, above: string) => `(
        i.version = 1 AND i.type = ANY (${plain}::text[])
        OR i.version <= (${versions}::jsonb -> i.type)::integer
          AND i.version > coalesce((${above}::jsonb -> i.type)::integer, 0))`;

/** Pending, or its owner is gone: the lease is over, or the owner is among the dead of `$10`. */
export const CLAIMABLE = `(i.status = 'pending'
        OR (i.status = 'processing' AND (i.lease_expires_at <= now() OR i.claimed_by = ANY ($10::text[]))))`;

type ByType = Readonly<Record<string, number>>;

/** The types of which a job of version 1 is handled. */
export const plainTypes = (versions: ByType, above: ByType): string[] =>
  Object.keys(versions).filter((type) => (above[type] ?? 0) < 1);

export const TAKE = `status = 'processing',
      claimed_by = $7::text,
      claimed_at = now(),
      lease_expires_at = (SELECT now() + $8::integer * interval '1 millisecond'),
      lease_generation = i.lease_generation + 1,
      attempts = i.attempts + CASE WHEN i.status = 'processing'
        AND (NOT i.isolated OR i.claimed_by = $7::text) THEN 0 ELSE 1 END,
      crashes = i.crashes + CASE WHEN i.status = 'processing' THEN 1 ELSE 0 END,
      isolated = false,
      last_error = CASE WHEN i.status = 'processing'
        THEN 'The worker ' || i.claimed_by || ' vanished while it held this job.' ELSE i.last_error END,
      history = CASE WHEN i.status = 'processing'
        THEN jsonb_path_query_array(
          coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(),
            'worker', i.claimed_by, 'outcome', 'vanished',
            'spent', i.isolated AND i.claimed_by <> $7::text),
          '$[last-19 to last]')
        ELSE i.history END`;

/** What is as usual is not sent; `TAKEN_COLUMNS` says what that is. */
export const RETURN_TAKEN = `i.ctid AS place, i.id, i.type, nullif(i.version, 1) AS version, i.partition_key, i.payload,
    i.headers, nullif(i.attempts, 1) AS attempts, nullif(i.max_attempts, 5) AS max_attempts,
    nullif(i.lease_generation, 1) AS lease_generation, nullif(i.crashes, 0) AS crashes,
    CASE WHEN i.crashes > 0 THEN i.last_error END AS last_error,
    nullif(i.created_at, i.available_at) AS created_at, i.partition_bucket,
    nullif(i.priority, 2) AS priority,
    -- Its owner vanished, and this claim was the one to write it down.
    CASE WHEN i.crashes > 0 AND (i.history -> -1 ->> 'at')::timestamptz = now() THEN true END AS taken,
    i.available_at AS cursor_at, i.position AS cursor_position`;

/** The database's time of the claim, in milliseconds. */
export const CLOCK = `(SELECT (date_part('epoch', now()) * 1000)::bigint) AS clock`;

export const TAKEN_COLUMNS = {
  /** Where the claimed row version stands, until somebody writes it again. */
  place: tid,
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
  last_error: text.orNull,
  /** Null: it was due when it was made, see `cursor_at`. */
  created_at: timestamp.orNull,
  partition_bucket: int4,
  priority: int2.or(2),
  taken: bool.or(false),
  /** Its place in the index: from when on it was due, and its position. */
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
