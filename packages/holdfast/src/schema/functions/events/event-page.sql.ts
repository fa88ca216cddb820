/** The next page of a shard: which events it has not read, in their order. */
import type { FunctionFile } from '../../function-file.js';

export const eventPage: FunctionFile = {
  name: 'event-page',
  of: 'schema',
  text: `
-- The events of some slices of a log that \`until\` sees and \`seen\` does not, by position, behind \`after\`. Always at least
-- one row: it says which snapshot \`until\` is, where that is NULL the one of this statement, and to which position it reads.
--
-- Nothing is skipped: what \`seen\` does not see is of a transaction that was running then, whose xid it lists, or of one
-- with a later xid; whether that has a low position does not matter. Nobody is waited for. Each part reads a range of an index:
-- (1) transactions that ran under \`seen\`, one by one; (2) those between it and \`mark\`, which may have started before it;
-- (3) those behind \`mark\`, whose positions are behind \`top\`. Only (3) may be long, and only its page is read.
CREATE OR REPLACE FUNCTION holdfast.event_page(log text, first_slice integer, last_slice integer, seen pg_snapshot,
  mark xid8, top bigint, until pg_snapshot, until_top bigint, after bigint, most integer)
RETURNS TABLE (window_until pg_snapshot, window_top bigint, event_position bigint, event_slice smallint, event_id uuid,
  event_key text, event_type text, event_version integer, event_data jsonb, event_headers jsonb,
  event_occurred_at timestamptz, event_written_at timestamptz)
  LANGUAGE plpgsql STABLE
  -- So that a plan never depends on statistics.
  SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
  SET plan_cache_mode = force_generic_plan SET jit = off AS $fn$
BEGIN
  RETURN QUERY
  WITH w AS MATERIALIZED (
    SELECT coalesce(until, pg_current_snapshot()) AS snap,
      -- Not last_value of the relation: a plain read may see the value that nextval() writes to the log ahead of itself.
      coalesce(until_top, pg_sequence_last_value('holdfast.event_log_position_seq'::regclass), 0) AS upto
  )
  SELECT w.snap, w.upto, e.position, e.slice, e.id, e.key, e.type, e.version, e.data, e.headers, e.occurred_at,
    e.written_at
  FROM w LEFT JOIN LATERAL (
    (SELECT r.* FROM pg_snapshot_xip(seen) AS x(xid), LATERAL (
      SELECT l.* FROM holdfast.event_log AS l
      -- The additions keep (1) and (2) off the primary key, which the planner may take for the shorter way.
      WHERE l.xid = x.xid AND l.position > after AND l.stream || '' = log
        AND l.slice + 0 BETWEEN first_slice AND last_slice AND pg_visible_in_snapshot(l.xid, w.snap)
      ORDER BY l.position LIMIT most) AS r)
    UNION ALL
    (SELECT l.* FROM holdfast.event_log AS l
      WHERE l.xid >= pg_snapshot_xmax(seen) AND l.xid <= mark AND l.position > after AND l.stream || '' = log
        AND l.slice + 0 BETWEEN first_slice AND last_slice AND pg_visible_in_snapshot(l.xid, w.snap)
      ORDER BY l.position LIMIT most)
    UNION ALL
    (SELECT r.* FROM generate_series(first_slice, last_slice) AS s(slice), LATERAL (
      SELECT l.* FROM holdfast.event_log AS l
      WHERE l.stream = log AND l.slice = s.slice AND l.position > greatest(top, after) AND l.position <= w.upto
        AND l.xid > mark AND l.xid >= pg_snapshot_xmax(seen) AND pg_visible_in_snapshot(l.xid, w.snap)
      ORDER BY l.position LIMIT most) AS r)
    ORDER BY position LIMIT most
  ) AS e ON true
  ORDER BY e.position;
END
$fn$;
`,
};
