-- Roles with the least that each part of an application needs. Run it after `holdfast migrate`, as the
-- owner of the schema, once per database; running it again changes nothing.
--
-- The names below are those of a default installation. For another schema replace `holdfast.` and the
-- schema's name in GRANT USAGE; for another queue repeat the lines that say `inbox` with its name.
-- Give the roles to the users that log in: GRANT holdfast_worker TO my_worker_user;
-- A user that both enqueues and works needs holdfast_worker only. Migrations, new queues, pausing and
-- the verbs of an operator (retry, discard, cancel) stay with the owner.

DO $do$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['holdfast_producer', 'holdfast_worker', 'holdfast_viewer'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
    END IF;
  END LOOP;
END
$do$;

GRANT USAGE ON SCHEMA holdfast TO holdfast_producer, holdfast_worker, holdfast_viewer;

-- The producer: enqueue() in TypeScript and holdfast.inbox_enqueue() in SQL, and nothing else. It reads no
-- payload, and neither claims, changes nor removes a job. It does write idempotency keys, because that is
-- how one key becomes one job.
GRANT SELECT ON holdfast.queues TO holdfast_producer;
GRANT INSERT ON holdfast.inbox TO holdfast_producer;
GRANT SELECT (id) ON holdfast.inbox TO holdfast_producer;
GRANT USAGE ON SEQUENCE holdfast.inbox_position_seq TO holdfast_producer;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.inbox_idempotency TO holdfast_producer;

-- The worker: claims, settles, does maintenance, and enqueues children. It cannot change the settings of a
-- queue, nor what a finished job left in the archive.
GRANT SELECT ON holdfast.migrations, holdfast.queues TO holdfast_worker;
-- Who joins or leaves raises the epoch of the fleet.
GRANT SELECT, UPDATE ON holdfast.fleet TO holdfast_worker;
GRANT UPDATE (maintained_at) ON holdfast.queues TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.workers TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.inbox TO holdfast_worker;
GRANT USAGE ON SEQUENCE holdfast.inbox_position_seq TO holdfast_worker;
GRANT SELECT, INSERT, DELETE ON holdfast.inbox_claims TO holdfast_worker;
GRANT SELECT, INSERT, DELETE ON holdfast.inbox_archive TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.inbox_idempotency TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.inbox_effects TO holdfast_worker;

-- The viewer: reads everything, payloads and results included, and writes nothing. To keep these from it,
-- grant the other columns of inbox and inbox_archive by name instead.
GRANT SELECT ON holdfast.migrations, holdfast.queues, holdfast.workers, holdfast.fleet, holdfast.inbox,
  holdfast.inbox_archive, holdfast.inbox_idempotency, holdfast.inbox_effects, holdfast.inbox_claims
  TO holdfast_viewer;
