/** Everything that bears on whether a job runs, read once, so that the reasons need no SQL. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { knownTypes, nearestType } from '../../fleet/known-types.js';
import { listWorkers, type Versions, versionsOf, type WorkerRow } from '../../fleet/workers.js';
import { type ShownJob, showJob, type Trace, traceOf } from '../../job/show.js';
import { listQueues, type QueueRow } from '../../queue/queues.js';
import { databaseNow } from '../../reading/reading.js';
import { type RowLock, rowLocks } from '../../reading/row-locks.js';
import { type RunNow, runNow } from '../../run/waits.js';
import { type LimitSituation, limitSituation } from './limits.js';
import {
  type Ahead,
  ahead,
  type Behind,
  behind,
  type KeyHead,
  keyHead,
  keyWindow,
  type Suspects,
  suspects,
  type Window,
} from './line.js';
import { type AbleWorker, ableWorkers, readAble } from './workers.js';

/** Who comes first for a bucket, of the live workers. The ring belongs to the fleet, so it is handed in. */
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
  /** The first job of the key, if it stands before this one and the queue has an order per key. */
  readonly head: KeyHead | null;
  /** Null unless the job waits where keys take turns. */
  readonly window: Window | null;
  /** Null unless the job waits in a queue that is read by time. */
  readonly ahead: Ahead | null;
  /** Null unless the queue has an order per key. */
  readonly behind: Behind | null;
  /** Null unless the job waits and is a suspect. */
  readonly suspects: Suspects | null;
  /** Null unless the job waits and its queue has limits. */
  readonly limits: LimitSituation | null;
  /** The workers that can run it, and what they do, while it waits. */
  readonly able: readonly AbleWorker[];
  /** Null unless the job waits and is a run of a workflow that has taken a step. */
  readonly run: RunNow | null;
  /** Locked rows among its own, the head of its key, and the one behind it in its key. */
  readonly locks: readonly RowLock[];
  /** What its type was probably meant to be, as a sentence, if no live worker handles it; else ''. */
  readonly meant: string;
  /** The worker that comes first for the job's bucket; null: nobody, or the queue is read by time. */
  readonly owner: string | null;
}

export interface Unknown {
  readonly id: string;
  readonly queues: readonly QueueRow[];
  readonly nowMs: number;
  readonly trace: Trace;
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
  if (!job) return { id, queues, nowMs, trace: await traceOf(db, schema, queues, id) };
  const names: Names = { schema, queue: job.queue };
  const queue = queues.find(({ name }) => name === job.queue) as QueueRow;
  const workers = await listWorkers(db, schema, { withDead: true });
  const keyed = queue.ordering !== 'none';
  const turns = queue.ordering === 'turns';
  const known = { job, queue, keyed, workers, nowMs };
  if (job.archived) return { ...known, ...NOTHING, owner: null };
  const line = keyed && !turns ? await behind(db, names, job) : null;
  const owner = keyed ? ownerOf(workers, job, options.ringOwner) : null;
  if (job.status !== 'pending') {
    return {
      ...known,
      ...NOTHING,
      owner,
      behind: line,
      locks: await rowLocks(db, names, [job.id]),
    };
  }
  const able = ableWorkers(workers, job);
  const alive = workers.filter(({ status }) => status === 'alive');
  const handled = versionsOf(alive, job.queue)[job.type] !== undefined;
  const meant = handled ? '' : nearestType(job.type, await knownTypes(db, names));
  const versions = unpaused(versionsOf(able, job.queue), queue);
  const limits = await limitSituation(db, names, job, {
    ...{ keyed, version: versions[job.type] ?? null },
  });
  const head = keyed && !turns ? ((await keyHead(db, names, job))[0] ?? null) : null;
  const rows = [job.id, head?.id, head ? null : line?.next].filter(
    (one) => typeof one === 'string',
  );
  return {
    ...known,
    head,
    window: turns ? await keyWindow(db, names, job) : null,
    ahead: keyed ? null : await ahead(db, names, job, open(versions, job.type, limits)),
    behind: line,
    suspects: job.crashes >= SUSPECT_FROM ? await suspects(db, names, job, versions) : null,
    limits,
    able: await readAble(db, names, able, {
      inRuns: keyed && !turns,
      queues: every.map(({ name }) => name),
    }),
    locks: await rowLocks(db, names, rows),
    run: await runNow(db, names, job.id),
    meant,
    owner,
  };
}

/** Claims pass over types that are paused as they do over those that nobody handles. */
const unpaused = (versions: Versions, { pausedTypes }: QueueRow): Versions =>
  Object.fromEntries(Object.entries(versions).filter(([type]) => !pausedTypes.includes(type)));

/** And over types that are at a limit. */
const open = (versions: Versions, type: string, limits: LimitSituation | null): Versions =>
  Object.fromEntries(
    Object.entries(versions).filter(([one]) => one === type || !limits?.closed.includes(one)),
  );

const NOTHING = {
  ...{ head: null, window: null, ahead: null, behind: null, suspects: null, limits: null },
  ...{ able: [], locks: [], meant: '', run: null },
};

function ownerOf(workers: readonly WorkerRow[], job: ShownJob, ringOwner: RingOwner | undefined) {
  const alive = workers.filter((worker) => worker.status === 'alive');
  return ringOwner?.(alive, { queue: job.queue, bucket: job.partitionBucket }) ?? null;
}
