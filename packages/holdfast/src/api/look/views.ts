/** Jobs, queues and workers as a program gets them: times are Dates, a status is one of a few words. */

import type { Explanation as RawExplanation } from '../../inspect/explain/explain.js';
import { type Busy, busyOf } from '../../inspect/fleet/reports.js';
import {
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
  type Figures,
  type LockedQueue,
  lockedFigures,
  type QueueFigures,
  queueFigures,
  type Setting,
  type WorkerOverview,
  whyLocked,
} from '../../inspect/queue/overview.js';
import type { QueueName } from '../../job/queue-name.js';
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

/** One thing that happened to a job and did not complete it. */
export interface HistoryEntry {
  readonly attempt: number;
  readonly at: Date;
  /** The worker that ran it; null for `cancelled` and `replayed`. */
  readonly worker: string | null;
  readonly outcome: 'failed' | 'dead_letter' | 'snoozed' | 'vanished' | 'cancelled' | 'replayed';
  /** With `failed` and `dead_letter`: the error in one line. */
  readonly error?: string;
  /** With `vanished`: whether it cost the job an attempt. */
  readonly spent?: boolean;
  /** With `vanished`: most of the fleet vanished too, so the job is not suspected. */
  readonly together?: boolean;
  /** With `replayed`: how the job had ended before. */
  readonly was?: 'completed' | 'cancelled' | 'discarded';
  /** With `cancelled`: when the job was due. It was waiting for its time. */
  readonly due?: Date;
  /** With `snoozed`: how often in a row. */
  readonly times?: number;
  /** On the last entry of a dead letter: its onDeadLetter job, or why that could not be written. */
  readonly told?: {
    readonly queue: QueueName;
    readonly type: string;
    /** The job that was written. */
    readonly id?: string;
    /** Why none was written. */
    readonly error?: string;
  };
}

const SHOWN = ['claimedAt', 'leaseExpiresAt', 'runAt', 'createdAt', 'completedAt'] as const;

/** All that is known of a job, except its payload and its result. */
export type JobFacts = Dated<
  Omit<ShownJob, 'status' | 'headers' | 'history' | 'payload' | 'result'>,
  (typeof SHOWN)[number]
> & {
  readonly status: JobState;
  readonly headers: Readonly<Record<string, string>>;
  // The fields from here to `lastError` are known already: an editor shows their comments.
  /** The hash of the partition key, 0 to 1023. */
  readonly partitionBucket: number;
  /** How its queue is read; null in the archive. */
  readonly ordering: string | null;
  /** A dead letter that does not hold its key. */
  readonly parked: boolean;
  /** Its place among the jobs of its key; null: its queue has no order. */
  readonly position: number | null;
  /** Rises with every claim. */
  readonly leaseGeneration: number;
  /** How many workers vanished while they ran it. */
  readonly crashes: number;
  /** It runs apart from others, because workers vanished with it. */
  readonly isolated: boolean;
  /** The worker that holds or ended it; null: none. */
  readonly claimedBy: string | null;
  /** Null: it was never claimed, or waits again. */
  readonly claimedAt: Date | null;
  /** Null: nobody holds it. */
  readonly leaseExpiresAt: Date | null;
  /** When it is or was due; null in the archive. */
  readonly runAt: Date | null;
  /** When it left the queue; null: it has not. */
  readonly completedAt: Date | null;
  /** Null: it has none. */
  readonly idempotencyKey: string | null;
  /** Null: it belongs to no group. */
  readonly groupKey: string | null;
  /** Name and message in the first line; null: nothing went wrong. */
  readonly lastError: string | null;
  /** The last 20 things that happened to it and did not complete it, the oldest first. */
  readonly history: readonly HistoryEntry[];
};

/** A job in all detail, from `hf.job(id)`. */
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

/** Why a job does not run: `code` to branch on, `text` to read, `fix` to do. */
export interface Explanation extends RawExplanation<JobFacts> {}

export const explanationView = (answer: RawExplanation): Explanation => ({
  ...answer,
  job: answer.job && jobFacts(answer.job),
});

const LISTED = ['createdAt', 'runAt', 'leaseExpiresAt', 'diedAt'] as const;

/** A job in a list, from `hf.jobs()`. */
export type JobSummary = Dated<Omit<ListedJob, 'status'>, (typeof LISTED)[number]> & {
  readonly status: JobState;
  readonly queue: QueueName;
  /** Null while it is in the queue. */
  readonly completedAt: Date | null;
  /** When it is or was due; null in the archive. */
  readonly runAt: Date | null;
  /** Null: nobody holds it. */
  readonly leaseExpiresAt: Date | null;
  /** When it became a dead letter; null: it is none. */
  readonly diedAt: Date | null;
  /** The worker that holds or ended it; null: none. */
  readonly claimedBy: string | null;
  /** The first 500 characters; null: nothing went wrong. */
  readonly lastError: string | null;
};

export const listedView = (queue: string, row: ListedJob): JobSummary => ({
  ...dated(row, LISTED),
  ...{ queue, status: row.status as JobState, completedAt: null },
});

export const archivedView = (queue: string, { claimedAt: _, ...row }: ArchivedJob): JobSummary => ({
  ...dated(row, ['createdAt', 'completedAt']),
  ...{ queue, status: row.status as JobState, runAt: null, leaseExpiresAt: null, diedAt: null },
});

/** A queue whose tables could be read. */
export interface ReadableQueue extends QueueFigures<Date> {
  /** Null: it could be read. */
  readonly unreadable: null;
}

/** A queue that somebody has locked: its settings are known, its figures are null. */
export interface UnreadableQueue extends Setting<Date>, Readonly<Record<keyof Figures, null>> {
  /** Who holds the lock, and how to end it. */
  readonly unreadable: string;
}

/** A queue with its settings and figures, from `hf.queues()`. */
export type QueueInfo = ReadableQueue | UnreadableQueue;

export const queueView = (row: Parameters<typeof queueFigures>[0]): ReadableQueue => ({
  ...dated(queueFigures(row), ['oldestDue', 'maintainedAt', 'createdAt']),
  unreadable: null,
});

export const lockedView = (row: LockedQueue): UnreadableQueue => ({
  ...dated(lockedFigures(row), ['maintainedAt', 'createdAt']),
  unreadable: whyLocked(row),
});

/** A worker and what it holds, from `hf.workers()`. */
export type WorkerInfo = Dated<
  Omit<WorkerRow, 'status' | 'handles' | 'workflows' | 'metadata'> &
    Pick<WorkerOverview, 'oldestClaim'>,
  'lastSeenAt' | 'startedAt' | 'leftAt' | 'oldestClaim'
> & {
  /** Jobs that it runs or has claimed; null: a queue is locked, so nobody knows. So are `expired` and `oldestClaim`. */
  readonly held: number | null;
  /** Those of them whose lease is over. */
  readonly expired: number | null;
  readonly status: 'alive' | 'draining' | 'dead';
  /** Since its last heartbeat. */
  readonly silentMs: number;
  /** Since its start. */
  readonly upMs: number;
  /** When it stopped by itself; null: it lives, or it vanished. */
  readonly leftAt: Date | null;
  /** When the job that it has held longest was claimed; null: it holds none. */
  readonly oldestClaim: Date | null;
  /** `status`, with `left` and `vanished` for `dead`, and `silent` after a TTL without a heartbeat. */
  readonly state: WorkerState;
  /** Null: it is gone, silent, or does not say. */
  readonly busy: Busy | null;
  /** By queue and type, the newest payload version that it handles. */
  readonly handles: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** By queue and type, the versions of each workflow for which it has a body. */
  readonly workflows: Readonly<Record<string, Readonly<Record<string, readonly number[]>>>>;
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
  workflows: (worker.workflows ?? {}) as WorkerInfo['workflows'],
  metadata: (worker.metadata ?? {}) as WorkerInfo['metadata'],
});

/** Dead letters of one type with the same error. */
export type DeadLetterGroup = Dated<DeadLetterGroupRow, 'oldest' | 'newest'> & {
  /** `#` replaces a number or an id. */
  readonly error: string;
  /** The first of its partition keys, of `keys` in all. */
  readonly key: string;
  /** When the first job of the group was enqueued. */
  readonly oldest: Date;
};

export const groupView = (row: DeadLetterGroupRow): DeadLetterGroup =>
  dated(row, ['oldest', 'newest']);
