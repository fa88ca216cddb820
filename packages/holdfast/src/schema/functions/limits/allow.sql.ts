/**
 * The allowance: which of the jobs that a claim has found may start under the limits of their types and of the queue.
 * It is the only place that counts permits and tokens.
 *
 * The row of a limit is its mutex. A claim locks the limits of the jobs that it has found, and no others; a limit that
 * somebody else has locked gives nothing for now, so nobody waits. Each statement of this function has a snapshot of its
 * own, so the counts are newer than the locks, and the locks last until the claim has committed.
 *
 * Permits (concurrency): each worker has a row for each limit that says how many jobs it holds. Claims raise it, and the
 * worker lowers it when jobs have left, so it is never too low. Rows of dead workers do not count. A worker without a row
 * has not counted yet, or is of version 0.1: its claims are counted instead.
 *
 * Tokens (rate): GCRA, one time for each key of the rate. A row remembers the pace at which it was written, so a changed
 * rate rewrites nothing.
 */
import type { FunctionFile } from '../../function-file.js';

/**
 * When the next token is due by the pace of now, never in the past. `r` is the row of the rate. What was to be waited for
 * when the limit was changed is waited for at the pace of now.
 */
export const TAT = (
  pace: string,
  changed: string,
) => `greatest(moment, ${changed} + least(315360000,
      date_part('epoch', r.started_tat - ${changed}) * ${pace} / coalesce(r.pace, ${pace}))
      * interval '1 second')`;

/** How many tokens are left. Rounded down, but for what a time of microseconds cannot hold. */
export const TOKENS = (burst: string, tat: string, pace: string) =>
  `greatest(0, floor(${burst} + 1e-6::double precision - date_part('epoch', ${tat} - moment) / ${pace}))`;

export const allow: FunctionFile = {
  name: 'allow',
  of: 'queue',
  text: `
-- How many jobs under a limit the live workers hold, but for one of them. of_type is NULL for the limit of the queue.
CREATE OR REPLACE FUNCTION holdfast.inbox_held(of_limit integer, of_type text, but_for text) RETURNS bigint
  LANGUAGE sql STABLE AS $fn$
  SELECT coalesce(sum(coalesce(p.held, (
    SELECT count(*)
    FROM (
      SELECT DISTINCT j.id FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs) AS j(id)
      WHERE c.worker_id = w.id
    ) AS h
    CROSS JOIN LATERAL (
      SELECT i.type FROM holdfast.inbox AS i WHERE i.id = h.id AND i.status = 'processing' LIMIT 1
    ) AS r
    WHERE of_type IS NULL OR r.type = of_type))), 0)::bigint
  FROM holdfast.workers AS w
  LEFT JOIN holdfast.permits AS p ON p.limit_id = of_limit AND p.worker_id = w.id
  WHERE w.status <> 'dead' AND w.id IS DISTINCT FROM but_for
    AND (p.held IS NOT NULL OR of_type IS NULL AND w.handles ? 'inbox' OR w.handles -> 'inbox' ? of_type)
$fn$;

-- One row for each job, with its place in the order (nth). ok: it may start; its row is locked and what it needs is paid. Otherwise again_ms says when there
-- may be a token (NULL: it waits for a permit), and whole that the same holds for every job of its type. worker_holds:
-- by type, and under '' in all, how many jobs of this queue the worker holds; NULL: it does not know.
CREATE OR REPLACE FUNCTION holdfast.inbox_allow(
  worker text, worker_holds jsonb, places tid[], types text[], keys text[],
  OUT nth bigint, OUT place tid, OUT type text, OUT ok boolean, OUT again_ms bigint, OUT whole boolean
) RETURNS SETOF record LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  mine integer[];
  moment timestamptz;
BEGIN
  SELECT coalesce(array_agg(l.id), '{}') INTO mine FROM (
    SELECT l.id FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = ANY (types))
    ORDER BY l.id FOR UPDATE SKIP LOCKED
  ) AS l;
  moment := clock_timestamp();
  RETURN QUERY
  WITH limits AS MATERIALIZED (
    SELECT l.id, l.type, l.keyed, l.concurrency, l.rate_burst, l.updated_at, l.id = ANY (mine) AS locked,
      date_part('epoch', l.rate_per) / l.rate_limit AS pace,
      CASE WHEN NOT l.id = ANY (mine) THEN 0 WHEN l.concurrency IS NULL THEN 2147483647
        ELSE l.concurrency - coalesce((worker_holds ->> coalesce(l.type, ''))::integer, 0)
          - holdfast.inbox_held(l.id, l.type, CASE WHEN worker_holds IS NOT NULL THEN worker END) END AS room
    FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = ANY (types))
  ), jobs AS MATERIALIZED (
    SELECT j.*, t.tat, CASE WHEN j.rate IS NULL THEN 2147483647 ELSE ${TOKENS('j.rate_burst', 't.tat', 'j.pace')} END AS tokens
    FROM (
      SELECT u.place, u.type, u.nth, o.id AS own, coalesce(o.room, 2147483647) AS own_room,
        q.id AS of_queue, coalesce(q.room, 2147483647) AS queue_room, coalesce(o.locked, true) AND coalesce(q.locked, true) AS locked,
        -- A job has one rate: that of its type, or else that of its queue.
        r.id AS rate, r.pace, r.rate_burst, r.updated_at, r.keyed, CASE WHEN r.keyed THEN coalesce(u.key, '') ELSE '' END AS key
      FROM unnest(places, types, keys) WITH ORDINALITY AS u(place, type, key, nth)
      LEFT JOIN limits AS o ON o.type = u.type
      LEFT JOIN limits AS q ON q.type IS NULL
      LEFT JOIN limits AS r ON r.id = CASE WHEN o.pace IS NOT NULL THEN o.id WHEN q.pace IS NOT NULL THEN q.id END
    ) AS j
    LEFT JOIN LATERAL (
      SELECT coalesce(max(${TAT('j.pace', 'j.updated_at')}), moment) AS tat
      FROM holdfast.rates AS r WHERE r.limit_id = j.rate AND r.key = j.key
    ) AS t ON true
  ), locked AS MATERIALIZED (
    SELECT c.*, i.ctid IS NOT NULL AS ok
    FROM (
      SELECT o.*, o.in_rate <= o.tokens AND o.in_own <= o.own_room AS fits,
        count(*) FILTER (WHERE o.in_rate <= o.tokens AND o.in_own <= o.own_room) OVER (ORDER BY o.nth) AS in_queue
      FROM (
        SELECT r.*, count(*) FILTER (WHERE r.in_rate <= r.tokens) OVER (PARTITION BY r.own ORDER BY r.nth) AS in_own
        FROM (SELECT j.*, row_number() OVER (PARTITION BY j.rate, j.key ORDER BY j.nth) AS in_rate FROM jobs AS j) AS r
      ) AS o
    ) AS c
    LEFT JOIN LATERAL (
      SELECT i.ctid FROM holdfast.inbox AS i
      WHERE i.ctid = c.place AND (i.status = 'pending' OR i.status = 'processing' AND i.lease_expires_at <= now())
        AND c.fits AND c.in_queue <= c.queue_room
      FOR UPDATE SKIP LOCKED
    ) AS i ON true
  ), paid AS (
    INSERT INTO holdfast.rates AS r (limit_id, key, started_tat, slot_tat, pace)
    SELECT l.rate, l.key, max(l.tat) + count(*) * max(l.pace) * interval '1 second', moment, max(l.pace)
    FROM locked AS l WHERE l.ok AND l.rate IS NOT NULL GROUP BY l.rate, l.key
    ON CONFLICT (limit_id, key) DO UPDATE SET started_tat = excluded.started_tat, pace = excluded.pace
  ), held AS (
    INSERT INTO holdfast.permits AS p (limit_id, worker_id, held)
    SELECT l.id, worker, coalesce((worker_holds ->> coalesce(l.type, ''))::integer, 0)
      + (SELECT count(*) FROM locked AS k WHERE k.ok AND (l.type IS NULL OR k.type = l.type))
    FROM limits AS l WHERE l.locked AND l.concurrency IS NOT NULL AND worker_holds IS NOT NULL
    ON CONFLICT (limit_id, worker_id) DO UPDATE SET held = excluded.held WHERE p.held <> excluded.held
  )
  SELECT l.nth, l.place, l.type, l.ok, CASE WHEN l.ok THEN NULL WHEN NOT l.locked THEN 5
      WHEN l.in_rate > l.tokens THEN ceil((date_part('epoch', l.tat - moment)
        + (l.tokens - (l.rate_burst - 1)) * l.pace) * 1000)::bigint END,
    -- Somebody else has just taken it, or only its key has no token: others of its type may start.
    NOT l.ok AND NOT (l.fits AND l.in_queue <= l.queue_room) AND NOT (l.locked AND l.keyed IS TRUE AND l.in_rate > l.tokens)
  FROM locked AS l;
END
$fn$;
`,
};
