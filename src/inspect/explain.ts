/**
 * Why is this job not running? One answer in words, with the facts it rests on. Where several reasons hold
 * at once, the one that a person has to act on comes first, and the others are told as well.
 */
import type { Executor } from '../postgres/queryable.js';
import { deadLetter, ended, inHand } from './explain-outcomes.js';
import {
  itsTurn,
  keyHeld,
  nobodyHandles,
  notDue,
  paused,
  type Reason,
  suspect,
} from './explain-reasons.js';
import {
  type RingOwner,
  readSituation,
  type Situation,
  type Unknown,
} from './explain-situation.js';
import type { ShownJob } from './show.js';
import { span } from './words.js';

export interface Explanation extends Reason {
  readonly id: string;
  /** What else keeps it from running, or would. */
  readonly also: readonly Reason[];
  /** Null when no queue knows the id. */
  readonly job: ShownJob | null;
  /** The worker that comes first for the job's bucket, in a queue that is read by key. */
  readonly bucketOwner: string | null;
}

export interface ExplainOptions {
  readonly queues?: readonly string[] | undefined;
  readonly ringOwner?: RingOwner | undefined;
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
  const [first, ...also] = reasons(found);
  return { id, ...(first as Reason), also, job: found.job, bucketOwner: found.owner };
}

function reasons(situation: Situation): Reason[] {
  const { job } = situation;
  if (job.archived) return [ended(situation)];
  if (job.status === 'dead_letter') return [deadLetter(situation)];
  const obstacles = [paused(situation), nobodyHandles(situation)];
  if (job.status === 'processing') {
    const now = inHand(situation);
    // Somebody runs it: what would keep others from claiming it does not matter.
    return now.code === 'running' ? [now] : present([now, ...obstacles]);
  }
  const later = notDue(situation);
  const waiting = present([
    ...obstacles,
    later,
    keyHeld(situation),
    later ? null : suspect(situation),
  ]);
  return waiting.length > 0 ? waiting : [itsTurn(situation)];
}

const present = (all: readonly (Reason | null)[]) => all.filter((reason) => reason !== null);

/** Ids carry the time at which they were made; it tells an id that was pruned from one of another system. */
export function unknown({ id, queues, nowMs }: Unknown): Reason {
  const names = queues.map(({ name }) => `"${name}"`).join(', ') || 'any queue';
  const where = `No job with this id is in ${names}, nor in the archive.`;
  const keptMs = Math.max(0, ...queues.map((queue) => queue.archiveRetentionMs));
  const madeMs = timeIn(id);
  const since = madeMs === null ? null : nowMs - madeMs;
  if (since === null || since < 0) {
    return {
      code: 'unknown',
      text: `${where} It was never enqueued here, or its transaction was rolled back.`,
      fix: null,
    };
  }
  const guess =
    since > keptMs
      ? `Its id was made ${span(since)} ago and the archive keeps ${span(keptMs)}: if it ran, it was pruned since.`
      : `Its id was made ${span(since)} ago, which the archive still covers: its transaction was rolled back or is still open, or it belongs to another database.`;
  return { code: 'unknown', text: `${where} ${guess}`, fix: null };
}

function timeIn(id: string): number | null {
  const hex = id.replaceAll('-', '');
  return hex[12] === '7' ? Number.parseInt(hex.slice(0, 12), 16) : null;
}
