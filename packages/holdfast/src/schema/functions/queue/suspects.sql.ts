/**
 * Which suspects run next: jobs whose worker vanished twice or more while it held them. 16 after the second crash, 4 after
 * the third, then alone, and one group at a time in the whole fleet.
 *
 * The suspect whose last crash is longest ago goes first, with others of its stage. Those that crash again stand behind it,
 * so a fleet that crashes all the time starves nobody. In a queue with order per key a suspect is taken only as the head of
 * its key; where keys take turns, only if its key and its group have room, and one that has none holds up nobody.
 */
import { runs } from '../../../postgres/taken.js';
import type { FunctionFile } from '../../function-file.js';

export const suspects: FunctionFile = {
  name: 'suspects',
  of: 'queue',
  text: `
-- Chooses and locks the next group of suspects; run is their order. Nothing while a group runs, or while somebody else chooses.
CREATE OR REPLACE FUNCTION holdfast.inbox_suspects(
  most integer, handled text[], versions jsonb, lock_number integer, OUT place tid, OUT run bigint
) RETURNS SETOF record LANGUAGE plpgsql AS $fn$
DECLARE
  queue holdfast.queues;
  jobs uuid[];
  stage integer;
BEGIN
  SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
  IF queue.paused OR NOT pg_try_advisory_xact_lock(lock_number, 'holdfast.inbox'::regclass::oid::integer) THEN
    RETURN;
  END IF;
  -- This statement sees the group that the last holder of the lock has taken.
  IF EXISTS (SELECT FROM holdfast.inbox AS r
    WHERE r.crashes > 1 AND ${runs('r')}) THEN
    RETURN;
  END IF;
  jobs := ARRAY(
    SELECT i.id
    FROM holdfast.inbox AS i
    WHERE i.crashes > 1 AND i.status = 'pending' AND i.available_at <= now()
      AND (i.version = 1 AND i.type = ANY (handled) OR i.version <= (versions -> i.type)::integer)
      AND (i.type = ANY (queue.paused_types)) IS NOT TRUE AND (i.partition_key = ANY (queue.paused_keys)) IS NOT TRUE
      AND (queue.ordering IN ('none', 'turns') OR NOT EXISTS (
        SELECT FROM holdfast.inbox AS b
        WHERE NOT b.parked AND b.partition_bucket = i.partition_bucket
          AND b.partition_key COLLATE "C" = i.partition_key COLLATE "C" AND b.position < i.position))
    ORDER BY (i.history -> -1 ->> 'at')::timestamptz NULLS FIRST, i.crashes, i.id
    -- The keys of the first ones may be full.
    LIMIT 100);
  IF queue.ordering = 'turns' THEN
    jobs := ARRAY(
      SELECT j.id FROM unnest(jobs) WITH ORDINALITY AS j(id, nth)
      WHERE j.id = ANY (ARRAY(SELECT r.id FROM holdfast.inbox_room(jobs) AS r(id)))
      ORDER BY j.nth);
  END IF;
  stage := (SELECT i.crashes FROM holdfast.inbox AS i WHERE i.id = jobs[1]);
  RETURN QUERY
  SELECT l.place, w.nth
  FROM (
    SELECT j.id, j.nth FROM unnest(jobs) WITH ORDINALITY AS j(id, nth)
    WHERE (SELECT i.crashes FROM holdfast.inbox AS i WHERE i.id = j.id) = stage
    ORDER BY j.nth
    LIMIT least(most, CASE stage WHEN 2 THEN 16 WHEN 3 THEN 4 ELSE 1 END)
  ) AS w
  CROSS JOIN LATERAL (
    SELECT i.ctid AS place FROM holdfast.inbox AS i
    WHERE i.id = w.id AND i.crashes > 1 AND i.status = 'pending'
    FOR UPDATE SKIP LOCKED
  ) AS l;
END
$fn$;
`,
};
