/**
 * The statements behind enqueue. `insertUsual` writes one job that is due now and has no headers, group or limit key: as
 * cheap as an INSERT gets, also for a driver that plans it anew each time. `insertJob` writes any other one, `insertJobs`
 * many. `insertKeyed` writes jobs of which some have an idempotency key: a function of the schema takes or finds the key's row
 * first, and the jobs that took theirs are written, or none if a key stands for other work. The row's unique index decides a
 * race: later producers wait for the first one's commit and get its job.
 *
 * All name `parked`: by that the table knows that everything is checked and filled in. Columns and parameters are text, so
 * the statements mean the same through any driver.
 */
import type { Unique } from '../job/unique.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { plainArray, statement, text, textArray } from '../postgres/statement.js';

/** A job as it is written: everything has been checked, and the payload is JSON text. */
export interface NewJob {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly key: string;
  readonly group: string | null;
  readonly bucket: number;
  readonly payload: string;
  readonly headers: string | null;
  readonly priority: number;
  readonly maxAttempts: number;
  readonly delayMs: number;
  /** ISO time, or null for now plus the delay. */
  readonly runAt: string | null;
  readonly idempotencyKey: string | null;
  /** Null: it stands for itself alone. */
  readonly unique: Unique | null;
  /** For whom it counts in a rate that has keys. */
  readonly limitKey: string | null;
}

export const insertUsual = statement({
  name: 'insert_usual',
  text: `
INSERT INTO holdfast.inbox (id, type, version, partition_key, partition_bucket, payload, priority,
  max_attempts, parked)
VALUES ($1::text::uuid, $2::text, $3::text::integer, $4::text, $5::text::integer, $6::text::jsonb,
  $7::text::smallint, $8::text::integer, false)`,
  columns: {},
});

export const insertJob = statement({
  name: 'insert_job',
  text: `
INSERT INTO holdfast.inbox (id, type, version, partition_key, partition_bucket, payload, headers,
  priority, max_attempts, available_at, group_key, limit_key, parked)
VALUES ($1::text::uuid, $2::text, $3::text::integer, $4::text, $5::text::integer, $6::text::jsonb,
  $9::text::jsonb, $7::text::smallint, $8::text::integer,
  greatest(coalesce($11::text::timestamptz,
    statement_timestamp() + $10::text::bigint * interval '1 millisecond'), statement_timestamp()),
  $12::text, $13::text, false)`,
  columns: {},
});

/** A value that all jobs have in common is sent once, and an empty array stands for NULLs: unnest fills up. */
const shared = (column: string, array: string) => `coalesce(j.${column}, (SELECT (${array})[1]))`;

export const input = ({ keyed }: { keyed: boolean }) => `
  SELECT j.id, ${shared('type', '$2::text::text[]')} AS type,
    ${shared('version', '$3::text::integer[]')} AS version, coalesce(j.key, j.id::text) AS key, j.bucket,
    j.payload, j.headers, ${shared('priority', '$8::text::smallint[]')} AS priority,
    ${shared('max_attempts', '$9::text::integer[]')} AS max_attempts,
    greatest(coalesce(j.available_at, statement_timestamp()
        + ${shared('delay_ms', '$10::text::bigint[]')} * interval '1 millisecond'),
      statement_timestamp()) AS available_at, j.group_key, j.limit_key
    ${keyed ? ', j.idempotency_key, j.ordinal' : ', false'}
  FROM unnest($1::text::uuid[], $2::text::text[], $3::text::integer[], $4::text::text[],
    $5::text::integer[], $6::text::jsonb[], $7::text::jsonb[], $8::text::smallint[],
    $9::text::integer[], $10::text::bigint[], $11::text::timestamptz[], $12::text::text[], $13::text::text[]
    ${keyed ? ', $14::text::text[]) WITH ORDINALITY' : ')'}
    AS j(id, type, version, key, bucket, payload, headers, priority, max_attempts, delay_ms, available_at, group_key,
      limit_key
      ${keyed ? ', idempotency_key, ordinal' : ''})`;

export const insertJobs = statement({
  name: 'insert_jobs',
  text: `
INSERT INTO holdfast.inbox (id, type, version, partition_key, partition_bucket, payload, headers,
  priority, max_attempts, available_at, group_key, limit_key, parked)
${input({ keyed: false })}`,
  columns: {},
});

export const insertKeyed = statement({
  name: 'insert_keyed',
  text: `
WITH input AS MATERIALIZED (
  SELECT i.*, sha256(convert_to(i.type || E'\\n' || i.payload::text, 'UTF8')) AS fingerprint
  FROM (${input({ keyed: true })}) AS i
), held AS MATERIALIZED (
  SELECT t.held_key AS key, t.held_job AS job_id, t.held_print AS fingerprint
  FROM (
    SELECT array_agg(j.idempotency_key ORDER BY j.ordinal) AS keys, array_agg(j.id ORDER BY j.ordinal) AS ids,
      array_agg(j.fingerprint ORDER BY j.ordinal) AS prints
    FROM input AS j WHERE j.idempotency_key IS NOT NULL
  ) AS a
  CROSS JOIN LATERAL holdfast.inbox_take_keys(a.keys, a.ids, a.prints, $15::boolean) AS t
), verdict AS MATERIALIZED (
  SELECT j.ordinal, coalesce(h.job_id, j.id) AS id, coalesce(h.job_id <> j.id, false) AS deduplicated,
    coalesce(h.fingerprint <> j.fingerprint, false) AS mismatch
  FROM input AS j
  LEFT JOIN held AS h ON h.key = j.idempotency_key
), written AS (
  INSERT INTO holdfast.inbox (id, type, version, partition_key, partition_bucket, payload, headers,
    priority, max_attempts, available_at, idempotency_key, group_key, limit_key, parked)
  SELECT j.id, j.type, j.version, j.key, j.bucket, j.payload, j.headers, j.priority, j.max_attempts,
    j.available_at, j.idempotency_key, j.group_key, j.limit_key, false
  FROM input AS j
  JOIN verdict AS v ON v.ordinal = j.ordinal
  WHERE NOT v.deduplicated
    -- All or nothing: no job is written beside one whose key stands for other work.
    AND ($15::boolean OR NOT EXISTS (SELECT FROM verdict AS wrong WHERE wrong.mismatch))
  ORDER BY j.ordinal
)
SELECT v.id::text AS id, v.deduplicated::text AS deduplicated, v.mismatch::text AS mismatch
FROM verdict AS v
ORDER BY v.ordinal`,
  columns: { id: text, deduplicated: text, mismatch: text },
});

export function columnsOf(jobs: readonly NewJob[]): string[] {
  const keyless = jobs.every((job) => job.key === job.id);
  return [
    plainArray(jobs.map((job) => job.id)),
    textArray(once(jobs.map((job) => job.type))),
    plainArray(once(jobs.map((job) => job.version))),
    keyless ? '{}' : textArray(jobs.map((job) => job.key)),
    plainArray(jobs.map((job) => job.bucket)),
    textArray(jobs.map((job) => job.payload)),
    textArray(known(jobs.map((job) => job.headers))),
    plainArray(once(jobs.map((job) => job.priority))),
    plainArray(once(jobs.map((job) => job.maxAttempts))),
    plainArray(once(jobs.map((job) => job.delayMs))),
    textArray(known(jobs.map((job) => job.runAt))),
    textArray(known(jobs.map((job) => job.group))),
    textArray(known(jobs.map((job) => job.limitKey))),
  ];
}

/** The one value, if there is only one. */
function once<Value>(values: readonly Value[]): readonly Value[] {
  return values.every((value) => value === values[0]) ? values.slice(0, 1) : values;
}

/** None, if none is known. */
function known<Value>(values: readonly (Value | null)[]): readonly (Value | null)[] {
  return values.every((value) => value === null) ? [] : values;
}

const isUsual = ({ headers, delayMs, runAt, group, limitKey }: NewJob) =>
  headers === null && delayMs === 0 && runAt === null && group === null && limitKey === null;

const usualOf = (job: NewJob) => [
  job.id,
  job.type,
  String(job.version),
  job.key,
  String(job.bucket),
  job.payload,
  String(job.priority),
  String(job.maxAttempts),
];

const specialOf = ({ headers, delayMs, runAt, group, limitKey }: NewJob) => [
  ...[headers, String(delayMs), runAt, group, limitKey],
];

export async function insert(db: Executor, names: Names, jobs: readonly NewJob[]): Promise<void> {
  const [first] = jobs;
  if (!first || jobs.length > 1) await db.run(insertJobs, names, columnsOf(jobs));
  else if (isUsual(first)) await db.run(insertUsual, names, usualOf(first));
  else await db.run(insertJob, names, [...usualOf(first), ...specialOf(first)]);
}

/** `mismatch`: the key stands for a job of another type or payload. */
export async function insertWithKeys(
  db: Executor,
  names: Names,
  jobs: readonly NewJob[],
  despiteMismatch: boolean,
) {
  const keys = textArray(jobs.map((job) => job.idempotencyKey));
  const rows = await db.run(insertKeyed, names, [...columnsOf(jobs), keys, despiteMismatch]);
  return rows.map((row) => ({
    id: row.id,
    deduplicated: row.deduplicated === 'true',
    mismatch: row.mismatch === 'true',
  }));
}
