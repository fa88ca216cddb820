/** Jobs, queues and workers as a program gets them: times are Dates, a status is one of a few words. */
import type { Explanation as RawExplanation } from '../../inspect/explain/explain.js';
import {
  type Busy,
  busyOf,
  holdsLock,
  stateOf,
  type WorkerRow,
  type WorkerState,
} from '../../inspect/fleet/workers.js';
import type { ArchivedJob } from '../../inspect/job/archive.js';
import type { DeadLetterGroupRow } from '../../inspect/job/failures.js';
import type { ListedJob } from '../../inspect/job/list.js';
import type { ShownJob } from '../../inspect/job/show.js';
import {
  type LockedQueue,
  lockedFigures,
  type QueueFigures,
  queueFigures,
  type WorkerOverview,
  whyLocked,
} from '../../inspect/queue/overview.js';
import type { JobState } from '../../job/states.js';

/** The same with Dates in place of ISO texts. */
export type Dated<Row, Times extends keyof Row> = Omit<Row, Times> & {
  readonly [Name in Times]: Date | Extract<Row[Name], null>;
};

export function dated<Row extends object, Times extends keyof Row>(
  row: Row,
  times: readonly Times[],
): Dated<Row, Times> {
  const dates = times.map((name) => {
    const at = row[name] as string | number | null;
    return [name, at === null ? null : new Date(at)];
  });
  return { ...row, ...Object.fromEntries(dates) };
}

export interface HistoryEntry {
  readonly attempt: number;
  readonly at: Date;
  /** Null of `cancelled` and `replayed`. */
  readonly worker: string | null;
  readonly outcome: 'failed' | 'dead_letter' | 'snoozed' | 'vanished' | 'cancelled' | 'replayed';
  /** Of `failed` and `dead_letter`: one line. */
  readonly error?: string;
  /** Of `vanished`: whether it cost the job an attempt. */
  readonly spent?: boolean;
  /** Of `vanished`: most of the fleet vanished too, and the job is not suspected for it. */
  readonly together?: boolean;
  /** Of `replayed`: how the job had ended before. */
  readonly was?: 'completed' | 'cancelled' | 'discarded';
  /** Of `cancelled`, which is written only of a job that waited for its time: when it was due. */
  readonly due?: Date;
  /** Of `snoozed`: how often in a row. */
  readonly times?: number;
  /** Of the last entry of a dead letter: its onDeadLetter job, or why that could not be written. */
  readonly told?: {
    readonly queue: string;
    readonly type: string;
    readonly id?: string;
    readonly error?: string;
  };
}

const SHOWN = ['claimedAt', 'leaseExpiresAt', 'runAt', 'createdAt', 'completedAt'] as const;

/** All that is known of a job, but for what its payload and its result say. */
export type JobFacts = Dated<
  Omit<ShownJob, 'status' | 'headers' | 'history' | 'payload' | 'result'>,
  (typeof SHOWN)[number]
> & {
  readonly status: JobState;
  readonly headers: Readonly<Record<string, string>>;
  /** The last 20 things that happened to it and did not complete it, the oldest first. */
  readonly history: readonly HistoryEntry[];
};

export interface Job extends JobFacts {
  readonly payload: unknown;
  /** What its handler returned; null: nothing, or it is not completed. */
  readonly result: unknown;
}

/** A discarded dead letter keeps its status in the archive; it is called by what was done to it. */
const jobState = ({ archived, status }: ShownJob) =>
  (archived && status === 'dead_letter' ? 'discarded' : status) as JobState;

type StoredEntry = Omit<HistoryEntry, 'at' | 'due'> & {
  readonly at: string;
  readonly due?: string;
};

const historyOf = (stored: unknown): HistoryEntry[] =>
  ((stored ?? []) as StoredEntry[]).map(({ due, ...entry }) => ({
    ...entry,
    at: new Date(entry.at),
    ...(due !== undefined && { due: new Date(due) }),
  }));

function jobFacts(row: ShownJob): JobFacts {
  const { payload, result, ...rest } = row;
  return {
    ...dated(rest, SHOWN),
    status: jobState(row),
    headers: (row.headers ?? {}) as Record<string, string>,
    history: historyOf(row.history),
  };
}

export const jobView = (row: ShownJob): Job => ({
  ...jobFacts(row),
  payload: row.payload,
  result: row.result,
});

export type Explanation = Omit<RawExplanation, 'job'> & { readonly job: JobFacts | null };

export const explanationView = (answer: RawExplanation): Explanation => ({
  ...answer,
  job: answer.job && jobFacts(answer.job),
});

const LISTED = ['createdAt', 'runAt', 'leaseExpiresAt', 'diedAt'] as const;

/** A job in a list. */
export type JobSummary = Dated<Omit<ListedJob, 'status'>, (typeof LISTED)[number]> & {
  readonly status: JobState;
  readonly queue: string;
  /** Null while it is in the queue. */
  readonly completedAt: Date | null;
};

export const listedView = (queue: string, row: ListedJob): JobSummary => ({
  ...dated(row, LISTED),
  ...{ queue, status: row.status as JobState, completedAt: null },
});

export const archivedView = (queue: string, { claimedAt: _, ...row }: ArchivedJob): JobSummary => ({
  ...dated(row, ['createdAt', 'completedAt']),
  ...{ queue, status: row.status as JobState, runAt: null, leaseExpiresAt: null, diedAt: null },
});

export type ReadableQueue = Dated<QueueFigures, 'oldestDue' | 'maintainedAt' | 'createdAt'> & {
  readonly unreadable: null;
};

/** A queue that somebody has locked: its settings are known, and nothing of its jobs. */
export type UnreadableQueue = Dated<
  Readonly<ReturnType<typeof lockedFigures>>,
  'maintainedAt' | 'createdAt'
> & {
  /** Who holds the lock, and how to end it. */
  readonly unreadable: string;
};

export type QueueInfo = ReadableQueue | UnreadableQueue;

export const queueView = (row: Parameters<typeof queueFigures>[0]): ReadableQueue => ({
  ...dated(queueFigures(row), ['oldestDue', 'maintainedAt', 'createdAt']),
  unreadable: null,
});

export const lockedView = (row: LockedQueue): UnreadableQueue => ({
  ...dated(lockedFigures(row), ['maintainedAt', 'createdAt']),
  unreadable: whyLocked(row),
});

export type WorkerInfo = Dated<
  Omit<WorkerRow, 'status' | 'handles' | 'metadata'> & Pick<WorkerOverview, 'oldestClaim'>,
  'lastSeenAt' | 'startedAt' | 'leftAt' | 'oldestClaim'
> & {
  /** Jobs of all queues. Null: somebody has locked a queue, so it is not known; `expired` and `oldestClaim` likewise. */
  readonly held: number | null;
  /** So many of them are beyond their lease. */
  readonly expired: number | null;
  readonly status: 'alive' | 'draining' | 'dead';
  /** The same, with `left` and `vanished` in place of `dead`, and `silent` when no heartbeat came for its TTL. */
  readonly state: WorkerState;
  /** Null: it is gone or silent, or does not say. */
  readonly busy: Busy | null;
  /** By queue and type, the newest payload version that it handles. */
  readonly handles: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly metadata: Readonly<Record<string, unknown>>;
};

/** `complete`: no queue was locked, so it is known what it holds. */
export const workerView = (
  { worker, held, expired, oldestClaim }: WorkerOverview,
  complete: boolean,
): WorkerInfo => ({
  ...dated(worker, ['leftAt', 'lastSeenAt', 'startedAt']),
  ...dated({ oldestClaim: complete ? oldestClaim : null }, ['oldestClaim']),
  ...(complete ? { held, expired } : { held: null, expired: null }),
  status: worker.status as WorkerInfo['status'],
  ...{ holdsLivenessLock: holdsLock(worker), state: stateOf(worker), busy: busyOf(worker) },
  handles: (worker.handles ?? {}) as WorkerInfo['handles'],
  metadata: (worker.metadata ?? {}) as WorkerInfo['metadata'],
});

export type DeadLetterGroup = Dated<DeadLetterGroupRow, 'oldest' | 'newest'>;

export const groupView = (row: DeadLetterGroupRow): DeadLetterGroup =>
  dated(row, ['oldest', 'newest']);
