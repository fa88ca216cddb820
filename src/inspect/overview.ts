/** The whole system at a glance: every queue with its counts and its rate, and every worker. */
import type { Executor } from '../postgres/queryable.js';
import { countByStatus, earliest, type QueueCounts } from './counts.js';
import type { Holding } from './held.js';
import { listQueues, type QueueRow } from './queues.js';
import { type Rate, rate } from './rates.js';
import { listWorkers, type WorkerRow } from './workers.js';

export interface QueueOverview {
  readonly queue: QueueRow;
  readonly counts: QueueCounts;
  readonly rate: Rate;
}

/** One queue in figures, without the parts of which they were made. */
export function queueFigures({ queue, counts, rate }: QueueOverview) {
  const { held, size, oldestDue, ...figures } = counts;
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
    ...figures,
    oldestDue,
    oldestDueMs: oldestDue === null ? null : Date.parse(size.at) - Date.parse(oldestDue),
    completedPerSecond: rate.completedPerSecond,
    tableBytes: size.tableBytes + size.indexBytes,
    archiveBytes: size.archiveBytes,
    archiveRetentionMs: queue.archiveRetentionMs,
    maxPending: queue.maxPending,
    maintainedAt: queue.maintainedAt,
    createdAt: queue.createdAt,
  };
}

export type QueueFigures = Readonly<ReturnType<typeof queueFigures>>;

export interface WorkerOverview {
  readonly worker: WorkerRow;
  /** Over all queues. */
  readonly held: number;
  readonly expired: number;
  readonly oldestClaim: string | null;
}

export interface Overview {
  readonly queues: readonly QueueOverview[];
  readonly workers: readonly WorkerOverview[];
}

export async function queuesOverview(
  db: Executor,
  schema: string,
  only?: readonly string[],
): Promise<QueueOverview[]> {
  const queues: QueueOverview[] = [];
  for (const queue of await listQueues(db, schema)) {
    if (only && !only.includes(queue.name)) continue;
    const names = { schema, queue: queue.name };
    queues.push({
      queue,
      counts: await countByStatus(db, names),
      rate: await rate(db, names),
    });
  }
  return queues;
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

export async function overview(
  db: Executor,
  schema: string,
  options: { queues?: readonly string[]; withDead?: boolean } = {},
): Promise<Overview> {
  const queues = await queuesOverview(db, schema, options.queues);
  const workers = await listWorkers(db, schema, { withDead: options.withDead ?? false });
  return { queues, workers: workersOverview(workers, queues) };
}
