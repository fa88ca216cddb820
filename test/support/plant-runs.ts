/** Runs of workflows that wait, written as rows: as many as an engine would take minutes for. */
import type { testDatabase } from './database.js';

type Ground = ReturnType<typeof testDatabase>;

export interface PlantedRuns {
  readonly count: number;
  readonly workflow?: string;
  readonly version?: number;
  /** The step in which they wait. */
  readonly step?: string;
  readonly signal?: string;
  /** Null: until the signal comes. */
  readonly forMs?: number | null;
  readonly sinceMs?: number;
  readonly tag?: string;
  readonly queue?: string;
}

/** As `inbox_suspend` leaves them. Returns their ids. */
export async function plantWaiting(db: Ground, runs: PlantedRuns): Promise<string[]> {
  const {
    count,
    workflow = 'checkout',
    version = 1,
    step = 'approval',
    signal = 'approved',
  } = runs;
  const { forMs = null, sinceMs = 1_000, tag = null, queue = 'inbox' } = runs;
  const planted = await db.rows<{ id: string }>(
    `WITH runs AS (
       INSERT INTO holdfast.${queue} (type, version, partition_key, partition_bucket, payload, parked, headers,
         created_at, available_at, wait_until)
       SELECT $1, $2, 'order:' || n, holdfast.bucket_of('order:' || n), '{}', false,
         CASE WHEN $3::text IS NOT NULL THEN jsonb_build_object('holdfast_tag', $3::text) END,
         now() - $4 * interval '1 ms', w.at, w.at
       FROM generate_series(1, $5) AS n,
         (SELECT coalesce(now() + $6::bigint * interval '1 ms', '9999-12-31') AS at) AS w
       RETURNING id, wait_until
     ), steps AS (
       INSERT INTO holdfast.${queue}_steps (run_id, at, check_at, due_at, nth, kind, name, value)
       SELECT r.id, now() - $4 * interval '1 ms', now(), nullif(r.wait_until, '9999-12-31'), 0, 'w', $7,
         jsonb_build_array($8::text)
       FROM runs AS r
     )
     SELECT r.id FROM runs AS r`,
    [workflow, version, tag, sinceMs, count, forMs, step, signal],
  );
  return planted.map(({ id }) => id);
}
