/**
 * Migration 2: functions are replaced by their checksum; limits count permits in rows of their own; a queue that is read by
 * time has a line for each type.
 *
 * Locks: `queues` and `rates`, exclusively, for the moment in which each gets a column (no rewrite). Queues: their new indexes
 * are built beside all traffic; then the table of the queue is locked, exclusively, for the moment in which one of them
 * becomes the primary key: no row is read. Indexes that only workers of version 0.1 read are dropped by the first `migrate`
 * that finds none of them alive.
 */
import type { Migration, OnlineStep } from '../migration.js';

const common = `
-- Which text each file of src/schema/functions has here.
CREATE TABLE holdfast.functions (
  name       text PRIMARY KEY,
  checksum   text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);

-- Up to which migration the queue has been brought. Code that knows migration 1 only makes queues without saying it.
ALTER TABLE holdfast.queues ADD COLUMN migration integer NOT NULL DEFAULT 1;

-- How many jobs a worker holds under a limit of concurrency. A claim raises it and its worker lowers it, so it is never
-- too low while the worker lives. See src/schema/functions/allow.sql.ts.
CREATE TABLE holdfast.permits (
  -- No foreign key: it would wait for whoever has locked the limit.
  limit_id  integer NOT NULL,
  worker_id text NOT NULL,
  held      integer NOT NULL,
  PRIMARY KEY (limit_id, worker_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
-- The seconds from one start to the next when started_tat was written. NULL: as they are now.
ALTER TABLE holdfast.rates ADD COLUMN pace double precision;
-- Whoever claims under limits already.
DO $do$
DECLARE
  given text;
BEGIN
  FOR given IN
    SELECT format('GRANT %s ON holdfast.permits TO %s', a.privilege_type,
      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
    FROM pg_class AS c, aclexplode(c.relacl) AS a
    WHERE c.oid = 'holdfast.rates'::regclass AND a.grantee <> c.relowner
  LOOP
    EXECUTE given;
  END LOOP;
END
$do$;
`;

const perQueue = '';

/** An id is one job. Before, the bucket of its key was part of the primary key: one id could be two jobs with two keys. */
const oneJobAnId: OnlineStep = {
  text: 'CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS inbox_job_pkey ON holdfast.inbox (id)',
  swap: {
    drops: 'inbox_id_pkey',
    text: `
ALTER TABLE holdfast.inbox
  DROP CONSTRAINT inbox_id_pkey,
  ADD CONSTRAINT inbox_job_pkey PRIMARY KEY USING INDEX inbox_job_pkey;
`,
  },
};

const online: readonly OnlineStep[] = [
  oneJobAnId,
  {
    text: `CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_line_idx ON holdfast.inbox
  (hashtextextended(type, version), priority, available_at, position) WHERE crashes < 2 AND limit_key IS NULL`,
    orderings: ['none'],
  },
  {
    text: `CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_rate_idx ON holdfast.inbox
  (type COLLATE "C", limit_key COLLATE "C", priority, available_at, position) WHERE crashes < 2 AND limit_key IS NOT NULL`,
    orderings: ['none'],
  },
  {
    text: 'DROP INDEX CONCURRENTLY IF EXISTS holdfast.inbox_claim_idx',
    orderings: ['none'],
    unlessOlderThan: 2,
  },
  { text: 'DROP INDEX CONCURRENTLY IF EXISTS holdfast.inbox_slot_idx', unlessOlderThan: 2 },
  { text: 'DROP INDEX CONCURRENTLY IF EXISTS holdfast.inbox_slot_key_idx', unlessOlderThan: 2 },
];

export const bigFleet: Migration = {
  ...{ id: 2, name: 'big-fleet', breaksBefore: 1 },
  ...{ common, perQueue, online },
};
