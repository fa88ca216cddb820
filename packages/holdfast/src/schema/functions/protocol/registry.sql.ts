/** The registry for workers in other languages: register, beat, hold the liveness lock, leave. */
import type { FunctionFile } from '../../function-file.js';
import { SAFE } from './safe.js';

/** As livenessSpace() computes it. Written in two parts, because a schema of another name replaces the whole. */
export const SPACE = `holdfast.lock_number(concat('hold', 'fast.liveness.', (SELECT n.nspname FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = 'holdfast.workers'::regclass)))`;

const TTL_MS = `(w.metadata ->> 'ttlMs')::bigint * interval '1 millisecond'`;

export const register: FunctionFile = {
  name: 'protocol-register',
  of: 'schema',
  text: `
-- The number of an advisory lock: the 32 bits of hash32(), as a signed integer.
CREATE OR REPLACE FUNCTION holdfast.lock_number(key text) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS 'SELECT ((holdfast.hash32(key) + 2147483648) % 4294967296 - 2147483648)::integer';

-- Registers a worker, and returns its id. It handles these types in each of these queues, up to the version that versions
-- names, or 1. It is declared dead when it sends no heartbeat for its TTL; a dead id never lives again.
CREATE OR REPLACE FUNCTION holdfast.worker_register(
  types text[], queues text[] DEFAULT ARRAY['inbox'], versions jsonb DEFAULT '{}', name text DEFAULT 'sql',
  metadata jsonb DEFAULT '{}', ttl interval DEFAULT '30 seconds'
) RETURNS text ${SAFE} AS $fn$
DECLARE
  worker text := concat(name, '-', pg_backend_pid(), '-', left(replace(gen_random_uuid()::text, '-', ''), 12));
  wrong  text;
  mine   jsonb;
BEGIN
  SELECT t.type INTO wrong FROM unnest(types) AS t(type)
  WHERE t.type IS NULL OR t.type !~ '^[A-Za-z][A-Za-z0-9_.:-]{0,99}$' LIMIT 1;
  IF coalesce(cardinality(types), 0) NOT BETWEEN 1 AND 1000 OR FOUND THEN
    RAISE EXCEPTION 'the worker names no job type, or % is none: it was not registered', quote_nullable(wrong)
      USING ERRCODE = 'HF002', HINT = 'Pass the types that it handles, such as ARRAY[''send_receipt''].';
  END IF;
  SELECT u.name INTO wrong FROM unnest(queues) AS u(name) WHERE NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = u.name) LIMIT 1;
  IF coalesce(cardinality(queues), 0) NOT BETWEEN 1 AND 1000 OR FOUND THEN
    RAISE EXCEPTION 'the worker names no queue, or there is no queue %: it was not registered', quote_nullable(wrong)
      USING ERRCODE = 'HF002', HINT = 'Pass names of queues, such as ARRAY[''inbox''].';
  ELSIF ttl IS NULL OR ttl < '1 second' OR ttl > '1 day' THEN
    RAISE EXCEPTION 'the TTL % is out of range: the worker was not registered', quote_nullable(ttl)
      USING ERRCODE = 'HF002', HINT = 'Give 1 second to 1 day.';
  ELSIF name IS NULL OR name = '' OR length(name) > 100 OR jsonb_typeof(metadata) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION 'the name is empty or longer than 100 characters, or the metadata is no object: the worker was not registered'
      USING ERRCODE = 'HF002';
  ELSIF jsonb_typeof(versions) IS DISTINCT FROM 'object'
    OR jsonb_path_exists(versions, '$.* ? (@.type() <> "number" || @ < 1 || @ > 100 || @ != @.floor())') THEN
    RAISE EXCEPTION 'versions must be an object of whole numbers from 1 to 100: the worker was not registered'
      USING ERRCODE = 'HF002', HINT = 'For example {"send_receipt": 2}.';
  END IF;
  SELECT jsonb_object_agg(t.type, coalesce((versions ->> t.type)::integer, 1)) INTO mine FROM unnest(types) AS t(type);
  INSERT INTO holdfast.workers (id, status, last_seen_at, started_at, lock_key, handles, metadata)
  SELECT worker, 'alive', now(), now(), holdfast.lock_number(worker), jsonb_object_agg(u.queue, mine),
    jsonb_build_object('host', coalesce(host(inet_client_addr()), 'local')) || metadata || jsonb_build_object('name', name, 'pid', pg_backend_pid(), 'sqlProtocol', 1,
      'ttlMs', ceil(extract(epoch FROM ttl) * 1000))
  FROM unnest(queues) AS u(queue);
  RETURN worker;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.worker_register FROM PUBLIC;
`,
};

export const beat: FunctionFile = {
  name: 'protocol-heartbeat',
  of: 'schema',
  text: `
-- Says that a worker lives, and returns what the registry calls it: 'alive'; 'draining', if somebody asked it to stop; or
-- 'dead': what it held is lost, and it must register again. Where no worker in TypeScript does the rounds of its queues, a
-- heartbeat does what brings jobs of dead workers back.
CREATE OR REPLACE FUNCTION holdfast.worker_heartbeat(worker text) RETURNS text ${SAFE} AS $fn$
DECLARE
  me    record;
  queue text;
BEGIN
  -- It may judge others once its own heartbeats have come for a TTL without a gap: otherwise the database was away.
  UPDATE holdfast.workers AS w
  SET last_seen_at = clock_timestamp(), metadata = w.metadata || jsonb_build_object('steadySince',
    CASE WHEN w.last_seen_at < clock_timestamp() - ${TTL_MS} THEN clock_timestamp()
      ELSE coalesce((w.metadata ->> 'steadySince')::timestamptz, w.started_at) END)
  WHERE w.id = worker AND w.status <> 'dead' AND w.metadata ? 'sqlProtocol'
  RETURNING w.status, w.handles, (w.metadata ->> 'ttlMs')::integer AS ttl_ms,
    (w.metadata ->> 'steadySince')::timestamptz < clock_timestamp() - ${TTL_MS} AS steady INTO me;
  IF NOT FOUND THEN
    RETURN 'dead';
  END IF;
  FOR queue IN SELECT q.name FROM jsonb_object_keys(me.handles) AS h(name) JOIN holdfast.queues AS q ON q.name = h.name ORDER BY 1 LOOP
    -- A heartbeat counts whatever becomes of that.
    BEGIN
      EXECUTE format('SELECT holdfast.%I(%L, %L, %L)', queue || '_worker_maintain', worker, me.ttl_ms, me.steady);
    EXCEPTION WHEN OTHERS THEN
      RAISE WARNING 'a round of maintenance of queue % failed: % (%)', queue, SQLERRM, SQLSTATE;
    END;
  END LOOP;
  RETURN me.status;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.worker_heartbeat FROM PUBLIC;

-- On a session that the worker keeps open: when it ends, workers in TypeScript declare the worker dead within about two
-- seconds, without waiting for its TTL. Call it after every register. False: the worker is dead.
CREATE OR REPLACE FUNCTION holdfast.worker_hold(worker text) RETURNS boolean ${SAFE} AS $fn$
BEGIN
  IF NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.id = worker AND w.status <> 'dead' AND w.metadata ? 'sqlProtocol') THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_lock_shared(${SPACE}, holdfast.lock_number(worker));
  UPDATE holdfast.workers AS w SET holds_liveness_lock = true, last_seen_at = clock_timestamp()
  WHERE w.id = worker AND w.status <> 'dead' AND w.metadata ? 'sqlProtocol';
  RETURN FOUND;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.worker_hold FROM PUBLIC;

-- On a session that the worker keeps open: it hears a notification when a job may be due in one of its queues. A hint: it may
-- be missed, and others hear it too. Returns the channels.
CREATE OR REPLACE FUNCTION holdfast.worker_listen(worker text) RETURNS SETOF text ${SAFE} AS $fn$
DECLARE
  queue   text;
  channel text;
BEGIN
  -- By it an insert knows that somebody listens (fleet/wake.sql.ts).
  PERFORM pg_advisory_lock_shared('holdfast.fleet'::regclass::oid::integer, 0);
  FOR queue IN SELECT q.name FROM holdfast.workers AS w CROSS JOIN LATERAL jsonb_object_keys(w.handles) AS h(name)
    JOIN holdfast.queues AS q ON q.name = h.name WHERE w.id = worker AND w.metadata ? 'sqlProtocol' ORDER BY 1
  LOOP
    channel := concat('holdfast_', format('holdfast.%I', queue)::regclass::oid);
    EXECUTE format('LISTEN %I', channel);
    RETURN NEXT channel;
  END LOOP;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.worker_listen FROM PUBLIC;

-- The worker stops: what it holds goes back unspent, and others may have it at once. Returns how many jobs; NULL: it was dead.
CREATE OR REPLACE FUNCTION holdfast.worker_leave(worker text) RETURNS bigint ${SAFE} AS $fn$
DECLARE
  queue    text;
  back     bigint;
  released bigint := 0;
BEGIN
  FOR queue IN SELECT q.name FROM holdfast.workers AS w CROSS JOIN LATERAL jsonb_object_keys(w.handles) AS h(name)
    JOIN holdfast.queues AS q ON q.name = h.name WHERE w.id = worker AND w.status <> 'dead' AND w.metadata ? 'sqlProtocol' ORDER BY 1
  LOOP
    EXECUTE format('SELECT holdfast.%I(%L)', queue || '_worker_release', worker) INTO back;
    released := released + back;
  END LOOP;
  UPDATE holdfast.workers AS w SET status = 'dead', last_seen_at = now(), left_at = now(), released_all = true
  WHERE w.id = worker AND w.status <> 'dead' AND w.metadata ? 'sqlProtocol';
  RETURN CASE WHEN FOUND THEN released END;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.worker_leave FROM PUBLIC;
`,
};
