/** The reasons for which a job waits: a function for each gives its words, facts and fix, or null when it does not apply. */
import { bodiesIn, handlesVersion, isSilent, takes, type WorkerRow } from '../fleet/workers.js';
import type { ShownJob } from '../job/show.js';
import { firstLine, many, shellWord, span } from '../reading/words.js';
import { MAX_LINE } from './facts/line.js';
import type { Situation } from './facts/situation.js';

/** The reasons of `hf.explain()`, to branch on. */
export type ReasonCode =
  | 'completed'
  | 'cancelled'
  | 'discarded'
  | 'dead_letter'
  | 'running'
  | 'lease_expired'
  | 'owner_dead'
  | 'owner_silent'
  | 'queue_paused'
  | 'type_paused'
  | 'key_paused'
  | 'no_worker'
  | 'no_handler'
  | 'version_too_new'
  | 'no_body'
  | 'retrying'
  | 'snoozed'
  | 'not_due'
  | 'waiting'
  | 'row_locked'
  | 'key_held'
  | 'key_full'
  | 'group_full'
  | 'rate_limited'
  | 'limit_reached'
  | 'suspect'
  | 'handlers_busy'
  | 'beside_suspect'
  | 'workers_silent'
  | 'waiting_its_turn'
  | 'from_schedule'
  | 'unknown';

/** One thing that keeps a job from running. */
export interface Reason {
  readonly code: ReasonCode;
  readonly text: string;
  /** What a person can do about it; null: nothing needs to be done. */
  readonly fix: string | null;
  /** The text quotes the error of another job, of this type. */
  readonly quotes?: string;
  /** It is the next, and these workers have had a free handler for longer than they need to take it. */
  readonly untaken?: readonly string[];
  /** A right is missing, which the doctor names. */
  readonly refused?: boolean;
  /** Where a rate holds it: the command that sets another one, and how many must start in a minute for it to be the next. */
  readonly soon?: { readonly command: string; readonly atLeast: number };
  /** All handlers are busy: the job that has run longest, and its worker. */
  readonly longest?: { readonly job: string; readonly worker: string };
}

/** With nothing that a person need do. */
export const because = (code: ReasonCode, text: string): Reason => ({ code, text, fix: null });

export const sinceMs = (situation: Situation, time: string | null) =>
  time === null ? 0 : situation.nowMs - Date.parse(time);

export const clock = (time: string | null) =>
  (time ?? '').replace('T', ' ').replace(/\.\d+Z$/, 'Z');
export const counted = (count: number, noun: string) =>
  count >= MAX_LINE ? `${MAX_LINE} or more ${noun}s` : many(count, noun);

export function describeWorker(situation: Situation, id: string | null): string {
  const worker = situation.workers.find((one) => one.id === id);
  if (!worker) return `worker ${id} (not in the registry)`;
  const state = isSilent(worker) ? 'silent' : worker.status;
  return `worker ${id} (${state}, seen ${span(worker.silentMs)} ago)`;
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

export const nobodyHandles = (situation: Situation) => nobodyFor(situation, situation.job);

/** `what`: the job, or another one of its queue. */
export function nobodyFor(
  situation: Situation,
  what: { readonly type: string; readonly version: number },
): Reason | null {
  const { type, version } = what;
  const { queue } = situation.job;
  const live = alive(situation);
  const start = 'Start a worker with a handler for it: holdfast work';
  const meant = type === situation.job.type ? situation.meant : '';
  if (live.length === 0) {
    return { code: 'no_worker', text: `No worker is alive.${meantWords(type, meant)}`, fix: start };
  }
  const versions = live
    .map((worker) => handlesVersion(worker, queue, type))
    .filter((version) => version !== null);
  if (versions.length === 0) {
    return {
      code: 'no_handler',
      text:
        `None of ${many(live.length, 'live worker')} handles the type "${type}" ` +
        `of the queue "${queue}".${meant}`,
      fix: start,
    };
  }
  if (live.some((worker) => takes(worker, queue, what))) return null;
  const bodies = live.flatMap((worker) => bodiesIn(worker, queue, type) ?? []);
  if (bodies.length > 0) {
    const known = [...new Set(bodies)].sort((a, b) => a - b).join(', ');
    return {
      code: 'no_body',
      text:
        `It is a run of version ${version} of the workflow "${type}" and keeps it; ` +
        `the live workers have bodies of ${known}.`,
      fix: `Start a worker with that body too: worker.workflow(${type}, { ${version}: body, … })`,
    };
  }
  const newest = Math.max(...versions);
  return {
    code: 'version_too_new',
    text:
      `Its payload has version ${version}; the live workers that handle "${type}" ` +
      `know versions up to ${newest}.`,
    fix: `Deploy workers whose definition of "${type}" has version ${version}`,
  };
}

const meantWords = (type: string, meant: string) =>
  meant === '' ? '' : ` And the type "${type}" is not known here.${meant}`;

interface HistoryEvent {
  readonly at?: string;
  readonly outcome?: string;
  readonly times?: number;
  readonly told?: { queue: string; type: string; id?: string; error?: string };
}

export function lastEvent({ job }: Situation): HistoryEvent | null {
  const history = Array.isArray(job.history) ? (job.history as HistoryEvent[]) : [];
  return history.at(-1) ?? null;
}

export function notDue(situation: Situation): Reason | null {
  const { job } = situation;
  const inMs = -sinceMs(situation, job.runAt);
  if (inMs <= 0) return null;
  const when = `${clock(job.runAt)} (in ${span(inMs)})`;
  const last = lastEvent(situation);
  if (last?.outcome === 'snoozed') {
    const often =
      (last.times ?? 1) > 1 ? `, ${many(last.times as number, 'time')} in a row by now` : '';
    return because(
      'snoozed',
      `Its handler snoozed it ${span(sinceMs(situation, last.at ?? null))} ago${often}: ` +
        `it is due again at ${when}, and no attempt was spent.`,
    );
  }
  if (job.attempts === 0) {
    return because('not_due', `It waits for its time, ${when}.`);
  }
  return because(
    'retrying',
    `Attempt ${job.attempts} of ${job.maxAttempts} failed (${firstLine(job.lastError)}); ` +
      `the next one is due at ${when}.`,
  );
}

export const times = (count: number) => (count === 2 ? 'twice' : `${count} times`);

/** How many suspects run together, by how often they crashed their workers. */
const GROUPS: Readonly<Record<number, string>> = {
  2: 'in a group of up to 16',
  3: 'in a group of up to 4',
};

export function suspect(situation: Situation): Reason | null {
  const { job, suspects } = situation;
  if (!suspects) return null;
  const how = GROUPS[job.crashes] ?? 'alone';
  const now =
    suspects.running > 0
      ? `${many(suspects.running, 'suspect')} ${suspects.running === 1 ? 'runs' : 'run'} now, on worker ${suspects.worker}, for ${span(sinceMs(situation, suspects.since))}`
      : 'none runs now';
  return because(
    'suspect',
    `Its worker vanished ${times(job.crashes)} while it held the job, so it is a suspect: it runs apart from ` +
      `other jobs, ${how}, and in the whole fleet one group of suspects runs at a time. ` +
      `${now[0]?.toUpperCase()}${now.slice(1)}; ${many(suspects.before, 'other suspect')} ${suspects.before === 1 ? 'comes' : 'come'} before it.`,
  );
}

export function partPaused({ queue, job }: Situation): Reason | null {
  const resume = `holdfast queues resume ${queue.name}`;
  if (queue.pausedTypes.includes(job.type)) {
    return {
      code: 'type_paused',
      text: `The type "${job.type}" of the queue "${queue.name}" is paused: its jobs are accepted and none is claimed.`,
      fix: `${resume} --type ${job.type}`,
    };
  }
  if (!queue.pausedKeys.includes(job.partitionKey)) return null;
  return {
    code: 'key_paused',
    text: `The key ${job.partitionKey} of the queue "${queue.name}" is paused: its jobs are accepted and none is claimed.`,
    fix: `${resume} --partition-key ${shellWord(job.partitionKey)}`,
  };
}

/** It comes last: it keeps no job from running. */
export function fromSchedule({ headers }: ShownJob): Reason[] {
  const { holdfast_schedule: name, holdfast_scheduled_at: instant } = (headers ?? {}) as Record<
    string,
    string | undefined
  >;
  if (name === undefined) return [];
  return [
    {
      code: 'from_schedule',
      text: `It was made by schedule "${name}" for ${instant ?? 'an instant that it does not say'}.`,
      fix: null,
    },
  ];
}
