/** Which of some jobs may be started where keys take turns. */
import type { FunctionFile } from '../../function-file.js';
import { QUEUE_OF_TURNS, ROOM_OF_GROUP, ROOM_OF_KEY } from './held.sql.js';

export const room: FunctionFile = {
  name: 'room',
  of: 'queue',
  text: `
-- Which of these jobs may be started where keys take turns; with the mutexes of their buckets.
CREATE OR REPLACE FUNCTION holdfast.inbox_room(jobs uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql AS $fn$
DECLARE
  queue record;
  held  jsonb;
  mine  uuid[];
BEGIN
  SELECT ${QUEUE_OF_TURNS} INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
  SELECT array_agg(i.id) INTO mine
  FROM (SELECT i.id, i.partition_bucket FROM holdfast.inbox AS i WHERE i.id = ANY (jobs) OFFSET 0) AS i
  WHERE pg_try_advisory_xact_lock('holdfast.inbox'::regclass::oid::integer, i.partition_bucket + 1);
  held := holdfast.inbox_turns_held(NULL, NULL);
  RETURN QUERY
  SELECT r.id
  FROM (
    SELECT i.id, ${ROOM_OF_KEY('i.grp', 'i.partition_key')} AS of_key, ${ROOM_OF_GROUP('i.grp')} AS of_group,
      row_number() OVER (PARTITION BY i.grp, i.partition_key ORDER BY i.id) AS in_key,
      row_number() OVER (PARTITION BY i.grp ORDER BY i.id) AS in_group
    FROM (
      SELECT i.id, i.partition_key, coalesce(i.group_key, '') AS grp FROM holdfast.inbox AS i WHERE i.id = ANY (mine)
    ) AS i
  ) AS r
  WHERE (r.of_key IS NULL OR r.in_key <= r.of_key) AND (r.of_group IS NULL OR r.in_group <= r.of_group);
END
$fn$;
`,
};
