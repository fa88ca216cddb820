/**
 * Migration 7: which job is written when a job becomes a dead letter; a rate names its limit without a foreign key, which
 * every start under a rate with keys paid for.
 *
 * Locks: `rates` and `limits`, exclusively, for the moment in which the key is dropped: claims under limits wait for it.
 */
import type { Migration } from '../migration.js';

const common = `
-- The job that tells of the dead letters of a type (onDeadLetter), or of a queue: then the type is ''. Its workers say it
-- when they start. Only statements that write a dead letter read it: src/schema/functions/job/dead-letter-hook.sql.ts.
CREATE TABLE holdfast.on_dead_letter (
  queue        text NOT NULL,
  type         text NOT NULL,
  to_queue     text NOT NULL,
  to_type      text NOT NULL,
  version      holdfast.positive NOT NULL,
  priority     holdfast.priority NOT NULL,
  max_attempts holdfast.positive NOT NULL,
  PRIMARY KEY (queue, type)
);
-- Whoever counts permits is a worker, and whoever reads them may read this.
DO $do$
DECLARE
  given text;
BEGIN
  FOR given IN
    SELECT format('GRANT %s ON holdfast.on_dead_letter TO %s', a.privilege_type,
      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
    FROM pg_class AS c, aclexplode(c.relacl) AS a
    WHERE c.oid = 'holdfast.permits'::regclass AND a.grantee <> c.relowner
  LOOP
    EXECUTE given;
  END LOOP;
END
$do$;
ALTER TABLE holdfast.rates DROP CONSTRAINT IF EXISTS rates_limit_id_fkey;
`;

export const onDeadLetter: Migration = {
  ...{ id: 7, name: 'on-dead-letter', breaksBefore: 1 },
  ...{ common, perQueue: '' },
};
