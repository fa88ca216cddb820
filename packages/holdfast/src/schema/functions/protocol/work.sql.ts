/**
 * A claim of a worker in another language. It asks what the source of a queue asks in TypeScript, without a memory of its own:
 * by time from the front of each line, by key from a bucket at random. Where a walk is cut short, the worker's row says
 * where the next one begins. Every walk is bounded.
 *
 * Whoever claims is expected to start at once what it got. So a job that crashed a worker before counts as started, and a
 * suspect that must run alone is given only to a worker that holds nothing else, and then nothing is given beside it.
 */
import { ALONE_FROM } from '../../../claim/suspects.js';
import type { FunctionFile } from '../../function-file.js';
import { verbName } from './verbatim.js';

/** While fewer have waited for so long, one busy worker takes nothing more until it holds nothing. */
const DRAINS = `interval '30 seconds'`;

export const holds: FunctionFile = {
  name: 'protocol-holds',
  of: 'queue',
  text: `
-- How many jobs of this queue a worker holds, whether one of them is to run alone, and its claims of which nothing is left.
CREATE OR REPLACE FUNCTION holdfast.inbox_worker_holds(the_worker text, OUT held bigint, OUT alone boolean, OUT finished bigint[])
  LANGUAGE plpgsql AS $fn$
BEGIN
  SELECT coalesce(sum(n.held), 0), coalesce(bool_or(n.alone), false), coalesce(array_agg(n.number) FILTER (WHERE n.held = 0), '{}')
  INTO held, alone, finished
  FROM (
    SELECT c.number, count(i.id) AS held, bool_or(i.isolated) AS alone
    FROM holdfast.inbox_claims AS c
    CROSS JOIN LATERAL unnest(c.jobs) AS j(id)
    -- One row for each, so it cannot be planned as a join that reads the whole queue.
    LEFT JOIN LATERAL (
      SELECT i.id, i.isolated FROM holdfast.inbox AS i
      WHERE i.id = j.id AND i.claimed_by = c.worker_id AND i.status = 'processing' LIMIT 1
    ) AS i ON true
    WHERE c.worker_id = the_worker
    GROUP BY c.number
  ) AS n;
END
$fn$;

-- Whether this worker is to take nothing until it holds nothing, because a job waits that must run alone: it has waited for
-- 30 s at most, no worker in TypeScript handles this queue, and of the others this one comes first.
CREATE OR REPLACE FUNCTION holdfast.inbox_worker_drains(the_worker text) RETURNS boolean LANGUAGE plpgsql AS $fn$
BEGIN
  RETURN EXISTS (SELECT FROM holdfast.inbox AS s
      WHERE s.crashes >= ${ALONE_FROM} AND s.crashes > 1 AND s.status = 'pending'
        AND greatest(s.available_at, (s.history -> -1 ->> 'at')::timestamptz) BETWEEN now() - ${DRAINS} AND now())
    AND the_worker = (
      SELECT min(w.id) FROM holdfast.workers AS w WHERE w.status = 'alive' AND w.handles ? 'inbox'
      HAVING bool_and((w.metadata ? 'sqlProtocol') IS TRUE));
END
$fn$;
`,
};

const TERMS = `the_worker text, the_lease_ms integer, the_finished bigint[], the_most integer, the_handled jsonb`;

export const workTime: FunctionFile = {
  name: 'protocol-work-time',
  of: 'queue',
  text: `
-- Takes the oldest due jobs, priority by priority, from the front of every line. A line that may go on behind what was read
-- of it is read on, with more rows each time. Returns their ids, in their order.
CREATE OR REPLACE FUNCTION holdfast.inbox_work_time(${TERMS}, is_aged boolean) RETURNS uuid[] LANGUAGE plpgsql AS $fn$
DECLARE
  jobs       uuid[] := '{}';
  types      text[];
  versions   integer[];
  priorities smallint[];
  ats        timestamptz[];
  positions  bigint[];
  line_rows  integer[];
  one        record;
BEGIN
  SELECT array_agg(t.key), array_agg(v.version), array_agg(p.priority::smallint), array_agg('-infinity'::timestamptz),
    array_agg(0), array_agg(the_most + 32)
  INTO types, versions, priorities, ats, positions, line_rows
  FROM jsonb_each_text(the_handled) AS t CROSS JOIN LATERAL generate_series(1, t.value::integer) AS v(version)
  CROSS JOIN generate_series(1, 4) AS p(priority);
  FOR step IN 1 .. 20 LOOP
    SELECT array_agg(c.id ORDER BY CASE WHEN is_aged THEN 0 ELSE coalesce(c.priority, 2) END, c.cursor_at, c.cursor_position)
        FILTER (WHERE c.id IS NOT NULL) AS ids,
      max(c.cut_line) AS line, max(c.cut_at) AS at, max(c.cut_position) AS place,
      coalesce((array_agg(c.refused) FILTER (WHERE c.refused IS NOT NULL))[1], '{}') AS refused
    INTO one
    FROM holdfast.inbox_claim(the_worker, the_lease_ms, nextval('holdfast.inbox_position_seq'), the_finished,
      the_most - cardinality(jobs), NULL, types, versions, priorities, ats, positions, line_rows, is_aged, 0, false) AS c;
    jobs := jobs || coalesce(one.ids, '{}');
    EXIT WHEN one.line IS NULL OR cardinality(jobs) >= the_most;
    the_finished := '{}';
    ats[one.line] := one.at;
    positions[one.line] := one.place;
    line_rows[one.line] := least(1000, 2 * line_rows[one.line]);
    -- No limit allows more of these now.
    ats := ARRAY(SELECT CASE WHEN one.refused ? l.type THEN 'infinity' ELSE l.at END
      FROM unnest(types, ats) WITH ORDINALITY AS l(type, at, nth) ORDER BY l.nth);
  END LOOP;
  RETURN jobs;
END
$fn$;

-- Takes jobs whose rate has keys: from key to key, behind those at which the last walk was cut short (place, by type).
CREATE OR REPLACE FUNCTION holdfast.inbox_work_rates(${TERMS}, INOUT place jsonb, OUT jobs uuid[]) LANGUAGE plpgsql AS $fn$
DECLARE
  one record;
BEGIN
  jobs := '{}';
  IF NOT EXISTS (SELECT FROM jsonb_object_keys(the_handled) AS t(type) CROSS JOIN LATERAL (
    SELECT FROM holdfast.inbox AS i WHERE i.type COLLATE "C" = t.type AND i.limit_key IS NOT NULL AND i.crashes < 2 LIMIT 1) AS i) THEN
    place := NULL;
    RETURN;
  END IF;
  place := (SELECT jsonb_object_agg(t.type, coalesce(place ->> t.type, '')) FROM jsonb_object_keys(the_handled) AS t(type));
  FOR step IN 1 .. 10 LOOP
    SELECT array_agg(c.id ORDER BY coalesce(c.priority, 2), c.cursor_at, c.cursor_position) FILTER (WHERE c.id IS NOT NULL) AS ids,
      (array_agg(c.walked) FILTER (WHERE c.walked IS NOT NULL))[1] AS walked
    INTO one
    FROM holdfast.${verbName('claim_rated')}(the_worker, the_lease_ms, nextval('holdfast.inbox_position_seq'), the_finished,
      the_most - cardinality(jobs), NULL, ARRAY(SELECT p.key FROM jsonb_each_text(place) AS p ORDER BY p.key),
      ARRAY(SELECT (the_handled ->> p.key)::integer FROM jsonb_each_text(place) AS p ORDER BY p.key),
      ARRAY(SELECT p.value FROM jsonb_each_text(place) AS p ORDER BY p.key), 1000) AS c;
    jobs := jobs || coalesce(one.ids, '{}');
    place := (SELECT jsonb_object_agg(w.key, w.value) FROM jsonb_each_text(one.walked) AS w WHERE w.value <> '');
    EXIT WHEN place IS NULL OR cardinality(jobs) >= the_most;
    the_finished := '{}';
  END LOOP;
END
$fn$;
`,
};

/** The rest of a walk, behind the place where a step of it stopped. */
const REST = `froms := array_prepend(one.bucket, froms[one.stretch + 1 :]);
    afters := array_prepend(one.behind, afters[one.stretch + 1 :]);
    untils := untils[one.stretch :];`;

/** All buckets, from that of the place or from one at random, and round. */
const ROUND = `start := coalesce((place ->> 0)::integer, floor(random() * 1024)::integer);
  froms := ARRAY[start, 0];
  afters := ARRAY[coalesce(place ->> 1, ''), ''];
  untils := ARRAY[1024, start];`;

export const workKeys: FunctionFile = {
  name: 'protocol-work-keys',
  of: 'queue',
  text: `
-- Takes the heads of keys, one job of each. place: where the last walk was cut short.
CREATE OR REPLACE FUNCTION holdfast.inbox_work_keys(${TERMS}, INOUT place jsonb, OUT jobs uuid[]) LANGUAGE plpgsql AS $fn$
DECLARE
  start     integer;
  froms     integer[];
  afters    text[];
  untils    integer[];
  until_keys text[];
  one       record;
BEGIN
  jobs := '{}';
  ${ROUND}
  -- Up to and with the key behind which it begins.
  until_keys := ARRAY['', coalesce(place ->> 1 || chr(1), '')];
  FOR step IN 1 .. 10 LOOP
    SELECT array_agg(c.id ORDER BY c.partition_bucket, c.partition_key COLLATE "C", c.cursor_position)
        FILTER (WHERE c.id IS NOT NULL) AS ids,
      max(c.stop_stretch) AS stretch, max(c.stop_bucket) AS bucket, max(c.stop_key) AS behind
    INTO one
    FROM holdfast.${verbName('claim_keyed')}(the_worker, the_lease_ms, nextval('holdfast.inbox_position_seq'), the_finished,
      the_most - cardinality(jobs), NULL, ARRAY(SELECT jsonb_object_keys(the_handled)), the_handled, froms, afters, untils,
      until_keys, 1, 1000, false, 0) AS c;
    jobs := jobs || coalesce(one.ids, '{}');
    IF one.behind IS NULL OR one.stretch > cardinality(froms) THEN
      place := NULL;
      RETURN;
    END IF;
    ${REST}
    until_keys := until_keys[one.stretch :];
    place := jsonb_build_array(one.bucket, one.behind);
    EXIT WHEN cardinality(jobs) >= the_most;
    the_finished := '{}';
  END LOOP;
  IF cardinality(jobs) >= the_most THEN
    place := NULL;
  END IF;
END
$fn$;

-- Takes jobs where keys take turns, and goes on behind the key that had the last turn.
CREATE OR REPLACE FUNCTION holdfast.inbox_work_turns(${TERMS}, INOUT place jsonb, OUT jobs uuid[]) LANGUAGE plpgsql AS $fn$
DECLARE
  start  integer;
  froms  integer[];
  afters text[];
  untils integer[];
  one    record;
BEGIN
  jobs := '{}';
  ${ROUND}
  FOR step IN 1 .. 10 LOOP
    SELECT array_agg(c.id ORDER BY c.turn, c.cursor_at, c.cursor_position) FILTER (WHERE c.id IS NOT NULL) AS ids,
      max(c.stop_stretch) AS stretch, max(c.stop_bucket) AS bucket, max(c.stop_key) AS behind
    INTO one
    FROM holdfast.${verbName('claim_turns')}(the_worker, the_lease_ms, nextval('holdfast.inbox_position_seq'), the_finished,
      the_most - cardinality(jobs), NULL, ARRAY(SELECT jsonb_object_keys(the_handled)), the_handled, froms, afters, untils,
      step = 1 AND place IS NULL, 0, 1000, false) AS c;
    jobs := jobs || coalesce(one.ids, '{}');
    IF one.behind IS NULL OR one.stretch > cardinality(froms) THEN
      place := NULL;
      RETURN;
    END IF;
    ${REST}
    place := jsonb_build_array(one.bucket, one.behind);
    EXIT WHEN cardinality(jobs) >= the_most;
    the_finished := '{}';
  END LOOP;
END
$fn$;
`,
};
