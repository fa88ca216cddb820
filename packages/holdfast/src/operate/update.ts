/**
 * Changing a job that waits: its payload, when it is due, its priority. Under the lock of the row: a claim and a change
 * never meet in one attempt. Of a job that runs only the due time changes, and only to now: what its attempt settles later
 * reads that as `WOKEN` (postgres/fragments.ts). Both write the row, so whichever comes second sees the other.
 *
 * A run of a workflow that waits can be made due now: its turn finds what is there, and waits on. A later time would keep it
 * from what it waits for, so that is refused, and so is another input for a run that has taken a step.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int4, statement, text } from '../postgres/statement.js';
import { asleep } from '../postgres/taken.js';

/** Null: it stays as it is. */
export interface WaitingChanges {
  /** JSON. */
  readonly payload: string | null;
  readonly version: number | null;
  readonly priority: number | null;
  /** A time in the past means now. */
  readonly runAt: string | null;
  readonly delayMs: number | null;
  /** Only a job of this type. */
  readonly type: string | null;
}

export const UNCHANGED: WaitingChanges = {
  ...{ payload: null, version: null, priority: null },
  ...{ runAt: null, delayMs: null, type: null },
};

export const updateWaitingJob = statement({
  name: 'update_waiting',
  text: `
UPDATE holdfast.inbox AS i
SET payload = coalesce($2::text::jsonb, i.payload),
    version = coalesce($3::text::integer, i.version),
    priority = coalesce($4::text::smallint, i.priority),
    available_at = CASE
      -- Later than its claim, whatever the clock does.
      WHEN i.status = 'processing'
        THEN greatest(clock_timestamp(), i.claimed_at + interval '1 microsecond')
      WHEN $5::text IS NULL AND $6::text IS NULL THEN i.available_at
      -- Nobody jumps the queue by naming an old date.
      ELSE greatest($5::text::timestamptz,
        statement_timestamp() + coalesce($6::text::bigint, 0) * interval '1 millisecond') END,
    wait_until = CASE WHEN $5::text IS NULL AND $6::text IS NULL THEN i.wait_until END
WHERE i.id = $1::text::uuid AND ($7::text IS NULL OR i.type = $7::text)
  AND NOT (${asleep('i')}
    AND (coalesce($6::text::bigint, 0) > 0 OR coalesce($5::text::timestamptz > clock_timestamp(), false)))
  AND ($2::text IS NULL OR NOT EXISTS (SELECT FROM holdfast.inbox_steps AS s WHERE s.run_id = i.id))
  AND (i.status = 'pending' OR i.status = 'processing' AND $2::text IS NULL AND $4::text IS NULL
    AND $6::text::bigint = 0 AND coalesce($5::text::timestamptz <= clock_timestamp(), true))
RETURNING i.available_at::text AS due, i.partition_bucket AS bucket, i.status = 'pending' AS waits`,
  columns: { due: text, bucket: int4, waits: bool },
});

const word = (value: number | null) => value?.toString() ?? null;

/** Where the job waits now, for a hint, if it does not run; null: it is not there, cannot be changed, or is of another type. */
export async function updateWaiting(
  db: Executor,
  names: Names,
  id: string,
  changes: WaitingChanges,
): Promise<{
  readonly runAt: string;
  readonly partitionBucket: number;
  readonly waits: boolean;
} | null> {
  const { payload, version, priority, runAt, delayMs, type } = changes;
  const params = [id, payload, word(version), word(priority), runAt, word(delayMs), type];
  const [row] = await db.run(updateWaitingJob, names, params);
  return row ? { runAt: row.due, partitionBucket: row.bucket, waits: row.waits } : null;
}
