/**
 * What an idle worker asks of its queues: when the next job is due, and what else there is to do. One statement asks for
 * many queues, so a worker that serves a thousand of them and has nothing to do sends about one statement a second.
 */
import type { FunctionFile } from '../../function-file.js';

export const due: FunctionFile = {
  name: 'due',
  of: 'queue',
  text: `
-- When the next job of these types and versions may be claimed; NULL: there is none. From the front of each line, so it also
-- finds what lies behind the cursors of workers, or only what is due after a time. In a queue that is read by key it only
-- says that some wait.
CREATE OR REPLACE FUNCTION holdfast.inbox_due(
  types text[], versions integer[], due_after timestamptz DEFAULT '-infinity',
  OUT due_in_ms bigint, OUT suspects boolean, OUT maintained_ms bigint, OUT recount boolean, OUT unused boolean
) LANGUAGE plpgsql AS $fn$
DECLARE
  queue holdfast.queues;
  due   timestamptz;
BEGIN
  SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
  -- Claims of workers that died are deleted by maintenance.
  unused := NOT EXISTS (SELECT FROM holdfast.inbox AS i) AND NOT EXISTS (SELECT FROM holdfast.inbox_claims AS c);
  maintained_ms := extract(epoch FROM now() - queue.maintained_at) * 1000;
  recount := queue.max_pending IS NOT NULL AND coalesce(queue.recount_at <= now(), true);
  suspects := NOT unused AND EXISTS (SELECT FROM holdfast.inbox AS s
    WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now());
  IF unused OR queue.paused THEN
    RETURN;
  ELSIF queue.ordering <> 'none' THEN
    due := (SELECT now() FROM holdfast.inbox AS i WHERE NOT i.parked AND i.status = 'pending' LIMIT 1);
  ELSE
    SELECT min(n.available_at) INTO due
    FROM (
      SELECT l.type, hashtextextended(l.type, l.version) AS line FROM unnest(types, versions) AS l(type, version) GROUP BY 1, 2
    ) AS l
    CROSS JOIN generate_series(1, 4) AS p(priority)
    CROSS JOIN LATERAL (
      SELECT i.available_at FROM holdfast.inbox AS i
      WHERE hashtextextended(i.type, i.version) = l.line AND i.priority = p.priority::smallint
        AND i.available_at > due_after AND i.available_at < 'infinity' AND i.crashes < 2 AND i.limit_key IS NULL AND i.status = 'pending'
      ORDER BY i.available_at LIMIT 1
    ) AS n
    WHERE (l.type = ANY (queue.paused_types)) IS NOT TRUE;
    -- Jobs with keys of a rate are found by walks.
    IF due_after = '-infinity' AND EXISTS (SELECT FROM unnest(types) AS l(type) CROSS JOIN LATERAL (
      SELECT FROM holdfast.inbox AS i
      WHERE i.type COLLATE "C" = l.type AND i.limit_key IS NOT NULL AND i.crashes < 2 LIMIT 1) AS n) THEN
      due := now();
    END IF;
  END IF;
  due_in_ms := ceil(extract(epoch FROM due - now()) * 1000);
END
$fn$;
`,
};

export const dueQueues: FunctionFile = {
  name: 'due-queues',
  of: 'schema',
  text: `
-- The same of several queues; asked: by queue, the types and versions. A queue of which there is nothing to say is left
-- out, and so is one that was dropped. Small tables are read through indexes too: these plans are kept while they grow.
CREATE OR REPLACE FUNCTION holdfast.due_queues(
  asked jsonb,
  OUT queue text, OUT due_in_ms bigint, OUT suspects boolean, OUT maintained_ms bigint, OUT recount boolean,
  OUT unused boolean
) RETURNS SETOF record LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $fn$
DECLARE
  one record;
BEGIN
  FOR one IN
    SELECT q.name, a.value -> 'types' AS types, a.value -> 'versions' AS versions
    FROM jsonb_each(asked) AS a JOIN holdfast.queues AS q ON q.name = a.key ORDER BY q.name
  LOOP
    queue := one.name;
    EXECUTE format('SELECT d.* FROM holdfast.%I(ARRAY(SELECT jsonb_array_elements_text(%L)), '
      'ARRAY(SELECT jsonb_array_elements_text(%L)::integer)) AS d', one.name || '_due', one.types, one.versions)
      INTO due_in_ms, suspects, maintained_ms, recount, unused;
    RETURN NEXT;
  END LOOP;
END
$fn$;
`,
};
