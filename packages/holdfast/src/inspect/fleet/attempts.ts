/**
 * How the attempts of about the last minute ended, by queue, from what live workers report with their heartbeats.
 * Nothing is asked of the database for it but the list of workers. A worker that is silent says nothing of now.
 */
import type { WorkerRow } from './workers.js';

const SILENT_MS = 30_000;

export interface RecentAttempts {
  readonly failed: number;
  readonly completed: number;
  readonly failedPerSecond: number;
}

interface Reported {
  readonly ms: number;
  readonly queues: Readonly<Record<string, { failed: number; completed: number }>>;
}

/** A queue without any attempt is left out. */
export function recentAttempts(
  workers: readonly WorkerRow[],
  silentMs = SILENT_MS,
): ReadonlyMap<string, RecentAttempts> {
  const sums = new Map<string, RecentAttempts>();
  for (const worker of workers) {
    const recent = worker.silentMs <= silentMs && reportedBy(worker);
    if (!recent) continue;
    for (const [queue, { failed, completed }] of Object.entries(recent.queues)) {
      const before = sums.get(queue) ?? { failed: 0, completed: 0, failedPerSecond: 0 };
      sums.set(queue, {
        failed: before.failed + failed,
        completed: before.completed + completed,
        failedPerSecond: before.failedPerSecond + (failed * 1000) / recent.ms,
      });
    }
  }
  return sums;
}

/** Null: it is gone, or says nothing of the kind. */
function reportedBy({ status, metadata }: WorkerRow): Reported | null {
  const { load } = (metadata ?? {}) as { load?: { recent?: Partial<Reported> | null } | null };
  const { ms, queues } = load?.recent ?? {};
  if (status === 'dead' || typeof ms !== 'number' || ms <= 0) return null;
  if (typeof queues !== 'object' || queues === null) return null;
  const known = Object.entries(queues).filter(
    ([, one]) => Number.isSafeInteger(one?.failed) && Number.isSafeInteger(one?.completed),
  );
  return { ms, queues: Object.fromEntries(known) };
}
