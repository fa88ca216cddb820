/** Projections as they are: how far behind each build is, in events and in time, and which keys of it have stopped. */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  bool,
  int4,
  int8,
  type Row,
  statement,
  text,
  timestamp,
} from '../../postgres/statement.js';

export const projectionLags = statement({
  name: 'projection_lags',
  text: `
-- Up to 100 unread events of a shard are counted; of more it is estimated from the positions how many there are.
SELECT p.id, p.name, p.version, p.state, p.auto, p.stream, p.tables, p.shards::integer, p.created_at, p.promoted_at,
  sum(CASE WHEN w.unread <= 100 THEN w.unread
    ELSE greatest(w.unread, (q.top - greatest(c.at_position, c.read_top)) / p.shards) END)::bigint AS events,
  coalesce(max(extract(epoch FROM clock_timestamp() - w.oldest)) * 1000, 0)::bigint AS lag_ms,
  sum(c.applied)::bigint AS applied,
  (SELECT count(*) FROM holdfast.projection_stops AS s WHERE s.projection_id = p.id) AS stopped,
  (SELECT count(*) FROM holdfast.projection_parked AS k WHERE k.projection_id = p.id) AS parked,
  -- By what its workers go by: the identifier of the cluster, where both can be read, and a cursor ahead of the counter.
  bool_or(pg_snapshot_xmax(coalesce(c.until_snapshot, c.read_snapshot)) > pg_snapshot_xmax(pg_current_snapshot()))
    OR coalesce(p.cluster <> h.cluster, false) AS refused
FROM (SELECT holdfast.cluster_id() AS cluster) AS h, holdfast.projections AS p
JOIN holdfast.projection_cursors AS c ON c.projection_id = p.id,
  coalesce(pg_sequence_last_value('holdfast.event_log_position_seq'::regclass), 0) AS q(top),
  LATERAL (
    SELECT count(e.event_position) AS unread, min(e.event_written_at) AS oldest
    FROM holdfast.event_page(p.stream, c.first_slice, c.last_slice, c.read_snapshot, c.read_mark, c.read_top,
      NULL, NULL, c.at_position, 101) AS e) AS w
WHERE $1::text IS NULL OR p.name = $1::text
GROUP BY p.id, h.cluster ORDER BY p.name, p.id`,
  columns: {
    ...{ id: int8, name: text, version: int4, state: text, auto: bool, stream: text },
    ...{ tables: text.orNull, shards: int4, created_at: timestamp, promoted_at: timestamp.orNull },
    ...{ events: int8, lag_ms: int8, applied: int8, stopped: int8, parked: int8, refused: bool },
  },
});

/** A build of a projection, and how far behind it is. */
export interface ProjectionGauges {
  readonly id: number;
  readonly name: string;
  readonly version: number;
  /** `building`, `live` or `old`. */
  readonly state: string;
  /** It goes live by itself. */
  readonly auto: boolean;
  /** Its event log. */
  readonly stream: string;
  /** The schema of its tables; null: they are the user's own. */
  readonly tables: string | null;
  readonly shards: number;
  readonly createdAt: string;
  /** When it went live; null: not yet. */
  readonly promotedAt: string | null;
  /** Not read yet. */
  readonly events: number;
  /** How long ago the oldest of these was written. */
  readonly lagMs: number;
  readonly applied: number;
  /** Keys that a poison event has stopped. */
  readonly stopped: number;
  /** Events that wait behind those. */
  readonly parked: number;
  /** Its cursors were taken in another cluster, so nobody works on it. */
  readonly refused: boolean;
}

/** Of all projections, or of one. */
export const lagOf = (
  db: Executor,
  names: Names,
  name: string | null,
): Promise<ProjectionGauges[]> => db.run(projectionLags, names, [name]);

export const listStops = statement({
  name: 'list_projection_stops',
  text: `
SELECT s.projection_id, p.name, p.version, p.state, s.key, s.position, s.event_id::text, s.type, s.error, s.since, s.resume, s.skip,
  (SELECT count(*) FROM holdfast.projection_parked AS k
    WHERE k.projection_id = s.projection_id AND k.key = s.key) AS parked
FROM holdfast.projection_stops AS s JOIN holdfast.projections AS p ON p.id = s.projection_id
WHERE $1::text IS NULL OR p.name = $1::text
ORDER BY s.since, s.projection_id, s.key LIMIT $2::integer`,
  columns: {
    ...{ projection_id: int8, name: text, version: int4, state: text, key: text, position: int8 },
    ...{ event_id: text, type: text, error: text, since: timestamp, resume: bool, skip: bool },
    parked: int8,
  },
});

export type ProjectionStop = Row<typeof listStops.columns>;

/** The keys that have stopped for longest first. */
export const listStopped = (
  db: Executor,
  names: Names,
  name: string | null,
  most: number,
): Promise<ProjectionStop[]> => db.run(listStops, names, [name, most]);
