/**
 * What taking a job writes and returns, the same in every claim, so that a crash costs the same in all of them. In it `i` is
 * the row of the job.
 */
import { historyWith, MAY_BE_CAUSE } from './fragments.js';
import { bool, int2, int4, int8, json, text, timestamp, uuid } from './statement.js';

/** Somebody has it, and its lease has not run out. */
export const runs = (job: string) =>
  `${job}.status = 'processing' AND ${job}.lease_expires_at > now()`;

/** It is a run of a workflow that waits for something: no work yet, so no count of what is to be done has it. */
export const asleep = (job: string) =>
  `(${job}.wait_until = ${job}.available_at AND ${job}.available_at > now()) IS TRUE`;

/** Its lease ran out and nobody has recovered it yet. */
export const EXPIRED = `(i.status = 'processing' AND i.lease_expires_at <= now())`;

/** Nobody has it, or its owner has vanished. */
export const READY = `(i.status = 'pending' OR ${EXPIRED})`;

/** It stands in the line `l`, behind its cursor, and has been due since `until` at the latest. */
export const inLine = (
  until: string,
) => `hashtextextended(i.type, i.version) = l.line AND i.priority = l.priority
        AND (i.available_at, i.position) > (l.after_at, l.after_position)
        AND i.available_at <= ${until} AND i.crashes < 2 AND i.limit_key IS NULL`;

/**
 * A job whose owner vanished gets the attempt back that it never finished. Its `crashes` rises if it may have been
 * the cause, and its history says that the owner vanished. One that ran alone is a suspect, which no claim takes
 * over: only recovery spends attempts.
 */
export const takeBy = (worker: string, until: string) => `status = 'processing',
      claimed_by = ${worker},
      claimed_at = now(),
      lease_expires_at = ${until},
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
