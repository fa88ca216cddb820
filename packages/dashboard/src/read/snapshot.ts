/** What every open page shows, in one reading: what `holdfast top` asks, so that the terminal and the browser agree. */
import type { ReadableQueue, UnreadableQueue, WorkerInfo } from 'holdfast';
import type {
  Overview,
  PartialOverview,
  QueueOverview,
  Stopped,
  UnhandledJobs,
} from 'holdfast/internal';
import {
  lockedView,
  queueView,
  recentAttempts,
  saysOf,
  ttlOf,
  workerView,
} from 'holdfast/internal';
import { type Problem, problemsOf } from './problems.js';

const MAX_WORKERS = 200;

export type Figures = readonly [
  inPerSecond: number,
  outPerSecond: number,
  pending: number,
  running: number,
  dead: number,
  lagMs: number,
  latencyMs: number,
  failedPerSecond: number,
];

export interface Sample {
  readonly at: number;
  readonly queues: Readonly<Record<string, Figures>>;
}

export interface SeenWorker extends Omit<WorkerInfo, 'metadata'> {
  /** Of the application, as it says in `metadata`, or else of Holdfast. */
  readonly version: string | null;
  readonly host: string | null;
  readonly pid: string | null;
  readonly ttlMs: number;
}

export interface Snapshot {
  readonly at: number;
  readonly queues: readonly ReadableQueue[];
  /** Somebody has locked them. */
  readonly unreadable: readonly UnreadableQueue[];
  readonly workers: readonly SeenWorker[];
  readonly moreWorkers: number;
  /** Of all that live, shown or not. */
  readonly fleet: { readonly alive: number; readonly running: number; readonly handlers: number };
  readonly problems: readonly Problem[];
}

export function seenWorker(row: Overview['workers'][number], complete: boolean): SeenWorker {
  const { metadata, ...worker } = workerView(row, complete);
  const says = (fact: string) => saysOf(row.worker, fact);
  const own = says('holdfast');
  const version = says('version') ?? (own && `holdfast ${own}`);
  const facts = { version, host: says('host'), pid: says('pid') };
  return { ...worker, ...facts, ttlMs: ttlOf(row.worker) };
}

export function snapshotOf(
  seen: PartialOverview,
  unhandled: readonly UnhandledJobs[],
  stopped: readonly Stopped[] = [],
): Snapshot {
  const stoppedMs = (name: string) => {
    const own = stopped.filter(({ queue }) => queue === name).map(({ dueMs }) => dueMs);
    return own.length === 0 ? null : Math.max(...own);
  };
  const queues = seen.queues.map((row) => ({
    ...queueView(row),
    stoppedMs: stoppedMs(row.queue.name),
  }));
  const unreadable = seen.locked.map(lockedView);
  const complete = unreadable.length === 0;
  const all = seen.workers.map((row) => seenWorker(row, complete));
  const alive = all.filter(({ status }) => status === 'alive');
  const busy = alive.flatMap((worker) => worker.busy ?? []);
  const sum = (of: 'running' | 'handlers') => busy.reduce((total, one) => total + one[of], 0);
  return {
    at: Date.parse(seen.queues[0]?.counts.size.at ?? new Date().toISOString()),
    queues,
    unreadable,
    workers: all.slice(0, MAX_WORKERS),
    moreWorkers: Math.max(0, all.length - MAX_WORKERS),
    fleet: { alive: alive.length, running: sum('running'), handlers: sum('handlers') },
    problems: problemsOf([...unreadable, ...queues], all, unhandled, stopped),
  };
}

/** `before` is missing of a queue that is new: its rates are those of the next sample. */
function figures(
  now: QueueOverview,
  before: QueueOverview | undefined,
  failedPerSecond: number,
): Figures {
  const { pending, processing, deadLetter, oldestDue, startLatencyMs, size } = now.counts;
  const earlier = before?.counts.size;
  const seconds = earlier ? (Date.parse(size.at) - Date.parse(earlier.at)) / 1000 : 0;
  // A server that restarted counts from zero.
  const perSecond = (a: number, b: number) =>
    seconds > 0 ? Math.round((Math.max(0, b - a) / seconds) * 10) / 10 : 0;
  return [
    perSecond(earlier?.enqueued ?? 0, size.enqueued),
    perSecond(earlier?.finished ?? 0, size.finished),
    pending,
    processing,
    deadLetter,
    oldestDue === null ? 0 : Math.max(0, Date.parse(size.at) - Date.parse(oldestDue)),
    startLatencyMs ?? 0,
    Math.round(failedPerSecond * 100) / 100,
  ];
}

export function sampleOf(now: Overview, before: Overview, at: number): Sample {
  const attempts = recentAttempts(now.workers.map(({ worker }) => worker));
  const earlier = (name: string) => before.queues.find(({ queue }) => queue.name === name);
  const entries = now.queues.map((row) => {
    const { name } = row.queue;
    return [name, figures(row, earlier(name), attempts.get(name)?.failedPerSecond ?? 0)];
  });
  return { at, queues: Object.fromEntries(entries) };
}
