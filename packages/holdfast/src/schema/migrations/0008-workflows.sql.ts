/**
 * Migration 8: workflows. A run is a row of its queue; what it has done, the signals sent to it and what came of its
 * children are rows beside it.
 *
 * Locks: each queue's table and the registry of workers, exclusively, for the moment in which they get columns without a
 * default (no rewrite). The index of tags is made beside those who write.
 */
import type { Migration } from '../migration.js';

const common = `
-- By queue and type, the versions of each workflow for which a worker has a body. NULL: it has none.
ALTER TABLE holdfast.workers ADD COLUMN workflows jsonb;
`;

const perQueue = `
ALTER TABLE holdfast.inbox
  -- A run that waits: as long as available_at says the same time, nobody wants it before.
  ADD COLUMN wait_until timestamptz,
  -- Why a run is to undo what it did, and then to end as cancelled.
  ADD COLUMN undo_asked text,
  -- Of a child: the queue (q), the run (r) and the step (s) that wait for it, and which child of that step it is (n).
  ADD COLUMN parent jsonb;

-- What a run has done and what it waits for, by name. Only workflows write here.
CREATE TABLE holdfast.inbox_steps (
  run_id    uuid NOT NULL,
  -- When its code first asked for it, and when it ended.
  at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- When maintenance looks whether the run is still there. On the first row of a run only.
  check_at  timestamptz,
  -- Until when it waits.
  due_at    timestamptz,
  -- The order in which what the run asked for ended; its code hears of it in this order. NULL: it has not ended.
  place     integer,
  -- The order in which its code asked for it.
  nth       integer NOT NULL,
  ms        integer,
  -- How many children of it have not ended.
  remaining integer,
  attempt   smallint,
  -- s step, S step with an undo, t transaction, T transaction with an undo, z sleep, w wait, c children, u undo,
  -- ! undoing, # with how often it began anew as nth
  kind      "char" NOT NULL,
  name      text NOT NULL,
  value     jsonb,
  error     jsonb,
  CONSTRAINT inbox_steps_pkey PRIMARY KEY (run_id, name)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- What runs wait for, and which undo what they did.
CREATE INDEX inbox_steps_open_idx ON holdfast.inbox_steps (run_id) WHERE place IS NULL OR kind = '!';
CREATE INDEX inbox_steps_check_idx ON holdfast.inbox_steps (check_at) WHERE check_at IS NOT NULL;

-- What was sent to a run, until it is pruned with the run. Taken in the order of the ids, one by one.
CREATE TABLE holdfast.inbox_signals (
  id       bigint GENERATED ALWAYS AS IDENTITY,
  run_id   uuid NOT NULL,
  sent_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- When maintenance looks whether the run is still there.
  check_at timestamptz NOT NULL DEFAULT now(),
  -- Whether the run was woken for it, if it had to be. The sender only writes it; that comes after its commit.
  seen     boolean NOT NULL DEFAULT false,
  name     text NOT NULL,
  key      text,
  value    jsonb,
  -- The step that took it.
  taken_by text,
  CONSTRAINT inbox_signals_pkey PRIMARY KEY (run_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX inbox_signals_key_idx ON holdfast.inbox_signals (run_id, key) WHERE key IS NOT NULL;
-- Those that a wait may take.
CREATE INDEX inbox_signals_free_idx ON holdfast.inbox_signals (run_id, name, id) WHERE taken_by IS NULL;
CREATE INDEX inbox_signals_unseen_idx ON holdfast.inbox_signals (id) WHERE NOT seen;
CREATE INDEX inbox_signals_check_idx ON holdfast.inbox_signals USING brin (check_at) WITH (autosummarize = on);

-- What came of the children of a step. Not of those that completed without a result.
CREATE TABLE holdfast.inbox_children (
  run_id   uuid NOT NULL,
  -- When maintenance looks whether the run is still there.
  check_at timestamptz NOT NULL DEFAULT now(),
  n        integer NOT NULL,
  step     text NOT NULL,
  -- c completed, d dead letter, x cancelled
  outcome  "char" NOT NULL,
  value    jsonb,
  CONSTRAINT inbox_children_pkey PRIMARY KEY (run_id, step, n)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX inbox_children_check_idx ON holdfast.inbox_children USING brin (check_at) WITH (autosummarize = on);

-- Whoever may work in the queue, or look at it, may do so here.
DO $do$
DECLARE
  given text;
BEGIN
  FOR given IN
    SELECT format('GRANT %s ON holdfast.%I TO %s', a.privilege_type, t.name,
      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
    FROM pg_class AS c, aclexplode(c.relacl) AS a,
      (VALUES ('inbox' || '_steps'), ('inbox' || '_signals'), ('inbox' || '_children')) AS t(name)
    WHERE c.oid = 'holdfast.inbox_effects'::regclass AND a.grantee <> c.relowner
  LOOP
    EXECUTE given;
  END LOOP;
END
$do$;
`;

/** Runs by the tag that was given at their start. A job without one is not in it. */
const online = [
  {
    text: `CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_tag_idx ON holdfast.inbox
  ((headers ->> 'holdfast_tag'), id) WHERE headers ? 'holdfast_tag'`,
  },
];

export const workflows: Migration = {
  ...{ id: 8, name: 'workflows', breaksBefore: 1 },
  ...{ common, perQueue, online },
};
