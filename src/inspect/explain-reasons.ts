/**
 * The reasons for which a job waits, one function for each. Each looks at the situation and gives its
 * reason in words with the facts and the command that mends it, or null when it does not apply.
 */

import { MAX_LINE } from './explain-line.js';
import { type Situation, SUSPECT_FROM } from './explain-situation.js';
import { firstLine, many, span } from './words.js';
import { handlesVersion, type WorkerRow } from './workers.js';

export type ReasonCode =
  | 'completed'
  | 'cancelled'
  | 'discarded'
  | 'dead_letter'
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
  | 'suspect'
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
  return `worker ${id} (${worker.status}, seen ${span(worker.silentMs)} ago)`;
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
  if (head.crashes >= SUSPECT_FROM && inMs <= 0) {
    return {
      code: 'key_held',
      text: text(`has crashed its worker ${times(head.crashes)} and waits to be run apart`),
      fix: `holdfast explain ${head.id}`,
    };
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

const times = (count: number) => (count === 2 ? 'twice' : `${count} times`);

/** How many suspects run together, by how often they crashed their workers. */
const GROUPS: Readonly<Record<number, string>> = {
  2: 'in a group of up to 16',
  3: 'in a group of up to 4',
};

export function suspect({ job, suspects }: Situation): Reason | null {
  if (!suspects) return null;
  const how = GROUPS[job.crashes] ?? 'alone';
  const now =
    suspects.running > 0
      ? `${many(suspects.running, 'suspect')} ${suspects.running === 1 ? 'runs' : 'run'} now, on worker ${suspects.worker}`
      : 'none runs now';
  return {
    code: 'suspect',
    text:
      `Its worker vanished ${times(job.crashes)} while it held the job, so it is a suspect: it runs apart from ` +
      `other jobs, ${how}, and in the whole fleet one group of suspects runs at a time. ` +
      `${now[0]?.toUpperCase()}${now.slice(1)}; ${many(suspects.before, 'other suspect')} ${suspects.before === 1 ? 'comes' : 'come'} before it.`,
    fix: null,
  };
}

export function itsTurn(situation: Situation): Reason {
  const { job, keyed } = situation;
  return {
    code: 'waiting_its_turn',
    text:
      `It has been due for ${span(sinceMs(situation, job.availableAt))}: ` +
      `${keyed ? firstOfItsKey(situation) : byTime(situation)} ${busy(situation)}`,
    fix: null,
  };
}

function byTime({ job, ahead }: Situation): string {
  const { older = 0, moreUrgent = 0 } = ahead ?? {};
  const before = [
    ...(older > 0 ? [`${counted(older, 'older job')} of its priority`] : []),
    ...(moreUrgent > 0
      ? [`${counted(moreUrgent, 'job')} of a priority before ${job.priority}`]
      : []),
  ];
  return before.length === 0
    ? 'it is the next.'
    : `before it come ${before.join(' and ')} (not all of them need be of types that its workers handle).`;
}

function firstOfItsKey(situation: Situation): string {
  const { job, owner } = situation;
  const first = 'it is the first of its key.';
  if (owner === null) return first;
  const silent = situation.workers.find((one) => one.id === owner)?.silentMs ?? 0;
  const worry = silent > SILENT_MS ? ' That one has been silent for long.' : '';
  return (
    `${first} Bucket ${job.partitionBucket} is read first by ${describeWorker(situation, owner)}; ` +
    `another worker takes the job if that one has no free handler.${worry}`
  );
}

/** Who could take it, and what they are doing. */
function busy(situation: Situation): string {
  const { job } = situation;
  const able = alive(situation).filter(
    (worker) => (handlesVersion(worker, job.queue, job.type) ?? 0) >= job.version,
  );
  const held = situation.held.filter(({ worker }) => able.some(({ id }) => id === worker));
  const jobs = held.reduce((sum, one) => sum + one.jobs, 0);
  const longest = Math.max(0, ...held.map((one) => sinceMs(situation, one.oldestClaim)));
  const doing =
    jobs === 0
      ? 'none of them holds a job of this queue'
      : `they hold ${many(jobs, 'job')} of this queue, the longest for ${span(longest)}`;
  return `${many(able.length, 'live worker')} can run it; ${doing}.`;
}
