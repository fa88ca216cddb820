/** Everything that bears on whether a job runs, read once, so that the reasons can be told without SQL. */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { databaseNow } from './clock.js';
import {
  type Ahead,
  ahead,
  behind,
  type KeyHead,
  keyHead,
  type Suspects,
  suspects,
} from './explain-line.js';
import { type Holding, heldJobs } from './held.js';
import { listQueues, type QueueRow } from './queues.js';
import { type ShownJob, showJob } from './show.js';
import { listWorkers, type WorkerRow } from './workers.js';

/**
 * Who comes first for a bucket of a queue that is read by key. The ring belongs to the fleet, so it is handed
 * in; it gets the live workers.
 */
export type RingOwner = (
  workers: readonly WorkerRow[],
  bucket: { readonly queue: string; readonly bucket: number },
) => string | null;

/** From so many crashes on a job is a suspect and is run apart from others. */
export const SUSPECT_FROM = 2;

export interface Situation {
  readonly job: ShownJob;
  readonly queue: QueueRow;
  /** The queue is read by key. */
  readonly keyed: boolean;
  readonly workers: readonly WorkerRow[];
  readonly nowMs: number;
  /** The first job of the key, if it stands before this one. */
  readonly head: KeyHead | null;
  /** Null unless the job waits in a queue that is read by time. */
  readonly ahead: Ahead | null;
  readonly behind: number;
  /** Null unless the job waits and is a suspect. */
  readonly suspects: Suspects | null;
  /** What the workers hold of the queue, while the job waits. */
  readonly held: readonly Holding[];
  /** The worker that comes first for the job's bucket; null: nobody, or the queue is read by time. */
  readonly owner: string | null;
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
  const queue = queues.find(({ name }) => name === job.queue) as QueueRow;
  const workers = await listWorkers(db, schema, { withDead: true });
  const alive = workers.filter((worker) => worker.status === 'alive');
  const waits = !job.archived && job.status === 'pending';
  const keyed = queue.ordering !== 'none';
  const suspect = job.crashes >= SUSPECT_FROM;
  const bucket = { queue: job.queue, bucket: job.partitionBucket };
  return {
    job,
    queue,
    keyed,
    workers,
    nowMs,
    head: waits && keyed ? await keyHead(db, names, job) : null,
    ahead: waits && !keyed ? await ahead(db, names, job) : null,
    behind: !job.archived && keyed ? await behind(db, names, job) : 0,
    suspects: waits && suspect ? await suspects(db, names, job) : null,
    held: waits ? await heldJobs(db, names) : [],
    owner: (keyed && options.ringOwner?.(alive, bucket)) || null,
  };
}
