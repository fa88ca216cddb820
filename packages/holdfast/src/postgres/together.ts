/**
 * Which workers vanished together with most of the fleet: a machine that went down, or somebody who killed everything. A
 * job runs in one process, so it cannot be the cause of that. A worker stands if a session holds its liveness lock, or if
 * it holds none and is only known by its heartbeats. Those who came after the deaths are no witnesses. A worker that is
 * alone is its whole fleet, so nothing can be said for the jobs that it held.
 */
import { hash32 } from '../job/key.js';

/** The space of the advisory locks by which workers of a schema show that they are there. */
export function livenessSpace(schema: string): number {
  return hash32(`holdfast.liveness.${schema}`) | 0;
}

/** In the metadata of a worker that vanished with most of the fleet. A heartbeat takes it away again. */
export const TOGETHER_FLAG = 'vanishedTogether';

/**
 * Two lists: `roll`, all workers that are not declared dead, and `together`, those of them that are gone, with most of
 * the fleet. They are empty, and cost nothing, unless `asked` holds. `space` is the parameter of the locks' space.
 */
export const whoIsGone = (space: string, asked: string) => `roll AS MATERIALIZED (
  SELECT w.id, w.started_at, w.last_seen_at, NOT w.holds_liveness_lock OR w.lock_key::oid IN (
    SELECT l.objid FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.classid = ${space}::oid AND l.objsubid = 2 AND l.mode = 'ShareLock'
      AND l.granted AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
  ) AS stands
  FROM holdfast.workers AS w
  WHERE w.status <> 'dead' AND ${asked}
), together AS MATERIALIZED (
  SELECT gone.id FROM roll AS gone
  WHERE NOT gone.stands AND (SELECT count(*) FROM roll AS g WHERE NOT g.stands) > greatest(1, (
    SELECT count(*) FROM roll AS s WHERE s.stands AND s.started_at <= gone.last_seen_at))
)`;
