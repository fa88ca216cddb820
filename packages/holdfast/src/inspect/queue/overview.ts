/**
 * The whole system at a glance: every queue with its counts, and every worker. Rates are read from the archive, which costs
 * more than all the rest at a high rate, and only if asked for: whoever looks again and again takes the difference of two
 * sizes. A user who may not read all of it gets what it may read, with the grants that are missing for the rest.
 */
import type { QueueName } from '../../job/queue-name.js';
import type { Executor } from '../../postgres/queryable.js';
import type { Holding } from '../fleet/held.js';
import { listWorkers, type WorkerRow } from '../fleet/workers.js';
import { isLocked, type Part } from '../reading/reading.js';
import { type Rights, rightsOf } from '../reading/rights.js';
import { countByStatus, earliest, type QueueCounts, type Tally } from './counts.js';
import { type EmptyQueues, emptyQueues } from './empty.js';
import { listQueues, type QueueRow } from './queues.js';
import { NO_RATE, type Rate, rate } from './size.js';

export interface QueueOverview {
  readonly queue: QueueRow;
  readonly counts: QueueCounts;
  /** Null: it was not asked for. */
  readonly rate: Rate | null;
  /** See `Figures`; as long as nobody has looked it is null. */
  readonly stoppedMs: number | null;
}

export interface OverviewOptions {
  readonly queues?: readonly string[] | undefined;
  readonly withDead?: boolean;
  /** How fast jobs end as well. Default false. */
  readonly withRates?: boolean;
}

/** What is set on it: known also of a queue that is locked. */
export interface Setting<Time = string> {
  readonly queue: QueueName;
  readonly paused: boolean;
  readonly pausedTypes: readonly string[];
  readonly pausedKeys: readonly string[];
  /** `none`: read by time. `key`: in the order of a key; `key_strict`: dead letters hold it. `turns`: keys take turns. */
  readonly ordering: string;
  /** Jobs of a key at once; null: any number. */
  readonly perKey: number | null;
  /** Jobs of a group at once; null: any number. */
  readonly perGroup: number | null;
  readonly fair: boolean;
  /** By key, how many jobs it gets in a turn. */
  readonly weights: Readonly<Record<string, number>>;
  /** How long finished jobs are kept, in milliseconds; 0: not at all. */
  readonly archiveRetentionMs: number;
  /** Null: no bound. */
  readonly maxPending: number | null;
  /** When a worker last did maintenance here; null: never. */
  readonly maintainedAt: Time | null;
  readonly createdAt: Time;
}

/** Null in a queue that is locked. */
export interface Figures<Time = string> extends Tally<Time> {
  /** How long the oldest due job has been due; null: none is due. */
  readonly oldestDueMs: number | null;
  /** Due work does not start: how long the oldest job of it has been due. Null: work starts, or none is due. */
  readonly stoppedMs: number | null;
  /** Over the last minute at most; null: the queue keeps no archive, so nobody knows, or it was not asked for. */
  readonly completedPerSecond: number | null;
  /** The table and its indexes, in bytes. */
  readonly tableBytes: number;
  /** The archive, in bytes. */
  readonly archiveBytes: number;
}

/** One queue in figures, without the parts of which they were made. */
export interface QueueFigures<Time = string> extends Setting<Time>, Figures<Time> {}

function settingsOf(queue: QueueRow): Setting {
  return {
    queue: queue.name,
    paused: queue.paused,
    pausedTypes: queue.pausedTypes,
    pausedKeys: queue.pausedKeys,
    ordering: queue.ordering,
    perKey: queue.perKey,
    perGroup: queue.perGroup,
    fair: queue.fair,
    weights: queue.weights,
    archiveRetentionMs: queue.archiveRetentionMs,
    maxPending: queue.maxPending,
    maintainedAt: queue.maintainedAt,
    createdAt: queue.createdAt,
  };
}

function figuresOf({ counts, rate, stoppedMs }: QueueOverview): Figures {
  const { held, size, oldestDue, ...figures } = counts;
  return {
    ...figures,
    oldestDue,
    oldestDueMs: oldestDue === null ? null : Date.parse(size.at) - Date.parse(oldestDue),
    stoppedMs,
    completedPerSecond: rate?.completedPerSecond ?? null,
    tableBytes: size.tableBytes + size.indexBytes,
    archiveBytes: size.archiveBytes,
  };
}

export const queueFigures = (row: QueueOverview): QueueFigures => ({
  ...settingsOf(row.queue),
  ...figuresOf(row),
});

const UNKNOWN: Readonly<Record<keyof Figures, null>> = {
  ...{
    pending: null,
    scheduled: null,
    retrying: null,
    waitingRuns: null,
    processing: null,
    deadLetter: null,
  },
  ...{ onHold: null, stoppedMs: null },
  ...{ expired: null, oldestDue: null, oldestDueMs: null, startLatencyMs: null },
  ...{ oldestDueApproximate: null, approximate: null, deadLetterApproximate: null },
  ...{ completedPerSecond: null, tableBytes: null, archiveBytes: null },
};

/** The same of a queue that is locked: no figure is known. */
export const lockedFigures = ({ queue }: LockedQueue): Setting & typeof UNKNOWN => ({
  ...settingsOf(queue),
  ...UNKNOWN,
});

export interface WorkerOverview {
  readonly worker: WorkerRow;
  /** Over all queues. */
  readonly held: number;
  readonly expired: number;
  /** When the job that it has held longest was claimed; null: it holds none. */
  readonly oldestClaim: string | null;
}

export interface Overview {
  readonly queues: readonly QueueOverview[];
  readonly workers: readonly WorkerOverview[];
}

/** A queue that could not be read, because a table of it is locked. */
export interface LockedQueue {
  readonly queue: QueueRow;
  /** LOCKED, with who holds the lock. */
  readonly error: Error;
}

/** The error of a queue that was left out: something else was done. */
export const whyLocked = ({ error }: LockedQueue): string =>
  error.message.replace('. Nothing was done:', ':');

/** What could be read. What workers hold of the locked queues is not in it. */
export interface PartialOverview extends Overview {
  readonly locked: readonly LockedQueue[];
}

export async function queuesOverview(db: Executor, schema: string, options: OverviewOptions = {}) {
  const queues: QueueOverview[] = [];
  const rows = await listQueues(db, schema);
  const empty = await emptyQueues(db, schema, options.queues ?? rows);
  for (const queue of rows)
    if (options.queues?.includes(queue.name) ?? true)
      queues.push(await queueOverview(db, schema, queue, options, empty));
  return queues;
}

/** The same; a queue that is locked is named and does not hide the others. */
export async function everyQueue(
  db: Executor,
  part: Part,
  schema: string,
  options: OverviewOptions = {},
): Promise<(QueueOverview | LockedQueue)[]> {
  const queues: (QueueOverview | LockedQueue)[] = [];
  const rows = await listQueues(db, schema);
  const empty = await part(() => emptyQueues(db, schema, options.queues ?? rows)).catch(
    unlessLocked,
  );
  for (const queue of rows) {
    if (options.queues && !options.queues.includes(queue.name)) continue;
    const read = () => queueOverview(db, schema, queue, options, empty);
    try {
      queues.push(await (empty.has(queue.name) ? read() : part(read)));
    } catch (error) {
      if (!isLocked(error)) throw error;
      queues.push({ queue, error: error as Error });
    }
  }
  return queues;
}

function unlessLocked(error: unknown): EmptyQueues {
  if (!isLocked(error)) throw error;
  return new Map();
}

export async function openQueues(...asked: Parameters<typeof everyQueue>) {
  const all = await everyQueue(...asked);
  return {
    queues: all.filter((one) => 'counts' in one),
    locked: all.filter((one) => 'error' in one),
  };
}

async function queueOverview(
  db: Executor,
  schema: string,
  queue: QueueRow,
  { withRates = false }: OverviewOptions,
  all: EmptyQueues,
): Promise<QueueOverview> {
  const names = { schema, queue: queue.name };
  const empty = all.get(queue.name);
  const counts = await countByStatus(db, names, { empty: empty?.size });
  // A queue that keeps no archive does not say what it has completed.
  const known = withRates && queue.archiveRetentionMs > 0;
  if (known && empty?.unused) return { queue, counts, rate: NO_RATE, stoppedMs: null };
  return { queue, counts, rate: known ? await rate(db, names) : null, stoppedMs: null };
}

export function workersOverview(
  workers: readonly WorkerRow[],
  queues: readonly QueueOverview[],
): WorkerOverview[] {
  const held = queues.flatMap(({ counts }) => counts.held);
  return workers.map((worker) => ({ worker, ...summary(held, worker.id) }));
}

function summary(held: readonly Holding[], worker: string) {
  const own = held.filter((one) => one.worker === worker);
  return {
    held: own.reduce((sum, one) => sum + one.jobs, 0),
    expired: own.reduce((sum, one) => sum + one.expired, 0),
    oldestClaim: earliest(own.map((one) => one.oldestClaim)),
  };
}

export async function overview(db: Executor, schema: string, options: OverviewOptions = {}) {
  const queues = await queuesOverview(db, schema, options);
  const workers = await listWorkers(db, schema, { withDead: options.withDead ?? false });
  return { queues, workers: workersOverview(workers, queues) };
}

/** The same; a queue that is locked is named and does not hide the others. */
export async function openOverview(
  db: Executor,
  part: Part,
  schema: string,
  options: OverviewOptions = {},
): Promise<PartialOverview> {
  const { queues, locked } = await openQueues(db, part, schema, options);
  const workers = await listWorkers(db, schema, { withDead: options.withDead ?? false });
  return { queues, locked, workers: workersOverview(workers, queues) };
}

/** How questions are asked: each call is a transaction of its own, because a refusal ends one. */
export type Read = <Value>(work: (db: Executor, part: Part) => Promise<Value>) => Promise<Value>;

export const isDenied = (error: unknown): boolean =>
  (error as { code?: unknown } | null)?.code === '42501';

export interface ReadableOverview {
  /** Null: this user may not even read which queues and workers there are. */
  readonly seen: PartialOverview | null;
  /** Null: nothing is missing. */
  readonly lacking: Rights | null;
  /** What the database said, if something is missing. */
  readonly denied: unknown;
}

export async function readableOverview(
  read: Read,
  schema: string,
  options: OverviewOptions = {},
): Promise<ReadableOverview> {
  const { queues: only } = options;
  const look = (queues?: readonly string[]) =>
    read((db, part) => openOverview(db, part, schema, { ...options, queues }));
  try {
    return { seen: await look(only), lacking: null, denied: null };
  } catch (denied) {
    if (!isDenied(denied)) throw denied;
    const lacking = await read((db) => rightsOf(db, schema, 'viewer'));
    // Something else was refused.
    if (lacking.missing.length === 0) throw denied;
    if (lacking.missing.some(({ queue }) => queue === null)) return { seen: null, lacking, denied };
    const queues = (await read((db) => listQueues(db, schema))).map(({ name }) => name);
    const readable = queues.filter(
      (name) =>
        (only?.includes(name) ?? true) && !lacking.missing.some((one) => one.queue === name),
    );
    return { seen: await look(readable), lacking, denied };
  }
}
