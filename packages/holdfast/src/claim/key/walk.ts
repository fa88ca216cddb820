/**
 * The walk of a keyed claim: from key to key along the index, down to `kept`, the places of the rows that may be taken. They
 * are locked, and so is what stands behind each run (claim.ts).
 *
 * A job that has failed before, whose lease ran out, or whose type is limited comes alone: what follows would only be
 * released. A suspect (suspects.ts) holds its key, and so does one that is paused, or of a type that is not handled.
 */
import { runs } from '../../postgres/taken.js';
import { allowedOfKept, limited } from '../allowed.js';
import { HANDLED, NOT_PAUSED, openQueue } from '../take.js';

export const KEY_WALK = `
WITH RECURSIVE ${openQueue(`q.ordering IN ('key', 'key_strict')`)}, walk AS (
  -- One row per chunk: where it ended, and the places of what it would take and of what stands behind.
  SELECT 0 AS step, 1 AS stretch, ($9::integer[])[1] AS bucket, ($10::text[])[1] COLLATE "C" AS key,
    9223372036854775807 AS position, 0::bigint AS run, 0::bigint AS nth, 0 AS head, 32::bigint AS chunk,
    0::bigint AS seen, 0::bigint AS wanted,
    NULL::tid[] AS places, NULL::bigint[] AS runs, NULL::tid[] AS behind, NULL::bigint[] AS behind_runs,
    false AS cut_off, NULL::text[] AS due, $5::integer AS most
  WHERE EXISTS (SELECT FROM open_queue)
  UNION ALL
  SELECT w.step + 1,
    -- A chunk that came back short was the last of its stretch, unless it held more than is taken.
    CASE WHEN k.rows < w.chunk AND w.wanted + k.taken <= w.most THEN w.stretch + 1 ELSE w.stretch END,
    CASE WHEN k.rows < w.chunk THEN ($9::integer[])[w.stretch + 1] ELSE k.bucket END,
    CASE WHEN k.rows < w.chunk THEN ($10::text[])[w.stretch + 1] ELSE k.key END COLLATE "C",
    -- On from here while a run goes on, else with the next key.
    CASE WHEN k.rows = w.chunk AND k.goes_on THEN k.position ELSE 9223372036854775807 END,
    k.run, CASE WHEN k.goes_on THEN k.nth ELSE 0 END, k.head,
    -- The rest of a run and the row behind it, with more of it at a time where little of what was read is
    -- taken; little where lines are long and not much is taken of them; never more than what is still
    -- wanted, and one behind it.
    greatest(2, least(w.most - w.wanted - k.taken + 1,
      CASE WHEN k.goes_on AND (w.wanted + k.taken) * 2 > w.seen + k.rows
          THEN greatest(32, $13::integer - k.nth + 1)
        WHEN k.goes_on THEN greatest(32, least($13::integer - k.nth + 1, k.nth * 4))
        WHEN k.taken * 2 <= k.rows AND k.keys < greatest(2, k.rows / 5) THEN 2 ELSE 32 END)),
    w.seen + k.rows, w.wanted + k.taken,
    k.places[1 : w.most - w.wanted], k.runs[1 : w.most - w.wanted], k.behind, k.behind_runs,
    -- It ended with a job that it takes, and has not seen what stands behind that.
    k.goes_on AND k.rows = w.chunk AND w.wanted + k.taken <= w.most, k.due, w.most
  FROM walk AS w
  CROSS JOIN LATERAL (
    SELECT count(*) AS rows, count(*) FILTER (WHERE j.nth = 1) AS keys,
      count(*) FILTER (WHERE j.taken) AS taken,
      max(j.bucket) FILTER (WHERE j.last) AS bucket, max(j.key) FILTER (WHERE j.last) AS key,
      max(j.position) FILTER (WHERE j.last) AS position, max(j.run) FILTER (WHERE j.last) AS run,
      max(j.nth) FILTER (WHERE j.last) AS nth, max(j.head) FILTER (WHERE j.last) AS head,
      bool_or(j.taken) FILTER (WHERE j.last) AS goes_on,
      array_agg(j.due) FILTER (WHERE j.nth = 1 AND j.due IS NOT NULL) AS due,
      array_agg(j.place) FILTER (WHERE j.taken) AS places,
      array_agg(j.run) FILTER (WHERE j.taken) AS runs,
      -- A row that a live owner holds has no place here: no run of its key is taken.
      array_agg(CASE WHEN j.kind > 0 THEN j.place END) FILTER (WHERE j.behind) AS behind,
      array_agg(j.run) FILTER (WHERE j.behind) AS behind_runs
    FROM (
      SELECT n.*,
        n.head > 1 AND (n.nth = 1 OR n.head = 3 AND n.nth <= $13::integer AND n.position < n.gap)
          AS taken,
        n.head > 1 AND (n.kind = 0 OR n.kind > 1 AND n.nth = CASE WHEN n.head = 2 THEN 2
          WHEN n.position < n.gap THEN $13::integer + 1
          -- One that is to be run alone ends a run, and stands behind it.
          WHEN n.position = n.gap AND n.nth <= $13::integer + 1 THEN n.nth END) AS behind
      FROM (
        SELECT r.bucket, r.key, r.position, r.kind, r.place, r.due,
          CASE WHEN r.same THEN w.head ELSE first_value(r.kind) OVER q END AS head,
          CASE WHEN r.same THEN w.run ELSE w.seen + rank() OVER q END AS run,
          CASE WHEN r.same THEN w.nth ELSE 0 END + row_number() OVER q - rank() OVER q + 1 AS nth,
          coalesce(min(r.position) FILTER (WHERE r.kind < 3) OVER q, 9223372036854775807) AS gap,
          lead(true) OVER q IS NULL AS last
        FROM (
          SELECT i.ctid AS place, i.partition_bucket AS bucket, i.partition_key COLLATE "C" AS key,
            i.position, w.nth > 0 AND i.partition_key COLLATE "C" = w.key AS same,
            -- A head that is due soon: in how many milliseconds, and in which bucket.
            CASE WHEN i.status = 'pending' AND i.available_at > now()
              AND i.available_at < now() + $16::integer * interval '1 millisecond'
              THEN ceil(extract(epoch FROM i.available_at - now()) * 1000) || ':' || i.partition_bucket
            END AS due,
            -- 0: a live owner holds it. 1: it waits, or is not for us. 2: to be taken alone. 3: ready.
            CASE WHEN ${runs('i')} THEN 0
              WHEN i.crashes > 1 THEN 1
              WHEN ${HANDLED} AND ${NOT_PAUSED} THEN
                CASE WHEN i.status = 'processing' THEN 2
                  WHEN i.status <> 'pending' OR i.available_at > now() THEN 1
                  -- One that may well fail again: what follows it is not taken along.
                  WHEN i.crashes > 0 OR i.attempts > 0 OR ${limited('i.type')} THEN 2 ELSE 3 END
              ELSE 1 END AS kind
          FROM holdfast.inbox AS i
          WHERE NOT i.parked
            AND (i.partition_bucket, i.partition_key COLLATE "C", i.position)
              > (w.bucket, w.key, w.position)
            AND (i.partition_bucket, i.partition_key COLLATE "C")
              < (($11::integer[])[w.stretch], ($12::text[])[w.stretch])
          ORDER BY i.partition_bucket, i.partition_key COLLATE "C", i.position
          LIMIT w.chunk
        ) AS r
        WINDOW q AS (ORDER BY r.bucket, r.key RANGE BETWEEN CURRENT ROW AND CURRENT ROW)
      ) AS n
      OFFSET 0
    ) AS j
  ) AS k
  WHERE (w.wanted < w.most AND w.seen < $14::integer OR w.cut_off)
    AND w.stretch <= cardinality($9::integer[])
), kept AS MATERIALIZED (
  SELECT l.place, l.run
  FROM (
    SELECT l.place, p.run, p.taken, bool_and(coalesce(l.place = p.place, false)) OVER (PARTITION BY p.run) AS whole
    FROM (
      SELECT t.place, t.run, true AS taken
      FROM walk AS w CROSS JOIN LATERAL unnest(w.places, w.runs) AS t(place, run)
      UNION ALL
      SELECT b.place, b.run, false
      FROM walk AS w CROSS JOIN LATERAL unnest(w.behind, w.behind_runs) AS b(place, run)
      -- Runs are numbered as they come; those beyond the limit are nobody's business.
      WHERE b.run <= coalesce(w.runs[cardinality(w.runs)], b.run)
    ) AS p
    LEFT JOIN LATERAL (
      SELECT i.ctid AS place FROM holdfast.inbox AS i WHERE i.ctid = p.place FOR UPDATE SKIP LOCKED
    ) AS l ON true
  ) AS l
  WHERE l.whole AND l.taken
), ${allowedOfKept()}`;
