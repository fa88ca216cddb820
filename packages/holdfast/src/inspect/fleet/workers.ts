import { bool, int8, text } from '../../postgres/statement.js';
import { type Answer, asks } from '../reading/asks.js';
import { instant, moment, parsed } from '../reading/columns.js';

/** Those that live or drain; the dead of the last week as well if asked for. */
export const listWorkers = asks({
  name: 'list_workers',
  text: `
SELECT w.id, w.status, w.last_seen_at, w.started_at,
  (extract(epoch FROM clock_timestamp() - w.last_seen_at) * 1000)::bigint AS silent_ms,
  -- Of a dead one, until it left or was last seen.
  (extract(epoch FROM CASE WHEN w.status = 'dead' THEN coalesce(w.left_at, w.last_seen_at)
    ELSE clock_timestamp() END - w.started_at) * 1000)::bigint AS up_ms,
  w.left_at, w.holds_liveness_lock, w.released_all, w.handles, w.workflows, w.metadata
FROM holdfast.workers AS w
WHERE w.status <> 'dead' OR $1::boolean
ORDER BY w.status, w.started_at, w.id
LIMIT 10000`,
  columns: {
    id: text,
    status: text,
    last_seen_at: moment,
    started_at: moment,
    silent_ms: int8,
    up_ms: int8,
    /** When it stopped by itself; null: it lives, or it vanished. */
    left_at: instant,
    holds_liveness_lock: bool,
    released_all: bool,
    handles: parsed,
    workflows: parsed,
    metadata: parsed,
  },
  params: ({ withDead = false }: { withDead?: boolean } = {}) => [withDead],
});

export type WorkerRow = Answer<typeof listWorkers>;

/** A fact that the worker says of itself, as text; null if it says nothing of the kind. */
export function saysOf({ metadata }: WorkerRow, fact: string): string | null {
  const value = (metadata as Record<string, unknown> | null)?.[fact];
  return ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : null;
}

/** The newest version of the type's payloads that the worker handles on this queue, or null. */
export function handlesVersion(worker: WorkerRow, queue: string, type: string): number | null {
  const queues = worker.handles as Record<string, Record<string, number>> | null;
  return queues?.[queue]?.[type] ?? null;
}

/** Of a workflow, the versions for which the worker has a body; null: it has none, or the type is a job. */
export function bodiesIn(worker: WorkerRow, queue: string, type: string): readonly number[] | null {
  const queues = worker.workflows as Record<string, Record<string, number[]>> | null;
  return queues?.[queue]?.[type] ?? null;
}

/** It takes jobs of this version: of a job any up to its own, of a workflow those for which it has a body. */
export function takes(
  worker: WorkerRow,
  queue: string,
  { type, version }: { readonly type: string; readonly version: number },
): boolean {
  const bodies = bodiesIn(worker, queue, type);
  if (bodies) return bodies.includes(version);
  return (handlesVersion(worker, queue, type) ?? 0) >= version;
}

/** By type, the newest version of its payloads that is handled. */
export type Versions = Readonly<Record<string, number>>;

/** What one or another of the workers handles on this queue. */
export function versionsOf(workers: readonly WorkerRow[], queue: string): Versions {
  const versions: Record<string, number> = {};
  for (const worker of workers) {
    const queues = worker.handles as Record<string, Versions> | null;
    for (const [type, version] of Object.entries(queues?.[queue] ?? {}))
      versions[type] = Math.max(version, versions[type] ?? 0);
  }
  return versions;
}

/** A number that the worker says of itself; null if it says nothing of the kind. */
export function numberOf(worker: WorkerRow, fact: string): number | null {
  const value = (worker.metadata as Record<string, unknown> | null)?.[fact];
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

export interface Load {
  readonly running: number;
  /** Jobs that it held, without those that it had lost. */
  readonly held: number;
}

/** What the worker said with its last heartbeat, over all of its queues; what it holds now, the queue knows. */
export function loadOf(worker: WorkerRow): Load | null {
  const { load } = (worker.metadata ?? {}) as { load?: Partial<Load> | null };
  if (typeof load?.running !== 'number' || typeof load.held !== 'number') return null;
  return { running: load.running, held: load.held };
}

/** The default time to live of a worker, for those that do not say theirs. */
const TTL_MS = 30_000;

/** After so long without a heartbeat it counts as dead. */
export const ttlOf = (worker: WorkerRow): number => numberOf(worker, 'ttlMs') ?? TTL_MS;

/** No heartbeat for its time to live, and not declared dead: after the end of a whole fleet nobody is left to do that. */
export const isSilent = (worker: WorkerRow): boolean =>
  worker.status !== 'dead' && worker.silentMs > ttlOf(worker);

export const isLive = (worker: WorkerRow): boolean =>
  worker.status === 'alive' && !isSilent(worker);

/** What it is; of a dead one, whether it stopped by itself or was found to be gone. */
export type WorkerState = 'alive' | 'draining' | 'silent' | 'left' | 'vanished';

export function stateOf(worker: WorkerRow): WorkerState {
  if (worker.status === 'dead') return worker.leftAt === null ? 'vanished' : 'left';
  return isSilent(worker) ? 'silent' : (worker.status as WorkerState);
}

/** As far as anybody knows: who was killed with its whole fleet leaves no one to write down that the lock is free. */
export const holdsLock = (worker: WorkerRow): boolean =>
  worker.holdsLivenessLock && !isSilent(worker);
