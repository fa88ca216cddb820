/**
 * Claiming from several lines of one priority, or under limits. claim/time/claim.ts says what a line is and why the order is
 * exact; most of its claims do not need this.
 *
 * Every statement here has a snapshot of its own. A ctid that one statement returns is still that row's in the next: the
 * snapshot of the caller's statement keeps vacuum from reusing it.
 */
import { inLine, READY, RETURN_TAKEN, TAKEN_COLUMNS, takeBy } from '../../../postgres/taken.js';
import type { FunctionFile } from '../../function-file.js';

const LINES = `types text[], versions integer[], priorities smallint[], after_times timestamptz[], after_positions bigint[]`;

/** What is true of the whole claim. It stands in a row of its own. */
const HEAD = `OUT epoch bigint, OUT seen_until timestamptz, OUT clock bigint, OUT ready_jobs integer, OUT seen text,
  OUT cut_line integer, OUT cut_at timestamptz, OUT cut_position bigint, OUT refused jsonb, OUT merges boolean, OUT due_in_ms bigint,
  OUT suspects boolean, OUT maintained_ms bigint, OUT recount boolean`;
const NO_HEAD = [...HEAD.matchAll(/OUT \w+ (\w+)/g)].map(([, type]) => `NULL::${type}`).join(', ');
const TAKEN = Object.entries(TAKEN_COLUMNS);

export const claim: FunctionFile = {
  name: 'claim',
  of: 'queue',
  text: `
-- Picks the oldest jobs of several lines and locks those that may start; limits are asked here. A line that returned as many
-- rows as it was asked for may have more jobs that are older than those of other lines, so no job behind its last row (the
-- cut) is taken. seen: the lines that returned anything.
CREATE OR REPLACE FUNCTION holdfast.inbox_merge(
  worker text, worker_holds jsonb, most integer, ${LINES}, line_rows integer[],
  until timestamptz, same_rank boolean, limited_types text[], paused_types text[], paused_keys text[],
  OUT places tid[], OUT ready_jobs integer, OUT seen text, OUT cut_line integer, OUT cut_at timestamptz,
  OUT cut_position bigint, OUT refused jsonb
) LANGUAGE plpgsql AS $fn$
DECLARE
  plain tid[];
  asked tid[];
  asked_types text[];
BEGIN
  WITH found AS MATERIALIZED (
    SELECT l.nth AS line, l.rows, l.type, c.*
    FROM (
      SELECT l.*, hashtextextended(l.type, l.version) AS line, CASE WHEN same_rank THEN 0::smallint ELSE l.priority END AS rank
      FROM unnest(types, versions, priorities, after_times, after_positions, line_rows)
        WITH ORDINALITY AS l(type, version, priority, after_at, after_position, rows, nth)
      WHERE (l.type = ANY (paused_types)) IS NOT TRUE
      OFFSET 0
    ) AS l
    CROSS JOIN LATERAL (
      SELECT i.ctid AS place, l.rank, i.available_at, i.position, row_number() OVER () AS nth,
        ${READY} AND (i.partition_key = ANY (paused_keys)) IS NOT TRUE AS ready
      FROM holdfast.inbox AS i
      WHERE ${inLine('until')}
      ORDER BY i.available_at, i.position
      LIMIT l.rows
    ) AS c
  ), cut AS MATERIALIZED (
    SELECT f.line, f.rank, f.available_at, f.position FROM found AS f
    WHERE f.nth = f.rows
    ORDER BY f.rank, f.available_at, f.position LIMIT 1
  ), picked AS MATERIALIZED (
    SELECT f.place, f.type, (f.type = ANY (limited_types) OR '' = ANY (limited_types)) IS TRUE AS limited
    FROM found AS f
    WHERE f.ready AND ((f.rank, f.available_at, f.position)
      <= (SELECT c.rank, c.available_at, c.position FROM cut AS c)) IS NOT FALSE
    ORDER BY f.rank, f.available_at, f.position
    LIMIT most
  )
  SELECT p.*, (SELECT string_agg(f.line::text, ',') FROM found AS f WHERE f.nth = 1), c.line, c.available_at, c.position
  INTO plain, asked, asked_types, ready_jobs, seen, cut_line, cut_at, cut_position
  FROM (
    SELECT array_agg(p.place) FILTER (WHERE NOT p.limited), array_agg(p.place) FILTER (WHERE p.limited),
      array_agg(p.type) FILTER (WHERE p.limited), count(*)
    FROM picked AS p
  ) AS p
  LEFT JOIN cut AS c ON true;
  IF asked IS NOT NULL THEN
    -- Of each type, what was said of the first that must wait.
    SELECT array_agg(a.place) FILTER (WHERE a.ok),
      jsonb_object_agg(a.type, a.again_ms ORDER BY a.nth DESC) FILTER (WHERE a.whole)
    INTO places, refused
    FROM holdfast.inbox_allow(worker, worker_holds, asked, asked_types, NULL) AS a;
  END IF;
  places := places || ARRAY(
    SELECT i.ctid FROM holdfast.inbox AS i WHERE i.ctid = ANY (plain) AND ${READY} FOR UPDATE SKIP LOCKED);
END
$fn$;

-- Claims jobs: returns a row for each, and one for the claim.
CREATE OR REPLACE FUNCTION holdfast.inbox_claim(
  worker text, lease_ms integer, claim_number bigint, finished bigint[], most integer, worker_holds jsonb,
  ${LINES}, line_rows integer[], aged boolean, lag_ms integer, ask boolean,
  ${HEAD},
  ${TAKEN.map(([name, { pgType }]) => `OUT ${name} ${pgType}`).join(', ')}
) RETURNS SETOF record LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  queue holdfast.queues;
  lease timestamptz := now() + lease_ms * interval '1 millisecond';
  until timestamptz;
  limited text[];
  places tid[];
BEGIN
  SELECT f.epoch INTO epoch FROM holdfast.fleet AS f WHERE f.one;
  SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox' AND NOT q.paused AND q.ordering = 'none';
  seen_until := now() - lag_ms * interval '1 millisecond';
  clock := extract(epoch FROM now()) * 1000;
  until := CASE WHEN aged THEN now() - queue.age_after ELSE now() END;
  IF queue.limits_version > 0 AND worker_holds IS DISTINCT FROM 'false' THEN
    SELECT array_agg(coalesce(l.type, '')) INTO limited FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND (l.concurrency IS NOT NULL OR l.rate_limit IS NOT NULL)
      AND (l.type IS NULL OR l.type = ANY (types));
  END IF;
  merges := limited IS NOT NULL OR queue.paused_keys IS NOT NULL;
  IF queue.name IS NULL THEN
    ready_jobs := 0;
  ELSE
    SELECT m.* INTO places, ready_jobs, seen, cut_line, cut_at, cut_position, refused
    FROM holdfast.inbox_merge(worker, worker_holds, most, types, versions, priorities, after_times, after_positions,
      line_rows, until, aged, limited, queue.paused_types, queue.paused_keys) AS m;
  END IF;
  IF cardinality(places) > 0 THEN
    -- By the row of the claim others find what this worker holds. A later claim deletes it, when all its jobs have left.
    RETURN QUERY
    WITH claimed AS (
      UPDATE holdfast.inbox AS i SET ${takeBy('worker', 'lease')}, isolated = false
      WHERE i.ctid = ANY (places)
      RETURNING ${RETURN_TAKEN}
    ), recorded AS (
      INSERT INTO holdfast.inbox_claims (worker_id, number, jobs)
      SELECT worker, claim_number, array_agg(c.id) FROM claimed AS c
    )
    SELECT ${NO_HEAD}, ${TAKEN.map(([name, { pgType }]) => `c.${name}::${pgType}`).join(', ')} FROM claimed AS c;
  END IF;
  IF finished <> '{}' THEN
    DELETE FROM holdfast.inbox_claims AS f WHERE f.worker_id = worker AND f.number = ANY (finished);
  END IF;
  IF ask THEN
    SELECT d.due_in_ms, d.suspects, d.maintained_ms, d.recount INTO due_in_ms, suspects, maintained_ms, recount
    FROM holdfast.inbox_due(types, versions, now()) AS d;
  END IF;
  RETURN NEXT;
END
$fn$;
`,
};
