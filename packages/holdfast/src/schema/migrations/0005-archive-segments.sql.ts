/**
 * Migration 5: the archive is a partitioned table, and what was the archive is its segment 0.
 *
 * Finished jobs go to the segment that is the default of `segment`; inbox_prune_archive moves on to the next one and drops
 * those that are past the retention. So nothing of the archive is ever deleted row by row, and no page is written twice.
 *
 * Locks: each archive, exclusively, for the moment in which the catalogue is written. Nothing is read.
 */
import type { Migration } from '../migration.js';

const common = `
-- Workers of the first release delete what is past the retention row by row, by the place of each row. A place is that of
-- a row in every segment: so of those, only what is past the retention goes.
CREATE FUNCTION holdfast.keep_young() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
  IF OLD.completed_at < now() - (SELECT q.archive_retention FROM holdfast.queues AS q WHERE q.name = TG_ARGV[0]) THEN
    RETURN OLD;
  END IF;
  RETURN NULL;
END
$fn$;
`;

/** What hangs on a table, and would stay with segment 0. */
const BUILT_UPON = `
  SELECT string_agg(b.what, ', ') INTO built FROM (
    SELECT 'row security' AS what FROM pg_class AS c WHERE c.oid = old AND c.relrowsecurity
    UNION SELECT format('policy %I', p.polname) FROM pg_policy AS p WHERE p.polrelid = old
    UNION SELECT format('trigger %I', t.tgname) FROM pg_trigger AS t WHERE t.tgrelid = old AND NOT t.tgisinternal
    UNION SELECT format('view %s', r.ev_class::regclass) FROM pg_depend AS d JOIN pg_rewrite AS r ON r.oid = d.objid
      WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = old
    UNION SELECT format('publication %I', p.pubname) FROM pg_publication_rel AS r
      JOIN pg_publication AS p ON p.oid = r.prpubid WHERE r.prrelid = old
    UNION SELECT format('foreign key %I of %s', k.conname, k.conrelid::regclass) FROM pg_constraint AS k
      WHERE k.confrelid = old
    UNION SELECT format('child table %s', i.inhrelid::regclass) FROM pg_inherits AS i WHERE i.inhparent = old
  ) AS b;`;

const perQueue = `
DO $do$
DECLARE
  old   CONSTANT regclass := 'holdfast.inbox_archive';
  first CONSTANT text := 'inbox' || '_archive_0';
  built text;
  given text;
BEGIN${BUILT_UPON}
  IF built IS NOT NULL THEN
    RAISE EXCEPTION 'the archive % is to become a partitioned table, and these would not follow: %; nothing was changed',
      old, built
      USING ERRCODE = 'HF005', HINT = 'Drop them, migrate, and make them again on the table of the same name.';
  END IF;
  EXECUTE format('ALTER INDEX holdfast.inbox_archive_id_idx RENAME TO %I', first || '_id_idx');
  EXECUTE format('ALTER INDEX holdfast.inbox_archive_completed_idx RENAME TO %I', first || '_completed_at_idx');
  EXECUTE format('ALTER TABLE %s RENAME TO %I', old, first);
  EXECUTE format('CREATE TABLE holdfast.inbox_archive (LIKE %s INCLUDING DEFAULTS INCLUDING STORAGE) '
    'PARTITION BY LIST (segment)', old);
  ALTER TABLE holdfast.inbox_archive ADD CONSTRAINT inbox_archive_status_check
    CHECK (status IN ('completed', 'cancelled', 'dead_letter'));
  CREATE INDEX inbox_archive_id_idx ON holdfast.inbox_archive
    USING brin (id uuid_minmax_multi_ops) WITH (autosummarize = on, pages_per_range = 32);
  CREATE INDEX inbox_archive_completed_idx ON holdfast.inbox_archive
    USING brin (completed_at) WITH (autosummarize = on, pages_per_range = 32);
  EXECUTE format('ALTER TABLE holdfast.inbox_archive ATTACH PARTITION %s FOR VALUES IN (0)', old);
  EXECUTE format('ALTER TABLE %s DROP CONSTRAINT inbox_archive_segment_check', old);
  -- Whoever held the archive holds it still.
  FOR given IN
    SELECT format('GRANT %s ON holdfast.inbox_archive TO %s%s', concat(a.privilege_type, ' (' || quote_ident(a.attname) || ')'),
      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
      CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM (
      SELECT g.*, NULL::name AS attname, c.relowner FROM pg_class AS c, aclexplode(c.relacl) AS g WHERE c.oid = old
      UNION ALL
      SELECT g.*, t.attname, c.relowner FROM pg_class AS c JOIN pg_attribute AS t ON t.attrelid = c.oid,
        aclexplode(t.attacl) AS g WHERE c.oid = old
    ) AS a
    WHERE a.grantee <> a.relowner
  LOOP
    EXECUTE given;
  END LOOP;
  EXECUTE format('ALTER TABLE holdfast.inbox_archive OWNER TO %I',
    (SELECT pg_get_userbyid(c.relowner) FROM pg_class AS c WHERE c.oid = old));
END
$do$;

CREATE TRIGGER keep_young BEFORE DELETE ON holdfast.inbox_archive
  FOR EACH ROW WHEN (current_query() LIKE '%AS t%WHERE t.ctid = ANY (ARRAY(%SELECT old.ctid FROM%')
  EXECUTE FUNCTION holdfast.keep_young('inbox');
`;

export const archiveSegments: Migration = {
  ...{ id: 5, name: 'archive-segments', breaksBefore: 1 },
  ...{ common, perQueue },
};
