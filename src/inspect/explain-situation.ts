/** Everything that bears on whether a job runs, read once, so that the reasons can be told without SQL. */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { databaseNow } from './clock.js';
import { ahead, behind, type KeyHead, keyHead } from './explain-line.js';
import { listQueues, type QueueRow } from './queues.js';
import { type ShownJob, showJob } from './show.js';
import { listWorkers, type WorkerRow } from './workers.js';

/**
 * Who owns a bucket of a queue now, for jobs of this type and version. The ring belongs to the fleet, so
 * it is handed in.
 */
export type RingOwner = (
  workers: readonly WorkerRow[],
  job: { queue: string; bucket: number; type: string; version: number },
) => string | null;

export interface Situation {
  readonly job: ShownJob;
  readonly queue: QueueRow;
  readonly workers: readonly WorkerRow[];
  readonly nowMs: number;
  /** The first job of the key, if it stands before this one. */
  readonly head: KeyHead | null;
  readonly ahead: number;
  readonly behind: number;
  /** The id of the bucket's owner; null if nobody owns it; undefined if the ring was not asked. */
  readonly owner: string | null | undefined;
}

export interface Unknown {
  readonly id: string;
  readonly queues: readonly QueueRow[];
  readonly nowMs: number;
}

export async function readSituation(
  db: Executor,
  schema: string,
  id: string,
  options: { queues?: readonly string[] | undefined; ringOwner?: RingOwner | undefined },
): Promise<Situation | Unknown> {
  const every = await listQueues(db, schema);
  const queues = every.filter(({ name }) => options.queues?.includes(name) ?? true);
  const job = await showJob(
    db,
    schema,
    queues.map(({ name }) => name),
    id,
  );
  const nowMs = await databaseNow(db, schema);
  if (!job) return { id, queues, nowMs };
  const names: Names = { schema, queue: job.queue };
  const workers = await listWorkers(db, schema, { withDead: true });
  const { queue, partitionBucket: bucket, type, version } = job;
  const waits = !job.archived && job.status === 'pending';
  const ordered = job.ordering === 'key' || job.ordering === 'key_strict';
  const alive = workers.filter((worker) => worker.status === 'alive');
  return {
    job,
    queue: queues.find(({ name }) => name === queue) as QueueRow,
    workers,
    nowMs,
    head: waits ? await keyHead(db, names, job) : null,
    ahead: waits && !ordered ? await ahead(db, names, job) : 0,
    behind: !job.archived && ordered ? await behind(db, names, job) : 0,
    owner: options.ringOwner?.(alive, { queue, bucket, type, version }),
  };
}
