/** Pruning the archive: whole segments go, and a new one is begun in time. */
import type { FunctionFile } from '../../function-file.js';

export const pruneArchive: FunctionFile = {
  name: 'prune-archive',
  of: 'queue',
  text: `
-- Drops the segments of the archive whose youngest job is past the retention, and begins a new segment once the last one
-- has taken jobs for an eighth of the retention. Returns about how many jobs went. With the rights of the owner, because
-- it makes and drops tables.
--
-- A segment is closed under a lock that waits until all who wrote into it have ended. So no job in it was completed later,
-- and when the retention has passed since, all of them may go. Whoever completes a job waits behind that lock: so it is
-- given up soon, and while somebody reads the archive for long, each round tries again.
CREATE OR REPLACE FUNCTION holdfast.inbox_prune_archive() RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $fn$
DECLARE
  prefix CONSTANT text := 'inbox' || '_archive_';
  queue  holdfast.queues;
  last   integer;
  is_due boolean;
  old    integer[];
  one    integer;
  pruned bigint := 0;
BEGIN
  FOR pass IN 1 .. 2 LOOP
    IF pass = 1 THEN
      SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
    ELSE
      -- One at a time. Read again, because somebody else may have done it.
      SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox' FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    SELECT max(s.number),
      -- The size is asked of the file: nothing is read. An empty segment goes on.
      bool_or(s.closed_at IS NULL AND s.opened_at <= now() - queue.archive_retention / 8
        AND pg_relation_size(to_regclass(format('holdfast.%I', prefix || s.number))) > 0),
      coalesce(array_agg(s.number) FILTER (WHERE s.closed_at < now() - queue.archive_retention), '{}')
    INTO last, is_due, old
    FROM (
      SELECT e.key::integer AS number, e.value::timestamptz AS opened_at,
        lead(e.value::timestamptz) OVER (ORDER BY e.key::integer) AS closed_at
      FROM jsonb_each_text(queue.archive_segments) AS e
    ) AS s;
    IF is_due IS NOT TRUE AND old = '{}' THEN
      RETURN 0;
    END IF;
  END LOOP;

  IF is_due THEN
    -- The last block range of a table is not summarized until it is full, which it will never be.
    BEGIN
      PERFORM brin_summarize_new_values(i.indexrelid) FROM pg_index AS i
      WHERE i.indrelid = to_regclass(format('holdfast.%I', prefix || last));
    EXCEPTION WHEN lock_not_available THEN
      NULL;  -- It is being vacuumed, which does the same.
    END;
  END IF;
  LOCK TABLE ONLY holdfast.inbox_archive IN ACCESS EXCLUSIVE MODE;
  IF is_due THEN
    EXECUTE format('CREATE TABLE holdfast.%I PARTITION OF holdfast.inbox_archive FOR VALUES IN (%s) '
      'WITH (fillfactor = 100, autovacuum_vacuum_insert_scale_factor = 0.02, '
      'autovacuum_vacuum_insert_threshold = 100000)', prefix || last + 1, last + 1);
    EXECUTE format('ALTER TABLE ONLY holdfast.inbox_archive ALTER COLUMN segment SET DEFAULT %s', last + 1);
    queue.archive_segments := queue.archive_segments || jsonb_build_object(last + 1, clock_timestamp());
  END IF;
  FOREACH one IN ARRAY old LOOP
    BEGIN
      EXECUTE format('LOCK TABLE ONLY holdfast.%I IN ACCESS EXCLUSIVE MODE NOWAIT', prefix || one);
      pruned := pruned + greatest(1, pg_stat_get_live_tuples(to_regclass(format('holdfast.%I', prefix || one))));
      EXECUTE format('DROP TABLE holdfast.%I', prefix || one);
      queue.archive_segments := queue.archive_segments - one::text;
    EXCEPTION WHEN lock_not_available THEN
      NULL;  -- It is being vacuumed, or read by its own name. The next round drops it.
    END;
  END LOOP;
  UPDATE holdfast.queues AS q SET archive_segments = queue.archive_segments WHERE q.name = 'inbox';
  RETURN pruned;
EXCEPTION WHEN lock_not_available THEN
  RETURN 0;
END
$fn$;
REVOKE ALL ON FUNCTION holdfast.inbox_prune_archive() FROM PUBLIC;
-- Roles that do maintenance already.
DO $do$
DECLARE
  given text;
BEGIN
  FOR given IN
    SELECT format('GRANT EXECUTE ON FUNCTION holdfast.inbox_prune_archive() TO %I', pg_get_userbyid(a.grantee))
    FROM pg_class AS c, aclexplode(c.relacl) AS a
    WHERE c.oid = 'holdfast.inbox_archive'::regclass AND a.privilege_type = 'DELETE' AND a.grantee NOT IN (0, c.relowner)
      AND has_column_privilege(a.grantee, 'holdfast.queues'::regclass, 'maintained_at', 'UPDATE')
  LOOP
    EXECUTE given;
  END LOOP;
END
$do$;
`,
};
