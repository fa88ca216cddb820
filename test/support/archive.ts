/** Finished jobs in bulk, and time that passes for the segments of an archive. */
import type { TestGround } from './database.js';

type Rows = Pick<TestGround, 'rows'>;

/** So many finished jobs, that ended `age` ago; they go where a completion would put them. */
export const archiveJobs = (db: Rows, jobs: number, age = '0', queue = 'inbox') =>
  db.rows<{ id: string }>(
    `INSERT INTO holdfast.${queue}_archive (id, created_at, completed_at, lease_generation, partition_bucket, attempts,
       max_attempts, version, status, priority, type, partition_key, payload)
     SELECT holdfast.new_id(), now() - $2::interval, now() - $2::interval, 1, 0, 1, 5, 1, 'completed', 2, 'work', 'k',
       jsonb_build_object('pad', repeat('x', 100))
     FROM generate_series(1, $1::integer) RETURNING id`,
    [jobs, age],
  );

/** For the segments, as if so much time had passed. The jobs in them stay as they are. */
export const age = (db: Rows, by: string, queue = 'inbox') =>
  db.rows(
    `UPDATE holdfast.queues SET archive_segments =
       (SELECT jsonb_object_agg(s.key, s.value::timestamptz - $1::interval) FROM jsonb_each_text(archive_segments) AS s)
     WHERE name = $2`,
    [by, queue],
  );

/** How many jobs each segment holds. */
export async function segments(db: Rows, queue = 'inbox'): Promise<Record<string, number>> {
  const found = await db.rows<{ segment: string; jobs: number }>(
    `SELECT right(t.relid::regclass::text, -length('holdfast.' || $1 || '_archive_')) AS segment,
       (SELECT count(*)::integer FROM holdfast.${queue}_archive AS a WHERE a.tableoid = t.relid) AS jobs
     FROM pg_partition_tree('holdfast.${queue}_archive') AS t WHERE t.isleaf`,
    [queue],
  );
  return Object.fromEntries(found.map(({ segment, jobs }) => [segment, jobs]));
}
