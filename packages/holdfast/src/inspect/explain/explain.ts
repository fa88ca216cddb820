/** Why is this job not running? The reason that a person has to act on comes first; the others that hold follow. */
import type { Executor } from '../../postgres/queryable.js';
import type { ShownJob } from '../job/show.js';
import { type RingOwner, readSituation, type Situation } from './facts/situation.js';
import { groupFull, keyFull, keyHeld, laterRuns } from './key.js';
import { limitReached, rateLimited } from './limits.js';
import { limitLocked, rowLocked } from './locked.js';
import { deadLetter, ended, inHand, unknown } from './outcomes.js';
import {
  fromSchedule,
  nobodyHandles,
  notDue,
  partPaused,
  paused,
  type Reason,
  suspect,
} from './reasons.js';
import { runWaits } from './runs.js';
import { itsTurn, noneIsFree } from './turn.js';

/** Why a job does not run. */
export interface Explanation<Job = ShownJob> extends Reason {
  readonly id: string;
  /** What else keeps it from running, or would. */
  readonly also: readonly Reason[];
  /** Null: no queue knows the id. */
  readonly job: Job | null;
  /** The worker that comes first for the job's bucket, in a queue that is read by key. */
  readonly bucketOwner: string | null;
}

export interface ExplainOptions {
  readonly queues?: readonly string[] | undefined;
  readonly ringOwner?: RingOwner | undefined;
  /** The texts quote no error of a job. */
  readonly withoutErrors?: boolean;
}

export async function explainJob(
  db: Executor,
  schema: string,
  id: string,
  options: ExplainOptions = {},
): Promise<Explanation> {
  const found = await readSituation(db, schema, id, options);
  if (!('job' in found)) {
    return { id, ...unknown(found), also: [], job: null, bucketOwner: null };
  }
  const told = options.withoutErrors ? withoutErrors(found) : found;
  const [first, ...also] = [...reasons(told), ...fromSchedule(told.job)];
  return { id, ...(first as Reason), also, job: told.job, bucketOwner: told.owner };
}

const LEFT_OUT = 'its error is left out';

function withoutErrors(found: Situation): Situation {
  const { job, head, run } = found;
  const hide = (error: string | null) => (error === null ? null : LEFT_OUT);
  return {
    ...found,
    job: { ...job, lastError: hide(job.lastError), history: [] },
    head: head && { ...head, lastError: hide(head.lastError) },
    run: run && { ...run, waits: run.waits.map((one) => ({ ...one, error: hide(one.error) })) },
  };
}

function reasons(situation: Situation): Reason[] {
  const { job } = situation;
  if (job.archived) return [ended(situation)];
  if (job.status === 'dead_letter') return [deadLetter(situation)];
  const obstacles = [
    ...[paused(situation), partPaused(situation)],
    ...[nobodyHandles(situation), rowLocked(situation)],
  ];
  if (job.status === 'processing') {
    const now = inHand(situation);
    // Somebody runs it: what would keep others from claiming it does not matter.
    return now.code === 'running' ? [now] : present([now, ...obstacles]);
  }
  const later = runWaits(situation) ?? notDue(situation);
  const apart = later ? null : suspect(situation);
  const limit = later ? null : (rateLimited(situation) ?? limitReached(situation));
  const line = keyHeld(situation) ?? laterRuns(situation);
  const waiting = present([
    ...obstacles,
    later,
    later ? null : limitLocked(situation),
    // Behind another job of its key, its limit comes later.
    ...(situation.head ? [line, limit] : [limit, line]),
    keyFull(situation),
    groupFull(situation),
    apart,
    apart && noneIsFree(situation),
  ]);
  return waiting.length > 0 ? waiting : [itsTurn(situation)];
}

const present = (all: readonly (Reason | null)[]) => all.filter((reason) => reason !== null);
