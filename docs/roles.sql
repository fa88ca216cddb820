-- Roles with the least that each part of an application needs. Run it after `holdfast migrate`, as the
-- owner of the schema, once per database, and again after a migration that added tables. Running it again changes nothing
-- else, but takes away what earlier versions of this file gave (the end of the file): stop producers and workers of
-- version 0.1 before.
--
-- The names below are those of a default installation. For another schema replace `holdfast.` and the
-- schema's name in GRANT USAGE and in the last statement. Queues need nothing of their own: one that exists
-- is granted at the end of this file, and one that is made later is granted as it is made, to those who
-- hold `inbox`.
-- Give the roles to the users that log in: GRANT holdfast_worker TO my_worker_user;
-- A user that both enqueues and works needs holdfast_worker only. Migrations, new queues and the settings of
-- queues stay with the owner.

DO $do$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['holdfast_producer', 'holdfast_worker', 'holdfast_viewer', 'holdfast_operator',
    'holdfast_sql_worker', 'holdfast_declarer', 'holdfast_pruner'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
    END IF;
  END LOOP;
END
$do$;

GRANT USAGE ON SCHEMA holdfast TO holdfast_producer, holdfast_worker, holdfast_viewer, holdfast_operator,
  holdfast_sql_worker, holdfast_declarer, holdfast_pruner;

-- What writes and lists call. Everybody may, unless your default privileges say otherwise.
GRANT EXECUTE ON FUNCTION holdfast.state_fits, holdfast.new_id, holdfast.hash32, holdfast.bucket_of, holdfast.check_job
  TO holdfast_producer, holdfast_worker, holdfast_viewer, holdfast_operator;
GRANT EXECUTE ON FUNCTION holdfast.inbox_enqueue, holdfast.inbox_take_key, holdfast.inbox_take_keys
  TO holdfast_producer, holdfast_worker, holdfast_operator;
-- Signals to runs of workflows: whoever may enqueue a run may send it signals.
GRANT EXECUTE ON FUNCTION holdfast.inbox_signal TO holdfast_producer, holdfast_worker, holdfast_operator;
-- Whoever ends a job counts it in its parent, if it is a child of a run, and wakes the run. Everybody may call these,
-- unless your default privileges say otherwise; without the rights on the tables they do nothing.
GRANT EXECUTE ON FUNCTION holdfast.children_ended, holdfast.wake_run TO holdfast_worker, holdfast_operator;

-- The producer: enqueue() in TypeScript, holdfast.inbox_enqueue() in SQL and `holdfast enqueue`, and nothing else.
-- It reads no payload, and neither claims, changes nor removes a job. It takes idempotency keys by a function, and can
-- neither read those that stand nor change what they stand for. It knows nothing of schedules, and acts on nothing that the
-- audit is about.
GRANT SELECT ON holdfast.migrations, holdfast.functions, holdfast.queues TO holdfast_producer;
GRANT INSERT ON holdfast.inbox TO holdfast_producer;
GRANT SELECT (id) ON holdfast.inbox TO holdfast_producer;
GRANT USAGE ON SEQUENCE holdfast.inbox_position_seq TO holdfast_producer;

-- Unique keys: one job for a key, which may replace what a job that still waits is to do.
GRANT EXECUTE ON FUNCTION holdfast.inbox_enqueue_unique, holdfast.inbox_lock_unique TO holdfast_producer;
-- What waits is counted where a queue has a limit.
GRANT EXECUTE ON FUNCTION holdfast.inbox_count_waiting TO holdfast_producer;

-- What workers have registered, for `strictTypes`.
GRANT SELECT (handles) ON holdfast.workers TO holdfast_producer;

-- Webhooks: sends them.
GRANT SELECT ON holdfast.webhook_endpoints TO holdfast_producer;

-- Events: appends to logs.
GRANT INSERT ON holdfast.event_log TO holdfast_producer;

-- The declarer, beside the producer: a program that declares schedules or endpoints of webhooks. Whoever makes a schedule
-- reads and changes those of all, and has jobs enqueued into the queue that it names, by a worker of that queue. Grant it
-- to what deploys, and not to what only enqueues. To run a schedule now is for workers: it looks at the last job.
GRANT SELECT ON holdfast.migrations, holdfast.functions, holdfast.queues TO holdfast_declarer;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.schedules TO holdfast_declarer;
-- Endpoints of webhooks. It writes secrets and reads none.
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.webhook_endpoints, holdfast.key_windows TO holdfast_declarer;
GRANT INSERT, DELETE, SELECT (id, endpoint_id, kind, expires_at), UPDATE (expires_at) ON holdfast.webhook_secrets
  TO holdfast_declarer;
GRANT SELECT, INSERT, DELETE, UPDATE (failing_since, rests_until) ON holdfast.webhook_health TO holdfast_declarer;
-- To pause, resume, delete, disable or rotate one leaves a row in the audit.
GRANT SELECT (id), INSERT (act, queue, jobs, filter, changes, actor, reason) ON holdfast.audit TO holdfast_declarer;

-- The pruner, beside the operator: deletes finished jobs from the archive for good (`holdfast archive prune`), before their
-- retention is over. Nobody else may.
GRANT EXECUTE ON FUNCTION holdfast.inbox_verb_prune_archive_older TO holdfast_pruner;

-- The worker: claims, settles, does maintenance, and enqueues children. It cannot change the settings of a
-- queue, nor what a finished job left in the archive.
GRANT SELECT ON holdfast.migrations, holdfast.functions, holdfast.queues TO holdfast_worker;
-- Who joins or leaves raises the epoch of the fleet.
GRANT SELECT, UPDATE ON holdfast.fleet TO holdfast_worker;
GRANT UPDATE (maintained_at, serviced_at) ON holdfast.queues TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.workers TO holdfast_worker;
-- It declares the limits of its job types when it starts, and counts what starts and what it holds.
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.limits, holdfast.rates, holdfast.permits TO holdfast_worker;
-- And which job tells of a dead letter, which is written with the dead letter.
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.on_dead_letter TO holdfast_worker;
GRANT EXECUTE ON FUNCTION holdfast.dead_letter_hook TO holdfast_worker;
-- Projections: it reads logs, prunes them and moves cursors. To make the queue "projectors" and the schemas of builds
-- it needs the owner once (createQueue) and CREATE on the database.
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.event_log, holdfast.projections, holdfast.projection_cursors,
  holdfast.projection_stops, holdfast.projection_parked TO holdfast_worker;
GRANT USAGE, SELECT ON SEQUENCE holdfast.event_log_position_seq TO holdfast_worker;
GRANT EXECUTE ON FUNCTION holdfast.event_page, holdfast.cluster_id TO holdfast_worker;
-- It writes the ticks of schedules, and may make schedules as a producer does.
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.schedules TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.inbox TO holdfast_worker;
GRANT USAGE ON SEQUENCE holdfast.inbox_position_seq TO holdfast_worker;
GRANT SELECT, INSERT, DELETE ON holdfast.inbox_claims TO holdfast_worker;
GRANT SELECT, INSERT ON holdfast.inbox_archive TO holdfast_worker;
GRANT EXECUTE ON FUNCTION holdfast.inbox_verb_replay TO holdfast_worker;
-- Drops what is past the retention and begins new segments, with the rights of the owner.
GRANT EXECUTE ON FUNCTION holdfast.inbox_prune_archive TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.inbox_idempotency TO holdfast_worker;
GRANT EXECUTE ON FUNCTION holdfast.inbox_enqueue_unique, holdfast.inbox_lock_unique, holdfast.inbox_retake_unique,
  holdfast.inbox_count_waiting TO holdfast_worker;
-- Claims, limits, and the question of idle workers. Everybody may call these, unless your default privileges say otherwise;
-- without the rights on the tables they do nothing.
GRANT EXECUTE ON FUNCTION holdfast.inbox_claim, holdfast.inbox_merge TO holdfast_worker;
GRANT EXECUTE ON FUNCTION holdfast.inbox_allow, holdfast.inbox_held, holdfast.inbox_rate_keys, holdfast.inbox_set_limit,
  holdfast.inbox_turns, holdfast.inbox_room, holdfast.inbox_suspects, holdfast.inbox_due, holdfast.due_queues TO holdfast_worker;
GRANT EXECUTE ON FUNCTION holdfast.inbox_turns_walk, holdfast.inbox_turns_next, holdfast.inbox_turns_front,
  holdfast.inbox_turns_deep, holdfast.inbox_turns_line, holdfast.inbox_turns_due, holdfast.inbox_turns_held,
  holdfast.inbox_turns_found, holdfast.inbox_turns_rounds TO holdfast_worker;
-- Workers of version 0.1 call these during a deploy.
GRANT EXECUTE ON FUNCTION holdfast.inbox_claim_limited, holdfast.inbox_allowance TO holdfast_worker;
GRANT SELECT, UPDATE, DELETE ON holdfast.inbox_unique TO holdfast_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.inbox_effects TO holdfast_worker;
-- Workflows: what runs have done, the signals sent to them, and what came of their children.
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.inbox_steps, holdfast.inbox_signals, holdfast.inbox_children TO holdfast_worker;
GRANT EXECUTE ON FUNCTION holdfast.inbox_suspend, holdfast.inbox_arrive, holdfast.inbox_wake_signalled TO holdfast_worker;
-- Webhooks: it signs with the secrets, and writes the log.
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.webhook_endpoints, holdfast.webhook_secrets, holdfast.webhook_health,
  holdfast.key_windows
  TO holdfast_worker;
GRANT SELECT, INSERT, DELETE ON holdfast.webhook_log TO holdfast_worker;
-- Programs that update, cancel or retry leave their rows in the audit; who it was and when they cannot make up, and
-- of what is written there they can only raise the counts of their own acts.
GRANT SELECT (id), INSERT (act, queue, jobs, filter, changes, actor, reason) ON holdfast.audit TO holdfast_worker;
GRANT EXECUTE ON FUNCTION holdfast.count_act(uuid, bigint), holdfast.prune_audit(integer) TO holdfast_worker;

-- The worker in another language: it calls the functions of the protocol, and has no right on any table. They run with the
-- rights of the owner, on every queue. It settles only what the id that it names holds, and an id is as good as a secret: it
-- is made at random, and only who reads `workers` or the jobs sees it. Give holdfast_producer too, if it enqueues.
GRANT EXECUTE ON FUNCTION holdfast.worker_register, holdfast.worker_heartbeat, holdfast.worker_hold, holdfast.worker_listen,
  holdfast.worker_leave,
  holdfast.worker_claim, holdfast.worker_renew, holdfast.worker_complete, holdfast.worker_complete_many, holdfast.worker_fail,
  holdfast.worker_dead_letter, holdfast.worker_release, holdfast.worker_snooze, holdfast.worker_cancel
  TO holdfast_sql_worker, holdfast_worker;

-- The viewer: reads everything, payloads and results included, and writes nothing. To keep these from it,
-- grant the other columns of inbox and inbox_archive by name instead.
GRANT SELECT ON holdfast.migrations, holdfast.functions, holdfast.queues, holdfast.workers, holdfast.fleet, holdfast.inbox,
  holdfast.inbox_archive, holdfast.inbox_idempotency, holdfast.inbox_unique, holdfast.inbox_effects,
  holdfast.inbox_claims, holdfast.schedules, holdfast.limits, holdfast.rates, holdfast.permits, holdfast.on_dead_letter, holdfast.key_windows,
  holdfast.inbox_steps, holdfast.inbox_signals, holdfast.inbox_children, holdfast.audit TO holdfast_viewer;
-- Of webhooks everything but the secrets.
GRANT SELECT ON holdfast.webhook_endpoints, holdfast.webhook_health, holdfast.webhook_log TO holdfast_viewer, holdfast_operator;
GRANT SELECT (id, endpoint_id, kind, expires_at) ON holdfast.webhook_secrets TO holdfast_viewer, holdfast_operator;
-- Projections, and how far behind they are. The operator lets stopped keys go on or pass over an event; to rebuild, promote and remove is for the worker.
GRANT SELECT ON holdfast.event_log, holdfast.projections, holdfast.projection_cursors, holdfast.projection_stops,
  holdfast.projection_parked TO holdfast_viewer, holdfast_operator;
GRANT SELECT ON SEQUENCE holdfast.event_log_position_seq TO holdfast_viewer, holdfast_operator;
GRANT EXECUTE ON FUNCTION holdfast.event_page, holdfast.cluster_id TO holdfast_viewer, holdfast_operator;
GRANT UPDATE (resume, skip) ON holdfast.projection_stops TO holdfast_operator;
-- How much of a limit is used.
GRANT EXECUTE ON FUNCTION holdfast.inbox_held TO holdfast_viewer, holdfast_operator;

-- The operator: a person on call. It reads what the viewer reads, and it retries, discards, cancels, updates and
-- replays jobs, pauses and resumes queues, drains workers, and enqueues. It neither claims nor settles, and it
-- changes no table, no migration and no other setting of a queue.
GRANT SELECT ON holdfast.migrations, holdfast.functions, holdfast.queues, holdfast.workers, holdfast.fleet, holdfast.inbox,
  holdfast.inbox_archive, holdfast.inbox_idempotency, holdfast.inbox_unique, holdfast.inbox_effects,
  holdfast.inbox_claims, holdfast.schedules, holdfast.limits, holdfast.rates, holdfast.permits, holdfast.on_dead_letter, holdfast.key_windows,
  holdfast.inbox_steps, holdfast.inbox_signals, holdfast.inbox_children, holdfast.audit TO holdfast_operator;
GRANT UPDATE (paused, paused_types, paused_keys) ON holdfast.queues TO holdfast_operator;
-- Schedules are paused, resumed, run and deleted.
GRANT UPDATE (paused, next_instant, next_at, last_instant, last_at, last_job, ticks, skipped, missed), DELETE
  ON holdfast.schedules TO holdfast_operator;
-- Limits are set, reset and removed; what was used of a rate goes with it.
GRANT INSERT, UPDATE, DELETE ON holdfast.limits TO holdfast_operator;
GRANT DELETE ON holdfast.rates TO holdfast_operator;
GRANT EXECUTE ON FUNCTION holdfast.inbox_set_limit TO holdfast_operator;
-- Endpoints of webhooks are made, changed, disabled, enabled and removed, and their secrets replaced, which it cannot read.
GRANT INSERT, UPDATE, DELETE ON holdfast.webhook_endpoints, holdfast.key_windows TO holdfast_operator;
GRANT INSERT, DELETE, UPDATE (expires_at) ON holdfast.webhook_secrets TO holdfast_operator;
GRANT INSERT, DELETE, UPDATE (failing_since, rests_until) ON holdfast.webhook_health TO holdfast_operator;
-- To ask a worker to drain; the epoch of the fleet rises with it.
GRANT UPDATE (status) ON holdfast.workers TO holdfast_operator;
GRANT UPDATE (epoch) ON holdfast.fleet TO holdfast_operator;
-- What a retry or an update writes, and not who holds the job or until when.
GRANT INSERT, DELETE, UPDATE (status, available_at, attempts, crashes, position, parked, payload, version, priority,
  wait_until, undo_asked) ON holdfast.inbox TO holdfast_operator;
-- A retry of a run forgets what failed, and a child that is cancelled is counted in its parent.
GRANT INSERT, UPDATE, DELETE ON holdfast.inbox_steps, holdfast.inbox_children TO holdfast_operator;
-- What was sent to a run that is discarded or cancelled is kept for as long as its row in the archive may come back.
GRANT UPDATE (taken_by, check_at) ON holdfast.inbox_signals TO holdfast_operator;
GRANT USAGE ON SEQUENCE holdfast.inbox_position_seq TO holdfast_operator;
-- What is discarded or cancelled goes to the archive, and a replay takes it out again.
GRANT INSERT ON holdfast.inbox_archive TO holdfast_operator;
GRANT EXECUTE ON FUNCTION holdfast.inbox_verb_replay TO holdfast_operator;
GRANT EXECUTE ON FUNCTION holdfast.inbox_enqueue_unique, holdfast.inbox_lock_unique, holdfast.inbox_retake_unique,
  holdfast.inbox_count_waiting TO holdfast_operator;
-- A replay may be asked to do again what a job has done before. What a job did is known from when it goes to the archive.
GRANT DELETE, UPDATE (created_at) ON holdfast.inbox_effects TO holdfast_operator;
-- Who did what: when and as whom is not the operator's to say.
GRANT INSERT (act, queue, jobs, filter, changes, actor, reason) ON holdfast.audit TO holdfast_operator;
GRANT EXECUTE ON FUNCTION holdfast.count_act(uuid, bigint) TO holdfast_operator;

-- What earlier versions of this file gave, and nobody needs any more.
REVOKE ALL ON holdfast.schedules, holdfast.audit, holdfast.webhook_secrets, holdfast.webhook_health FROM holdfast_producer;
REVOKE INSERT, UPDATE, DELETE ON holdfast.webhook_endpoints FROM holdfast_producer;
DO $do$
DECLARE
  queue text;
BEGIN
  FOR queue IN SELECT q.name FROM holdfast.queues AS q LOOP
    EXECUTE format('REVOKE ALL ON holdfast.%I FROM holdfast_producer', queue || '_idempotency');
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON holdfast.%I FROM holdfast_operator', queue || '_idempotency');
    EXECUTE format('REVOKE DELETE ON holdfast.%I FROM holdfast_worker, holdfast_operator', queue || '_archive');
  END LOOP;
END
$do$;

-- The queues that are there already: whoever holds something of inbox holds the same of them. createQueue and
-- `holdfast queues create` do this for each new one. Column by column and table by table, which ALTER DEFAULT
-- PRIVILEGES cannot say.
DO $do$
DECLARE
  space CONSTANT text := 'holdfast';
  queue text;
  given text;
BEGIN
  FOR queue IN SELECT q.name FROM holdfast.queues AS q WHERE q.name <> 'inbox' LOOP
    FOR given IN
      WITH relations AS (
        SELECT f.oid AS from_oid, f.relacl AS acl, t.relowner AS owner,
          format('%s %I.%I', CASE f.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, space, t.relname) AS name
        FROM pg_class AS t
        JOIN pg_class AS f ON f.relnamespace = t.relnamespace AND f.relkind = t.relkind
          AND f.relname = 'inbox' || substr(t.relname, length(queue) + 1)
        WHERE t.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = space)
          AND t.relkind IN ('r', 'p', 'S') AND (t.relname = queue OR starts_with(t.relname, queue || '_'))
          -- Not a table of a queue whose name begins with the name of this one.
          AND NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE starts_with(q.name, queue || '_')
            AND (t.relname = q.name OR starts_with(t.relname, q.name || '_')))
      ), rights AS (
        SELECT r.name, r.owner, a.*, NULL::name AS of_column FROM relations AS r, aclexplode(r.acl) AS a
        UNION ALL
        SELECT r.name, r.owner, a.*, c.attname
        FROM relations AS r
        JOIN pg_attribute AS c ON c.attrelid = r.from_oid AND c.attnum > 0 AND NOT c.attisdropped
        CROSS JOIN aclexplode(c.attacl) AS a
        UNION ALL
        SELECT format('FUNCTION %I.%I(%s)', space, t.proname, pg_get_function_identity_arguments(t.oid)),
          t.proowner, a.*, NULL
        FROM pg_proc AS t
        JOIN pg_proc AS f ON f.pronamespace = t.pronamespace AND f.proargtypes = t.proargtypes
          AND f.proname = 'inbox' || substr(t.proname, length(queue) + 1)
        CROSS JOIN aclexplode(f.proacl) AS a
        WHERE t.pronamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = space)
          AND starts_with(t.proname, queue || '_')
      )
      SELECT format('GRANT %s ON %s TO %s%s', concat(r.privilege_type, ' (' || quote_ident(r.of_column) || ')'), r.name,
        CASE r.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(r.grantee)) END,
        CASE WHEN r.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
      FROM rights AS r
      WHERE r.grantee <> r.owner
    LOOP
      EXECUTE given;
    END LOOP;
  END LOOP;
END
$do$;
