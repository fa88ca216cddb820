/**
 * The registry of workers: who is alive, draining or dead, by heartbeat.
 *
 * An id belongs to one incarnation of one process. Once it is dead it stays dead: a heartbeat does not
 * revive it, and the process that wakes up again must register under a new id. That is what allows
 * others to take a dead worker's jobs at once, without waiting for their leases.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, text } from '../postgres/statement.js';

export const registerWorker = statement({
  name: 'register_worker',
  text: `
INSERT INTO holdfast.workers (id, status, last_seen_at, started_at, metadata)
VALUES ($1::text, 'alive', now(), now(), $2::text::jsonb)
-- The same worker again, after an answer that got lost.
ON CONFLICT (id) DO UPDATE SET last_seen_at = now()
RETURNING id`,
  columns: { id: text },
});

export async function register(db: Executor, names: Names, id: string, metadata: object) {
  await db.run(registerWorker, names, [id, JSON.stringify(metadata)]);
}

export const heartbeatWorker = statement({
  name: 'heartbeat',
  text: `
UPDATE holdfast.workers AS w
SET last_seen_at = now(), metadata = $2::text::jsonb
WHERE w.id = $1::text AND w.status <> 'dead'
RETURNING w.status`,
  columns: { status: text },
});

/** False: this worker was declared dead while it was away. */
export async function heartbeat(
  db: Executor,
  names: Names,
  id: string,
  metadata: object,
): Promise<boolean> {
  const rows = await db.run(heartbeatWorker, names, [id, JSON.stringify(metadata)]);
  return rows.length === 1;
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
UPDATE holdfast.workers AS w
SET status = 'dead', last_seen_at = now(), empty_handed = $2::boolean
WHERE w.id = $1::text
RETURNING w.id`,
  columns: { id: text },
});

/** `emptyHanded`: it holds nothing any more. Otherwise others may take over at once what it held. */
export async function leave(
  db: Executor,
  names: Names,
  id: string,
  emptyHanded: boolean,
): Promise<void> {
  await db.run(leaveWorker, names, [id, emptyHanded]);
}

export const listDead = statement({
  name: 'list_dead_workers',
  text: `
SELECT w.id
FROM holdfast.workers AS w
WHERE w.status = 'dead'
  AND w.last_seen_at > now() - interval '1 hour'
  AND NOT w.empty_handed
ORDER BY w.last_seen_at DESC
LIMIT 50`,
  columns: { id: text },
});

/** Workers that died lately with jobs in hand: those are claimable whatever their leases say. */
export async function deadWorkers(db: Executor, names: Names): Promise<string[]> {
  const rows = await db.run(listDead, names, []);
  return rows.map((row) => row.id);
}
