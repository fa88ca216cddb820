/** The job that tells of a dead letter. */
import type { FunctionFile } from '../../function-file.js';

export const deadLetterHook: FunctionFile = {
  name: 'dead-letter-hook',
  of: 'schema',
  drop: 'DROP FUNCTION IF EXISTS holdfast.dead_letter_hook(text, uuid, text);',
  text: `
-- Called for each row that has just become a dead letter, by the statement that made it one: writes the job that its type,
-- or else its queue, names (on_dead_letter), and into the history of the dead letter which one it is. What cannot be
-- written never stops the dead letter: the reason is returned, and stands in the history instead. Only what passes by
-- itself (a deadlock, a lock, a full disk) fails the statement, and both are written when it is sent again. A job that was
-- written here tells nobody when it dies, so there is no loop. Neither a full nor a paused queue is asked.
--
-- A child is counted in its parent, once: from then on its row does not name the parent any more, so it may be retried.
CREATE OR REPLACE FUNCTION holdfast.dead_letter_hook(of_queue text, job uuid, of_type text, parent jsonb DEFAULT NULL)
  RETURNS text
  LANGUAGE plpgsql AS $fn$
DECLARE
  hook holdfast.on_dead_letter;
  dead record;
  its_ordering holdfast.ordering;
  hook_id uuid;
  stream text;
  told jsonb;
  problem text;
BEGIN
  IF parent IS NOT NULL THEN
    EXECUTE format('UPDATE holdfast.%I AS i SET parent = NULL WHERE i.id = %L RETURNING i.last_error', of_queue, job) INTO problem;
    PERFORM holdfast.children_ended(ARRAY[job], ARRAY[parent], 'd', jsonb_build_object(job, problem));
    problem := NULL;
  END IF;
  SELECT h.* INTO hook FROM holdfast.on_dead_letter AS h
  WHERE h.queue = of_queue AND h.type IN (of_type, '')
  ORDER BY h.type = '' LIMIT 1;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  EXECUTE format('SELECT i.* FROM holdfast.%I AS i WHERE i.id = %L', of_queue, job) INTO dead;
  IF dead.headers ? 'holdfast_dead_letter' THEN
    RETURN NULL;
  END IF;
  SELECT q.ordering INTO its_ordering FROM holdfast.queues AS q WHERE q.name = hook.to_queue;
  told := jsonb_build_object('queue', hook.to_queue, 'type', hook.to_type);
  IF its_ordering IS NULL THEN
    problem := format('there is no queue %I', hook.to_queue);
  ELSE
    hook_id := holdfast.new_id();
    -- Behind a dead letter that holds its key it would wait for the human whom it is to tell.
    stream := CASE WHEN its_ordering = 'key_strict' AND hook.to_queue = of_queue THEN hook_id::text ELSE dead.partition_key END;
    IF its_ordering <> 'turns' THEN
      dead.group_key := NULL;
    END IF;
    BEGIN
      EXECUTE format('INSERT INTO holdfast.%I (id, type, version, partition_key, group_key, partition_bucket, payload,
        headers, priority, max_attempts, parked) VALUES (%L, %L, %L, %L, %L, %L, %L, %L, %L, %L, false)', hook.to_queue,
        hook_id, hook.to_type, hook.version, stream, dead.group_key,
        holdfast.bucket_of(coalesce(dead.group_key, stream)),
        jsonb_build_object('id', job, 'queue', of_queue, 'type', of_type, 'version', dead.version,
          'key', dead.partition_key, 'payload', dead.payload, 'error', dead.last_error, 'attempts', dead.attempts,
          'outcome', dead.history -> -1 -> 'outcome', 'diedAt', dead.history -> -1 -> 'at'),
        coalesce(dead.headers, '{}') - '{holdfast_schedule,holdfast_scheduled_at}'::text[] || jsonb_build_object('holdfast_dead_letter', job),
        hook.priority, hook.max_attempts);
      told := told || jsonb_build_object('id', hook_id);
    EXCEPTION WHEN OTHERS THEN
      IF left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58', 'XX') THEN
        RAISE;
      END IF;
      problem := SQLERRM;
    END;
  END IF;
  IF problem IS NOT NULL THEN
    told := told || jsonb_build_object('error', left(problem, 500));
  END IF;
  EXECUTE format('UPDATE holdfast.%I AS i SET history = jsonb_set(i.history, ''{-1,told}'', %L) WHERE i.id = %L', of_queue, told, job);
  RETURN problem;
END
$fn$;
`,
};
