/** What is held of a key and of a group where keys take turns, and what room that leaves. */
import type { FunctionFile } from '../../function-file.js';

/** One name for a key, with its group; and one for a group. */
const KEY_NAME = (group: string, key: string) =>
  `concat('k', length(${group}), ':', ${group}, ${key})`;
const GROUP_NAME = (group: string) => `concat('g', ${group})`;

/** What is asked of the queue `q`. `windows`: some of its keys have a window of their own. */
export const QUEUE_OF_TURNS = `q.per_key, q.per_group, q.fair, q.weights, q.paused_types, q.paused_keys,
    EXISTS (SELECT FROM holdfast.key_windows AS w WHERE w.queue = 'inbox') AS windows`;

/** `queue` is the row of the queue, and `held` what `inbox_turns_held` returned. */
export const WINDOW_OF = (key: string) =>
  `CASE WHEN queue.windows THEN coalesce((SELECT w.per_key FROM holdfast.key_windows AS w ` +
  `WHERE w.queue = 'inbox' AND w.key = ${key}), queue.per_key) ELSE queue.per_key END`;
export const ROOM_OF_KEY = (group: string, key: string) =>
  `(${WINDOW_OF(key)} - coalesce((held ->> ${KEY_NAME(group, key)})::integer, 0))`;
export const ROOM_OF_GROUP = (group: string) =>
  `(CASE WHEN ${group} <> '' THEN queue.per_group - coalesce((held ->> ${GROUP_NAME(group)})::integer, 0) END)`;

export const held: FunctionFile = {
  name: 'held',
  of: 'queue',
  text: `
-- How many jobs of each key and of each group are held, as a map. Of all buckets; or of those in a list; or of those in which
-- at least so many jobs are held. It is VOLATILE, so it counts with snapshots of its own, newer than the caller's mutexes.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_held(of_buckets integer[], at_least integer) RETURNS jsonb
  LANGUAGE plpgsql AS $fn$
DECLARE
  lowest  integer := (SELECT min(u.bucket) FROM unnest(of_buckets) AS u(bucket));
  highest integer := (SELECT max(u.bucket) FROM unnest(of_buckets) AS u(bucket));
  claimed uuid[];
BEGIN
  -- A claim that does not say where its jobs are has them anywhere.
  IF at_least IS NOT NULL THEN
    SELECT array_agg(t.id) INTO claimed
    FROM (
      SELECT u.id, u.bucket, count(*) OVER (PARTITION BY u.bucket) AS jobs
      FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs, c.buckets) AS u(id, bucket)
    ) AS t
    WHERE t.bucket IS NULL OR t.jobs >= at_least;
  ELSE
    SELECT array_agg(u.id) INTO claimed
    FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs, c.buckets) AS u(id, bucket)
    WHERE of_buckets IS NULL OR u.bucket IS NULL OR u.bucket BETWEEN lowest AND highest AND u.bucket = ANY (of_buckets);
  END IF;
  RETURN (
    SELECT coalesce(jsonb_object_agg(h.name, h.jobs), '{}')
    FROM (
      SELECT n.name, count(*) AS jobs
      FROM (
        SELECT DISTINCT i.id, i.group_key, i.partition_key
        FROM unnest(claimed) AS j(id)
        -- It has a limit, so it cannot be planned as a join that reads the whole queue.
        CROSS JOIN LATERAL (
          SELECT i.id, i.group_key, i.partition_key FROM holdfast.inbox AS i
          WHERE i.id = j.id AND i.status = 'processing' LIMIT 1
        ) AS i
        OFFSET 0
      ) AS i
      CROSS JOIN LATERAL (VALUES
        (${KEY_NAME("coalesce(i.group_key, '')", 'i.partition_key')}),
        (CASE WHEN i.group_key IS NOT NULL THEN ${GROUP_NAME('i.group_key')} END)
      ) AS n(name)
      WHERE n.name IS NOT NULL
      GROUP BY n.name
    ) AS h);
END
$fn$;
`,
};
