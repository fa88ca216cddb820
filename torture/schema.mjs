// What the torture keeps in the database beside the queues: business rows, effects of handlers, and a witness.
//
// The witness is a trigger on both queues. It writes down each change of ownership in the transaction that makes it,
// under the row's lock, so its order for one job is the order in which things happened, and what was rolled
// back is not in it. Of the row before the change it keeps what decides whether the change was allowed, and of the
// session which process made it: the workers of the torture name their sessions (`sessionName`).

export const SCHEMA = `
CREATE SCHEMA torture;
CREATE TABLE torture.orders (op text PRIMARY KEY, jobs integer NOT NULL);
CREATE TABLE torture.effects (seq bigserial, job uuid NOT NULL, generation bigint NOT NULL, worker text NOT NULL);
CREATE TABLE torture.publications (op text PRIMARY KEY, tenant text NOT NULL, type text NOT NULL, events jsonb NOT NULL);
CREATE TABLE torture.flows (seq bigserial, run uuid NOT NULL, what text NOT NULL, version integer NOT NULL, facts jsonb);
CREATE TABLE torture.witness (
  seq bigserial PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  tx text NOT NULL DEFAULT pg_current_xact_id()::text,
  kind text NOT NULL,
  job uuid NOT NULL,
  queue text NOT NULL,
  key text NOT NULL,
  position bigint NOT NULL,
  generation bigint NOT NULL,
  owner text,
  was_status text,
  was_owner text,
  -- Whether the lease of the owner before had run out, by the clock that the engine's statements use.
  was_expired boolean,
  crashed boolean NOT NULL DEFAULT false,
  -- What the engine wrote down of the attempt that ended: failed, vanished, …; NULL: nothing.
  outcome text,
  made_by text DEFAULT current_setting('application_name')
);
CREATE FUNCTION torture.note() RETURNS trigger LANGUAGE plpgsql AS $fn$
DECLARE
  ended text := CASE WHEN TG_OP = 'UPDATE' AND NEW.history IS DISTINCT FROM OLD.history
    THEN NEW.history -> -1 ->> 'outcome' END;
  -- Its owner vanished, as the engine has just written down.
  vanished boolean := ended IS NOT DISTINCT FROM 'vanished';
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO torture.witness (kind, job, queue, key, position, generation)
    VALUES ('enqueued', NEW.id, TG_TABLE_NAME, NEW.partition_key, NEW.position, NEW.lease_generation);
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO torture.witness (kind, job, queue, key, position, generation, was_status, was_owner, was_expired)
    VALUES ('gone', OLD.id, TG_TABLE_NAME, OLD.partition_key, OLD.position, OLD.lease_generation,
      OLD.status, OLD.claimed_by, OLD.lease_expires_at <= statement_timestamp());
  ELSIF NEW.lease_generation <> OLD.lease_generation THEN
    INSERT INTO torture.witness (kind, job, queue, key, position, generation, owner, was_status, was_owner,
      was_expired, crashed)
    VALUES ('claimed', NEW.id, TG_TABLE_NAME, NEW.partition_key, NEW.position, NEW.lease_generation,
      NEW.claimed_by, OLD.status, OLD.claimed_by, OLD.lease_expires_at <= now(), vanished);
  ELSIF NEW.status = OLD.status THEN
    INSERT INTO torture.witness (kind, job, queue, key, position, generation, owner, was_status, was_owner,
      was_expired)
    VALUES ('renewed', NEW.id, TG_TABLE_NAME, NEW.partition_key, NEW.position, NEW.lease_generation,
      NEW.claimed_by, OLD.status, OLD.claimed_by, OLD.lease_expires_at <= statement_timestamp());
  ELSE
    INSERT INTO torture.witness (kind, job, queue, key, position, generation, was_status, was_owner,
      was_expired, crashed, outcome)
    VALUES (NEW.status, NEW.id, TG_TABLE_NAME, NEW.partition_key, NEW.position, NEW.lease_generation,
      OLD.status, OLD.claimed_by,
      OLD.lease_expires_at <= CASE WHEN vanished THEN now() ELSE statement_timestamp() END,
      vanished, ended);
  END IF;
  RETURN NULL;
END
$fn$;
`;

/** The sessions of a worker process have this name; the id of a worker has the same number in it. */
export const sessionName = (pid) => `torture-${pid}`;

/**
 * The witness of one queue. Renewals are many and change no owner: only one that was not allowed is written down,
 * of a lease that was over, or by somebody who is not the owner.
 */
export const witnessOf = (queue) => `
CREATE TRIGGER witness_added AFTER INSERT OR DELETE ON holdfast.${queue}
  FOR EACH ROW EXECUTE FUNCTION torture.note();
CREATE TRIGGER witness_moved AFTER UPDATE ON holdfast.${queue} FOR EACH ROW
  WHEN (NEW.lease_generation <> OLD.lease_generation OR NEW.status <> OLD.status)
  EXECUTE FUNCTION torture.note();
CREATE TRIGGER witness_renewed AFTER UPDATE ON holdfast.${queue} FOR EACH ROW
  WHEN (NEW.lease_generation = OLD.lease_generation AND NEW.status = OLD.status
    AND NEW.lease_expires_at <> OLD.lease_expires_at
    AND (OLD.lease_expires_at <= statement_timestamp() OR current_setting('application_name')
      <> 'torture-' || split_part(OLD.claimed_by, '-', -2)))
  EXECUTE FUNCTION torture.note();
`;
