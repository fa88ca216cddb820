/**
 * The registry of workers: who is alive, draining or dead, by heartbeat. An id belongs to one incarnation of one process.
 * Once it is dead it stays dead, and a process that wakes up again registers under a new id. So others may take a dead
 * worker's jobs at once, without waiting for their leases.
 */
import { hash32 } from '../job/key.js';
import type { Ordering } from '../job/order.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int8, json, statement, text } from '../postgres/statement.js';

/** By queue and type, the newest payload version that a worker handles. */
export type Handles = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** By queue and type, the versions of each workflow for which a worker has a body. */
export type Bodies = Readonly<Record<string, Readonly<Record<string, readonly number[]>>>>;

export interface Registration {
  readonly id: string;
  readonly lockKey: number;
  readonly handles: Handles;
  /** Left out or null: it has none. */
  readonly bodies?: Bodies | null;
  readonly metadata: object;
}

/** The number by which a worker's advisory locks and its notification channel are named. */
export function lockKeyOf(workerId: string): number {
  return hash32(workerId) | 0;
}

export const registerWorker = statement({
  name: 'register_worker',
  text: `
INSERT INTO holdfast.workers (id, status, last_seen_at, started_at, lock_key, handles, metadata, workflows)
VALUES ($1::text, 'alive', now(), now(), $2::integer, $3::text::jsonb,
  -- The doctor compares the rights of this role.
  $4::text::jsonb || jsonb_build_object('databaseRole', current_user), $5::text::jsonb)
-- The same worker again, after an answer that got lost.
ON CONFLICT (id) DO UPDATE SET last_seen_at = now(), started_at = now()
RETURNING id`,
  columns: { id: text },
});

export async function register(db: Executor, names: Names, worker: Registration): Promise<void> {
  const { id, lockKey, handles, bodies = null, metadata } = worker;
  const facts = [handles, metadata, bodies].map((one) => one && JSON.stringify(one));
  await db.run(registerWorker, names, [id, lockKey, ...facts]);
}

export const drainWorker = statement({
  name: 'drain_worker',
  text: `
UPDATE holdfast.workers AS w SET status = 'draining', last_seen_at = now()
WHERE w.id = $1::text AND w.status = 'alive'
RETURNING w.id`,
  columns: { id: text },
});

export async function markDraining(db: Executor, names: Names, id: string): Promise<void> {
  await db.run(drainWorker, names, [id]);
}

export const leaveWorker = statement({
  name: 'leave_worker',
  text: `
INSERT INTO holdfast.workers AS w (id, status, left_at, released_all)
VALUES ($1::text, 'dead', now(), $2::boolean)
-- It is there, but for a worker that stops while it registers: a registration that comes later finds it dead.
ON CONFLICT (id) DO UPDATE
SET status = 'dead', last_seen_at = now(), left_at = now(), released_all = $2::boolean
RETURNING w.id`,
  columns: { id: text },
});

/** `releasedAll`: it holds nothing any more. Otherwise others may take over at once what it held. */
export async function leave(db: Executor, names: Names, id: string, releasedAll: boolean) {
  await db.run(leaveWorker, names, [id, releasedAll]);
}

export interface Member {
  readonly id: string;
  readonly handles: Handles;
}

export interface FleetView {
  readonly epoch: number;
  /** Those that are alive: the members of the ring. */
  readonly members: readonly Member[];
  /** Those that died within the hour and may have left jobs behind: others recover them. */
  readonly dead: readonly string[];
}

export const viewFleet = statement({
  name: 'view_fleet',
  text: `
SELECT f.epoch, w.id, w.status, w.handles
FROM holdfast.fleet AS f
LEFT JOIN LATERAL (
  SELECT v.id, v.status, v.handles
  FROM holdfast.workers AS v
  -- What works by the protocol in SQL takes no part in the ring, and hears no hints that others could leave to it.
  WHERE v.status = 'alive' AND (v.metadata ? 'sqlProtocol') IS NOT TRUE
  UNION ALL
  (SELECT v.id, v.status, v.handles
   FROM holdfast.workers AS v
   WHERE v.status = 'dead' AND v.last_seen_at > now() - interval '1 hour' AND NOT v.released_all
   ORDER BY v.last_seen_at DESC
   LIMIT 50)
) AS w ON true`,
  columns: { epoch: int8, id: text.orNull, status: text.orNull, handles: json.orNull },
});

/** The fleet as one snapshot: the epoch and the members belong together. */
export async function fleetView(db: Executor, names: Names): Promise<FleetView> {
  const rows = await db.run(viewFleet, names, []);
  const members: Member[] = [];
  const dead: string[] = [];
  for (const { id, status, handles } of rows) {
    if (id === null) continue;
    if (status === 'alive') members.push({ id, handles: JSON.parse(handles ?? '{}') });
    else dead.push(id);
  }
  // A heartbeat moves a row within its table; the same fleet must make the same picture.
  members.sort((a, b) => (a.id < b.id ? -1 : 1));
  return { epoch: rows[0]?.epoch ?? 0, members, dead };
}

/** Which types of a queue are limited. */
export interface LimitedTypes {
  readonly version: number;
  readonly types: readonly string[];
  /** The queue itself has a limit, which holds for all of its types together. */
  readonly whole: boolean;
  /** Those whose rate has keys. */
  readonly keyed: readonly string[];
  /** One of the limits is of concurrency: workers say how many jobs they hold. */
  readonly permits: boolean;
}

export interface QueueSettings {
  readonly name: string;
  readonly ordering: Ordering;
  /** What else decides which jobs may be claimed now; another text: read again. */
  readonly limits: string;
  readonly limited: LimitedTypes;
}

export const listQueueSettings = statement({
  name: 'list_queue_settings',
  text: `
SELECT q.name, q.ordering::text AS ordering, concat_ws(' ', q.per_key, '/', q.per_group, q.fair, q.weights) AS limits,
  q.limits_version AS version, coalesce(jsonb_agg(l.type ORDER BY l.type) FILTER (WHERE l.type IS NOT NULL), '[]') AS types,
  count(*) FILTER (WHERE l.id IS NOT NULL AND l.type IS NULL) > 0 AS whole,
  count(l.concurrency) > 0 AS permits,
  coalesce(jsonb_agg(l.type) FILTER (WHERE l.keyed AND l.rate_limit IS NOT NULL), '[]') AS keyed
FROM holdfast.queues AS q
LEFT JOIN holdfast.limits AS l
  ON l.queue = q.name AND (l.concurrency IS NOT NULL OR l.rate_limit IS NOT NULL)
GROUP BY q.name
ORDER BY q.name`,
  columns: {
    ...{ name: text, ordering: text, limits: text, version: int8, types: json, whole: bool },
    ...{ permits: bool, keyed: json },
  },
});

/** How each queue is read. */
export async function queueSettings(db: Executor, names: Names): Promise<QueueSettings[]> {
  const rows = await db.run(listQueueSettings, names, []);
  return rows.map(({ name, ordering, limits, version, types, whole, permits, keyed }) => ({
    ...{ name, ordering: ordering as Ordering, limits },
    limited: { version, types: JSON.parse(types), keyed: JSON.parse(keyed), whole, permits },
  }));
}
