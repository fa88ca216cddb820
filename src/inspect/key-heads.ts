/**
 * The heads of ordered keys: what is in flight of each, and the first that waits behind it. The claim
 * steps from key to key in the same index. So many keys are looked at; of more, those of the first buckets are,
 * and the answer says how many buckets that were, to be scaled: keys are spread evenly over them.
 */
import { BUCKETS } from '../job/key.js';
import { int4, int8, statement, text } from '../postgres/statement.js';
import { instant } from './columns.js';

const MAX_KEYS = 4_000;
/** The longest run of one key that is counted. */
const MAX_RUN = 1_000;

export const keyHeads = statement({
  name: 'key_heads',
  text: `
WITH heads AS MATERIALIZED (
  SELECT b.bucket, h.*
  FROM generate_series(0, ${BUCKETS - 1}) AS b(bucket)
  CROSS JOIN LATERAL (
    WITH RECURSIVE step AS (
      (SELECT i.partition_key, i.position, i.status, i.claimed_by, i.lease_expires_at, i.available_at, i.claimed_at
       FROM holdfast.inbox AS i
       WHERE i.partition_bucket = b.bucket AND i.ordering IN ('key', 'key_strict')
       ORDER BY i.partition_key COLLATE "C", i.position LIMIT 1)
      UNION ALL
      SELECT following.* FROM step CROSS JOIN LATERAL (
        SELECT i.partition_key, i.position, i.status, i.claimed_by, i.lease_expires_at, i.available_at, i.claimed_at
        FROM holdfast.inbox AS i
        WHERE i.partition_bucket = b.bucket AND i.ordering IN ('key', 'key_strict')
          AND i.partition_key COLLATE "C" > step.partition_key COLLATE "C"
        ORDER BY i.partition_key COLLATE "C", i.position LIMIT 1
      ) AS following
    )
    SELECT * FROM step
  ) AS h
  LIMIT ${MAX_KEYS}
), waiting AS MATERIALIZED (
  -- Behind each head that is in flight, the first of its key that is not.
  SELECT h.bucket, h.partition_key, h.position AS head, w.position, w.available_at
  FROM heads AS h
  LEFT JOIN LATERAL (
    SELECT i.position, i.available_at
    FROM holdfast.inbox AS i
    WHERE i.partition_bucket = h.bucket AND i.ordering IN ('key', 'key_strict')
      AND i.partition_key COLLATE "C" = h.partition_key COLLATE "C" AND i.position > h.position
      AND i.claimed_by IS NULL
    ORDER BY i.partition_key COLLATE "C", i.position LIMIT 1
  ) AS w ON true
  WHERE h.claimed_by IS NOT NULL
), runs AS (
  -- The jobs of one key that were claimed together with its head.
  SELECT r.claimed_by, r.lease_expires_at, r.available_at, r.claimed_at
  FROM waiting AS w
  CROSS JOIN LATERAL (
    SELECT i.claimed_by, i.lease_expires_at, i.available_at, i.claimed_at
    FROM holdfast.inbox AS i
    WHERE i.partition_bucket = w.bucket AND i.ordering IN ('key', 'key_strict')
      AND i.partition_key COLLATE "C" = w.partition_key COLLATE "C"
      AND i.position > w.head AND i.position < coalesce(w.position, 9223372036854775807)
    ORDER BY i.partition_key COLLATE "C", i.position LIMIT ${MAX_RUN}
  ) AS r
)
SELECT seen.claimed_by, count(*) AS jobs,
  count(*) FILTER (WHERE seen.lease_expires_at <= now()) AS expired,
  min(seen.available_at) FILTER (WHERE seen.available_at <= now()) AS oldest_due,
  min(seen.claimed_at) AS oldest_claim,
  (SELECT CASE WHEN count(*) < ${MAX_KEYS} THEN ${BUCKETS} ELSE max(h.bucket) + 1 END
   FROM heads AS h)::integer AS buckets
FROM (
  SELECT h.claimed_by, h.lease_expires_at, h.available_at, h.claimed_at FROM heads AS h
  UNION ALL SELECT * FROM runs
  UNION ALL SELECT NULL, NULL, w.available_at, NULL FROM waiting AS w WHERE w.position IS NOT NULL
) AS seen
GROUP BY seen.claimed_by`,
  columns: {
    claimed_by: text.orNull,
    jobs: int8,
    expired: int8,
    oldest_due: instant,
    oldest_claim: instant,
    buckets: int4,
  },
});
