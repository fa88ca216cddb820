/**
 * The reasons for which a job waits, one function for each. Each looks at the situation and gives its
 * reason in words with the facts and the command that mends it, or null when it does not apply.
 */

import { MAX_LINE } from './explain-line.js';
import type { Situation } from './explain-situation.js';
import { firstLine, many, span } from './words.js';
import { handlesVersion, type WorkerRow } from './workers.js';

export type ReasonCode =
  | 'completed'
  | 'cancelled'
  | 'discarded'
  | 'buried'
  | 'running'
  | 'lease_expired'
  | 'owner_dead'
  | 'queue_paused'
  | 'no_worker'
  | 'no_handler'
  | 'version_too_new'
  | 'retrying'
  | 'not_due'
  | 'key_held'
  | 'waiting_its_turn'
  | 'unknown';

export interface Reason {
  readonly code: ReasonCode;
  readonly text: string;
  /** What a person can do about it; null: nothing needs to be done. */
  readonly fix: string | null;
}

/** A heartbeat older than this is worth a word: the default time to live of a worker. */
const SILENT_MS = 30_000;

export const sinceMs = (situation: Situation, time: string | null) =>
  time === null ? 0 : situation.nowMs - Date.parse(time);

export const clock = (time: string | null) =>
  (time ?? '').replace('T', ' ').replace(/\.\d+Z$/, 'Z');
export const counted = (count: number, noun: string) =>
  count >= MAX_LINE ? `${MAX_LINE} or more ${noun}s` : many(count, noun);

export function describeWorker(situation: Situation, id: string | null): string {
  const worker = situation.workers.find((one) => one.id === id);
  if (!worker) return `worker ${id} (not in the registry)`;
  return `worker ${id} (${worker.status}, heard ${span(worker.silentMs)} ago)`;
}

const alive = ({ workers }: Situation): WorkerRow[] =>
  workers.filter((worker) => worker.status === 'alive');

export function paused({ queue }: Situation): Reason | null {
  if (!queue.paused) return null;
  return {
    code: 'queue_paused',
    text: `The queue "${queue.name}" is paused: it takes jobs and lets none be claimed.`,
    fix: `holdfast queues resume ${queue.name}`,
  };
}

export function nobodyHandles(situation: Situation): Reason | null {
  const { job } = situation;
  const live = alive(situation);
  const start = 'Start a worker with a handler for it: holdfast work';
  if (live.length === 0) {
    return { code: 'no_worker', text: 'No worker is alive.', fix: start };
  }
  const versions = live
    .map((worker) => handlesVersion(worker, job.queue, job.type))
    .filter((version) => version !== null);
  if (versions.length === 0) {
    return {
      code: 'no_handler',
      text:
        `None of ${many(live.length, 'live worker')} handles the type "${job.type}" ` +
        `of the queue "${job.queue}".`,
      fix: start,
    };
  }
  const newest = Math.max(...versions);
  if (newest >= job.version) return null;
  return {
    code: 'version_too_new',
    text:
      `Its payload has version ${job.version}; the live workers that handle "${job.type}" ` +
      `know versions up to ${newest}.`,
    fix: `Deploy workers whose definition of "${job.type}" has version ${job.version}`,
  };
}

export function notDue(situation: Situation): Reason | null {
  const { job } = situation;
  const inMs = -sinceMs(situation, job.availableAt);
  if (inMs <= 0) return null;
  const when = `${clock(job.availableAt)} (in ${span(inMs)})`;
  if (job.attempts === 0) {
    return { code: 'not_due', text: `It waits for its time, ${when}.`, fix: null };
  }
  return {
    code: 'retrying',
    text:
      `Attempt ${job.attempts} of ${job.maxAttempts} failed (${firstLine(job.lastError)}); ` +
      `the next one is due at ${when}.`,
    fix: null,
  };
}

export function keyHeld(situation: Situation): Reason | null {
  const { job, head } = situation;
  if (!head) return null;
  const line = head.ahead === 1 ? '' : ` ${counted(head.ahead, 'job')} of the key stand before it.`;
  const text = (what: string) =>
    `Its key ${job.partitionKey} is held by job ${head.id}, which ${what}.${line}`;
  const inMs = -sinceMs(situation, head.availableAt);
  if (head.status === 'dead_letter') {
    return {
      code: 'key_held',
      text: text(
        `is a dead letter and holds the key until it is retried or discarded (${firstLine(head.lastError)})`,
      ),
      fix: `holdfast jobs retry ${head.id}, or holdfast jobs discard ${head.id}`,
    };
  }
  if (head.status === 'processing') {
    const until = `until ${clock(head.leaseExpiresAt)}`;
    const what = `is leased by ${describeWorker(situation, head.claimedBy)} ${until}`;
    return { code: 'key_held', text: text(what), fix: null };
  }
  if (inMs > 0) {
    const why = head.attempts > 0 ? 'is retrying' : 'waits for its time';
    const what = `${why} until ${clock(head.availableAt)} (in ${span(inMs)})`;
    return { code: 'key_held', text: text(what), fix: null };
  }
  return {
    code: 'key_held',
    text: text('is due and waits for its turn'),
    fix: `holdfast explain ${head.id}`,
  };
}

export function itsTurn(situation: Situation): Reason {
  const { job, owner, queue } = situation;
  const bucket = `bucket ${job.partitionBucket}`;
  const ordered = job.ordering === 'key' || job.ordering === 'key_strict';
  const before = ordered
    ? 'it is the first of its key'
    : situation.ahead === 0
      ? 'it is the next of its bucket and priority'
      : `of its bucket and priority, ${counted(situation.ahead, 'due job')} come before it`;
  const owned =
    queue.assignment !== 'ring' || owner === undefined
      ? `any of ${many(alive(situation).length, 'live worker')} may claim ${bucket}`
      : owner === null
        ? `nobody owns ${bucket}`
        : `${bucket} is owned by ${describeWorker(situation, owner)}`;
  const silent = situation.workers.find((one) => one.id === owner)?.silentMs ?? 0;
  const worry =
    silent > SILENT_MS ? ' It has been silent for long; if it is gone, others take over.' : '';
  return {
    code: 'waiting_its_turn',
    text: `It has been due for ${span(sinceMs(situation, job.availableAt))}: ${before}; ${owned}.${worry}`,
    fix: null,
  };
}
