/** What live workers report of themselves: leaked handlers, refused outcomes, recent attempts and starts. A silent one says nothing of now. */
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

type Said = Readonly<Partial<Record<'leaked' | 'kept' | 'queues' | 'denied', unknown>>>;

const loadIn = (worker: WorkerRow): Said =>
  ((worker.metadata ?? {}) as { load?: Said | null }).load ?? {};

const said = (worker: WorkerRow): Said =>
  worker.status === 'dead' || isSilent(worker) ? {} : loadIn(worker);

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

/** One queue of a worker, by its last heartbeat. */
export interface QueueLoad {
  readonly running: number;
  /** Jobs of it that it held, without those that it had lost. */
  readonly held: number;
  readonly handlers: number;
  /** For so long all handlers have been busy, and none has begun another job; null: it is not so. */
  readonly fullMs: number | null;
}

/** Null: it is gone or silent, does not serve the queue, or is of a version that does not say. */
export function queueLoadOf(worker: WorkerRow, queue: string): QueueLoad | null {
  const { running, held, handlers, fullMs } = ((said(worker).queues as Said | undefined)?.[
    queue as keyof Said
  ] ?? {}) as Partial<QueueLoad>;
  if (typeof running !== 'number' || typeof handlers !== 'number') return null;
  // It has lasted since the heartbeat too, as far as anybody knows.
  return {
    running,
    held: typeof held === 'number' ? held : running,
    handlers,
    fullMs: typeof fullMs === 'number' ? fullMs + worker.silentMs : null,
  };
}

/** Stands for all types that a heartbeat does not name. */
const OTHERS = '*';

/** Of each type of the queue, how long ago an attempt last began, as far as workers say. Also what the dead began counts. */
export function startsIn(workers: readonly WorkerRow[], queue: string): Map<string, number> {
  const last = new Map<string, number>();
  for (const worker of workers) {
    const own = entriesOf(loadIn(worker).queues).find(([name]) => name === queue)?.[1];
    for (const [type, one] of entriesOf((own as { started?: unknown } | undefined)?.started)) {
      const [, agoMs] = Array.isArray(one) ? (one as unknown[]) : [];
      if (typeof agoMs !== 'number') continue;
      const ms = agoMs + worker.silentMs;
      last.set(type, Math.min(ms, last.get(type) ?? ms));
    }
  }
  return last;
}

/** Null: nothing of the type is known to have started. */
export function startedAgoMs(starts: ReadonlyMap<string, number>, type: string): number | null {
  const [own, others] = [starts.get(type), starts.get(OTHERS)];
  return own ?? others ?? null;
}

/** How much of a worker is in use. */
export interface Busy {
  /** Handlers that ran when it last sent a heartbeat. */
  readonly running: number;
  /** How many may run at once, over all its queues. */
  readonly handlers: number;
  /** The same of each of its queues; empty: it does not say. */
  readonly queues: Readonly<
    Record<
      string,
      {
        /** Handlers of the queue that ran then. */
        readonly running: number;
        /** How many of the queue may run at once. */
        readonly handlers: number;
      }
    >
  >;
}

/** Null: it is gone or silent, or does not say. */
export function busyOf(worker: WorkerRow): Busy | null {
  const facts = worker.metadata as { concurrency?: unknown; load?: { running?: unknown } } | null;
  const [running, concurrency] = [facts?.load?.running, facts?.concurrency];
  if (typeof running !== 'number' || typeof concurrency !== 'number') return null;
  if (worker.status === 'dead' || isSilent(worker) || concurrency < 1) return null;
  const names = Object.keys((worker.handles ?? {}) as object);
  const own = names.flatMap((queue) => {
    const load = queueLoadOf(worker, queue);
    return load ? [[queue, { running: load.running, handlers: load.handlers }] as const] : [];
  });
  const handlers =
    own.length === names.length && own.length > 0
      ? own.reduce((sum, [, one]) => sum + one.handlers, 0)
      : concurrency * Math.max(1, names.length);
  return { running, handlers, queues: Object.fromEntries(own) };
}
