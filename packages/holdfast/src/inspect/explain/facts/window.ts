/**
 * A job of a queue whose keys take turns: how many jobs of its key and of its group are in somebody's hands, how many
 * may be, and what of its key is due before it. It is counted as a claim counts: by the workers' claims.
 */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { int8, type Row, statement, text, uuid } from '../../../postgres/statement.js';
import type { ShownJob } from '../../job/show.js';
import { instant } from '../../reading/columns.js';
import { MAX_LINE } from './line.js';

/** The first of these that was claimed. */
const FIRST = (of: string) =>
  `(array_agg(${of} ORDER BY h.claimed_at, h.id) FILTER (WHERE h.of_key))[1]`;

export const readWindow = statement({
  name: 'explain_window',
  text: `
SELECT count(*) FILTER (WHERE h.of_key) AS key_jobs, count(*) FILTER (WHERE h.of_group) AS group_jobs,
  ${FIRST('h.id')} AS longest, ${FIRST('h.claimed_by')} AS worker, ${FIRST('h.claimed_at')} AS since,
  (SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i
    WHERE i.partition_bucket = $1::integer AND coalesce(i.group_key, '') COLLATE "C" = $2::text
      AND i.partition_key COLLATE "C" = $3::text AND NOT i.parked AND i.crashes < 2
      AND (i.available_at, i.position) < ($4::timestamptz, $5::bigint) AND i.status = 'pending'
    LIMIT ${MAX_LINE}) AS line) AS before
FROM (
  SELECT DISTINCT i.id, i.claimed_by, i.claimed_at, i.in_group AND i.partition_key = $3::text AS of_key,
    i.in_group AND $2::text <> '' AS of_group
  FROM holdfast.inbox_claims AS c
  CROSS JOIN LATERAL unnest(c.jobs) AS j(id)
  -- With a LIMIT, so that it cannot be planned as a join of all rows.
  CROSS JOIN LATERAL (
    SELECT i.id, i.claimed_by, i.claimed_at, i.partition_key, coalesce(i.group_key, '') = $2::text AS in_group
    FROM holdfast.inbox AS i
    WHERE i.id = j.id AND i.status = 'processing' LIMIT 1
  ) AS i
) AS h`,
  columns: {
    key_jobs: int8,
    group_jobs: int8,
    /** Of its key, the one that is held for longest. */
    longest: uuid.orNull,
    worker: text.orNull,
    since: instant,
    /** Of its key, so many wait that were due before it. */
    before: int8,
  },
});

export type Window = Row<typeof readWindow.columns>;

export async function keyWindow(db: Executor, names: Names, job: ShownJob): Promise<Window> {
  const { partitionBucket, groupKey, partitionKey, runAt, position } = job;
  const place = [partitionBucket, groupKey ?? '', partitionKey, runAt, position];
  const [row] = await db.run(readWindow, names, place);
  return row as Window;
}
