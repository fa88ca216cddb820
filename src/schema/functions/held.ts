/** What is held of a key and of a group, and what room that leaves: texts of turns.sql.ts and room.sql.ts. */

/** One name for a key, with its group; and one for a group. */
const KEY_NAME = (group: string, key: string) =>
  `concat('k', length(${group}), ':', ${group}, ${key})`;
const GROUP_NAME = (group: string) => `concat('g', ${group})`;

/** How many jobs of each key and group are held, as a map. `from`: of which claimed jobs, with their buckets. */
export const HELD = (from: string) => `(
    SELECT coalesce(jsonb_object_agg(h.name, h.jobs), '{}')
    FROM (
      SELECT n.name, count(*) AS jobs
      FROM (
        SELECT DISTINCT i.id, i.group_key, i.partition_key
        FROM ${from} AS j
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
    ) AS h)`;

/** A claim that does not say where its jobs are has them anywhere. */
const CLAIMED = `holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs, c.buckets) AS u(id, bucket)`;
export const OF_CROWDED_BUCKETS = `(
          SELECT t.id FROM (
            SELECT u.id, u.bucket, count(*) OVER (PARTITION BY u.bucket) AS jobs FROM ${CLAIMED}
          ) AS t
          WHERE t.bucket IS NULL OR t.jobs >= queue.per_group)`;
export const OF_MY_BUCKETS = `(
          SELECT u.id FROM ${CLAIMED}
          WHERE u.bucket IS NULL OR u.bucket BETWEEN lowest AND highest AND u.bucket = ANY (mine))`;
export const OF_ALL = `(SELECT u.id FROM ${CLAIMED})`;

export const ROOM_OF_KEY = (group: string, key: string) =>
  `(queue.per_key - coalesce((held ->> ${KEY_NAME(group, key)})::integer, 0))`;
export const ROOM_OF_GROUP = (group: string) =>
  `(CASE WHEN ${group} <> '' THEN queue.per_group - coalesce((held ->> ${GROUP_NAME(group)})::integer, 0) END)`;
