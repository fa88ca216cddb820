/**
 * The registry as an operator sees it: who is there, since when, when it was last seen, what it handles
 * and what it says of itself. What each holds comes from the counts of the queues.
 */
import type { Executor } from '../postgres/queryable.js';
import { bool, int8, type Row, statement, text } from '../postgres/statement.js';
import { moment, parsed } from './columns.js';

export const listWorkerRows = statement({
  name: 'list_workers',
  text: `
SELECT w.id, w.status, w.last_seen_at, w.started_at,
  (extract(epoch FROM clock_timestamp() - w.last_seen_at) * 1000)::bigint AS silent_ms,
  (extract(epoch FROM clock_timestamp() - w.started_at) * 1000)::bigint AS up_ms,
  w.holds_liveness_lock, w.released_all, w.handles, w.metadata
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
    holds_liveness_lock: bool,
    released_all: bool,
    handles: parsed,
    metadata: parsed,
  },
});

export type WorkerRow = Row<typeof listWorkerRows.columns>;

/** Those that live or drain; the dead of the last week as well if asked for. */
export function listWorkers(
  db: Executor,
  schema: string,
  options: { withDead?: boolean } = {},
): Promise<WorkerRow[]> {
  return db.run(listWorkerRows, { schema, queue: 'inbox' }, [options.withDead ?? false]);
}

/** A fact that the worker says of itself, as text; null if it says nothing of the kind. */
export function saysOf(worker: WorkerRow, fact: string): string | null {
  const value = (worker.metadata as Record<string, unknown> | null)?.[fact];
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : null;
}

/** The newest version of the type's payloads that the worker handles on this queue, or null. */
export function handlesVersion(worker: WorkerRow, queue: string, type: string): number | null {
  const queues = worker.handles as Record<string, Record<string, number>> | null;
  return queues?.[queue]?.[type] ?? null;
}
