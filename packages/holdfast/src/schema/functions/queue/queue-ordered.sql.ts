/** The trigger function that makes the index and the hint of a queue for its ordering. */
import type { FunctionFile } from '../../function-file.js';

export const queueOrdered: FunctionFile = {
  name: 'queue-ordered',
  of: 'schema',
  text: `
-- A queue has an index that claims read, by time or by key, and it tells inserts which hint to send. It is
-- made with the queue. It can be changed while the queue is empty; the table is locked for that moment.
CREATE OR REPLACE FUNCTION holdfast.queue_ordered() RETURNS trigger
  LANGUAGE plpgsql SET lock_timeout = '2s' AS $fn$
DECLARE
  busy   boolean;
  silent boolean;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    EXECUTE format('LOCK TABLE %I.%I IN ACCESS EXCLUSIVE MODE', TG_TABLE_SCHEMA, NEW.name);
    EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', TG_TABLE_SCHEMA, NEW.name) INTO busy;
    IF busy THEN
      RAISE EXCEPTION 'queue % holds jobs: its order was not changed', quote_literal(NEW.name)
        USING ERRCODE = 'HF005', HINT = 'Make another queue, or change the order while this one is empty.';
    END IF;
    EXECUTE format('DROP INDEX IF EXISTS %1$I.%2$I, %1$I.%3$I, %1$I.%4$I', TG_TABLE_SCHEMA, NEW.name || '_claim_idx',
      NEW.name || '_line_idx', NEW.name || '_rate_idx');
    SELECT t.tgenabled = 'D' INTO silent FROM pg_trigger AS t
    WHERE t.tgname = 'wake' AND t.tgrelid = format('%I.%I', TG_TABLE_SCHEMA, NEW.name)::regclass;
  END IF;
  EXECUTE format(CASE NEW.ordering
      -- A line for each type, version and priority (a hash of the first two is half as dear to write), oldest first, so that jobs that may not be taken are not read for the
      -- others. Jobs with a key of a rate have a line for each key. Dead letters lie at the far end of a line, at
      -- infinity; suspects are elsewhere.
      WHEN 'none' THEN 'CREATE INDEX %4$I ON %1$I.%2$I (hashtextextended(type, version), priority, available_at, position) '
        'WHERE crashes < 2 AND limit_key IS NULL; '
        'CREATE INDEX %5$I ON %1$I.%2$I (type COLLATE "C", limit_key COLLATE "C", priority, available_at, position) '
        'WHERE crashes < 2 AND limit_key IS NOT NULL'
      -- The jobs of a key as they become due, so that nothing that waits stands before one that is due. The keys
      -- of a group stand together: a full group is passed in one step.
      WHEN 'turns' THEN 'CREATE INDEX %3$I ON %1$I.%2$I (partition_bucket, coalesce(group_key, '''') COLLATE "C", '
        'partition_key COLLATE "C", available_at, position) WHERE NOT parked AND crashes < 2'
      -- The jobs of a key in their order. A claim steps from key to key and reads the head of each.
      ELSE 'CREATE INDEX %3$I ON %1$I.%2$I (partition_bucket, partition_key COLLATE "C", position) WHERE NOT parked'
    END, TG_TABLE_SCHEMA, NEW.name, NEW.name || '_claim_idx', NEW.name || '_line_idx', NEW.name || '_rate_idx');
  EXECUTE format('CREATE OR REPLACE TRIGGER wake AFTER INSERT ON %1$I.%2$I REFERENCING NEW TABLE AS added '
    'FOR EACH STATEMENT EXECUTE FUNCTION %1$I.%3$I(%4$L)', TG_TABLE_SCHEMA, NEW.name, NEW.name || '_wake',
    CASE NEW.ordering WHEN 'none' THEN 'time' ELSE 'key' END);
  -- A trigger that was made anew is on.
  IF silent THEN
    EXECUTE format('ALTER TABLE %I.%I DISABLE TRIGGER wake', TG_TABLE_SCHEMA, NEW.name);
  END IF;
  RETURN NULL;
END
$fn$;
`,
};
