/** What live workers report of themselves: leaked handlers, refused outcomes, recent attempts. A silent one says nothing of now. */
import { isSilent, type WorkerRow } from './workers.js';

/** Empty of one that is gone or silent. */
export function leakedIn(worker: WorkerRow) {
  const { id } = worker;
  return entriesOf(said(worker).leaked).flatMap(([queue, types]) =>
    entriesOf(types).flatMap(([type, handlers]) =>
      typeof handlers === 'number' && handlers > 0 ? [{ worker: id, queue, type, handlers }] : [],
    ),
  );
}

/** `why`: what the database said. */
export function keptIn(worker: WorkerRow) {
  const { id } = worker;
  return entriesOf(said(worker).kept).flatMap(([queue, one]) => {
    const { jobs, why } = (one ?? {}) as { jobs?: unknown; why?: unknown };
    return typeof jobs === 'number' && jobs > 0
      ? [{ worker: id, queue, jobs, why: String(why) }]
      : [];
  });
}

/** What the database refused it lately for want of a right: what it said, and what was tried. */
export function deniedIn(worker: WorkerRow) {
  const { denied } = said(worker);
  return (Array.isArray(denied) ? denied : []).flatMap((one: { said?: unknown; what?: unknown }) =>
    typeof one?.said === 'string' ? [{ said: one.said, what: String(one.what) }] : [],
  );
}

type Said = { readonly leaked?: unknown; readonly kept?: unknown; readonly denied?: unknown };

function said(worker: WorkerRow): Said {
  if (worker.status === 'dead' || isSilent(worker)) return {};
  const { load } = (worker.metadata ?? {}) as { load?: Said };
  return load ?? {};
}

const entriesOf = (value: unknown): [string, unknown][] =>
  typeof value === 'object' && value !== null ? Object.entries(value) : [];

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
