/** How queues, workers and jobs look: their columns for people, and their values for programs. */
import { busyOf, holdsLock, isSilent, saysOf, stateOf } from '../../inspect/fleet/workers.js';
import type { ArchivedJob } from '../../inspect/job/archive.js';
import type { ListedJob } from '../../inspect/job/list.js';
import type { QueueOverview, WorkerOverview } from '../../inspect/queue/overview.js';
import { describePaused, isPartlyPaused } from '../../inspect/queue/queues.js';
import { firstLine, span } from '../../inspect/reading/words.js';
import type { Style } from './style.js';
import type { TableColumn } from './table.js';

export const sinceMs = (time: string | null, now: string | number) =>
  time === null ? null : Number(typeof now === 'string' ? Date.parse(now) : now) - Date.parse(time);

const waits = ({ counts }: QueueOverview) => sinceMs(counts.oldestDue, counts.size.at);
const worry = (yes: boolean, style: Style = 'worry') => (yes ? style : null);

const figure = (count: number, approximate = false) =>
  `${approximate ? '~' : ''}${count.toLocaleString('en')}`;

export const queueColumns: readonly TableColumn<QueueOverview>[] = [
  { title: 'QUEUE', of: ({ queue }) => queue.name },
  {
    title: 'PENDING',
    of: ({ counts }) => figure(counts.pending, counts.approximate),
    align: 'right',
  },
  { title: 'SCHEDULED', of: ({ counts }) => counts.scheduled, align: 'right' },
  // Claimed: the handlers of some of them may not have started.
  { title: 'PROCESSING', of: ({ counts }) => figure(counts.processing), align: 'right' },
  {
    title: 'DEAD',
    of: ({ counts }) => figure(counts.deadLetter, counts.deadLetterApproximate),
    align: 'right',
    style: ({ counts }) => worry(counts.deadLetter > 0),
  },
  {
    title: 'EXPIRED',
    of: ({ counts }) => figure(counts.expired),
    align: 'right',
    style: ({ counts }) => worry(counts.expired > 0),
  },
  {
    title: 'OLDEST',
    of: (row) => {
      const ms = waits(row);
      return ms === null ? null : `${row.counts.oldestDueApproximate ? '~' : ''}${span(ms)}`;
    },
    align: 'right',
  },
  {
    title: 'DONE/S',
    of: ({ rate }) => rate && `${rate.atLeast ? '>' : ''}${rate.completedPerSecond.toFixed(1)}`,
    align: 'right',
  },
  { title: 'READ BY', of: ({ queue }) => (queue.ordering === 'none' ? 'time' : 'key') },
  {
    title: 'STATE',
    of: ({ queue }) => {
      if (queue.paused) return 'paused';
      if (!isPartlyPaused(queue)) return 'open';
      return `partly paused: ${firstLine(describePaused(queue), 60)}`;
    },
    style: ({ queue }) => worry(queue.paused || isPartlyPaused(queue)),
  },
];

/** `complete`: no queue was locked, so it is known what they hold. */
export const workerColumns = (complete: boolean): readonly TableColumn<WorkerOverview>[] => [
  { title: 'WORKER', of: ({ worker }) => worker.id },
  {
    title: 'STATUS',
    of: ({ worker }) => stateOf(worker),
    style: ({ worker }) =>
      ['vanished', 'silent'].includes(stateOf(worker)) ? 'bad' : worry(worker.status !== 'alive'),
  },
  {
    title: 'HEARD',
    of: ({ worker }) => span(worker.silentMs),
    align: 'right',
    style: ({ worker }) => worry(isSilent(worker), 'bad'),
  },
  { title: 'UP', of: ({ worker }) => span(worker.upMs), align: 'right' },
  { title: 'HOLDS', of: ({ held }) => (complete ? held : '?'), align: 'right' },
  { title: 'BUSY', of: ({ worker }) => busyText([worker]), align: 'right' },
  { title: 'VERSION', of: ({ worker }) => saysOf(worker, 'version') },
  { title: 'HOST', of: ({ worker }) => saysOf(worker, 'host') },
  { title: 'PID', of: ({ worker }) => saysOf(worker, 'pid'), align: 'right' },
  { title: 'HANDLES', of: ({ worker }) => handled(worker.handles) },
];

/** `7/10 70 %`: so many handlers ran of so many, when they last sent a heartbeat. Null: nobody says. */
export function busyText(workers: readonly WorkerOverview['worker'][]): string | null {
  const known = workers.map(busyOf).filter((one) => one !== null);
  if (known.length === 0) return null;
  const running = known.reduce((sum, one) => sum + one.running, 0);
  const handlers = known.reduce((sum, one) => sum + one.handlers, 0);
  return `${running}/${handlers} ${Math.round((running / handlers) * 100)} %`;
}

function handled(handles: unknown): string {
  return Object.entries((handles ?? {}) as Record<string, Record<string, number>>)
    .map(([queue, types]) => `${queue}: ${Object.keys(types).join(' ')}`)
    .join('; ');
}

export function workerValue({ worker, ...rest }: WorkerOverview, complete: boolean): object {
  const [state, busy] = [stateOf(worker), busyOf(worker)];
  return {
    ...worker,
    holdsLivenessLock: holdsLock(worker),
    state,
    busy,
    ...(complete ? rest : UNKNOWN),
  };
}

const UNKNOWN = { held: null, expired: null, oldestClaim: null };

const STATUS_STYLES: Readonly<Record<string, Style>> = { dead_letter: 'bad', processing: 'good' };

/** `dead`: of dead letters, which are due never and with nobody. */
export const jobColumns = (
  now: number,
  withQueue: boolean,
  dead = false,
): readonly TableColumn<ListedJob & { queue: string }>[] => [
  { title: 'ID', of: (job) => job.id },
  ...(withQueue ? [{ title: 'QUEUE', of: (job: { queue: string }) => job.queue }] : []),
  {
    title: 'STATUS',
    of: (job) => job.status,
    style: (job) => STATUS_STYLES[job.status] ?? null,
  },
  { title: 'TYPE', of: (job) => job.type },
  { title: 'KEY', of: (job) => (job.partitionKey === job.id ? null : job.partitionKey) },
  { title: 'TRIES', of: (job) => `${job.attempts}/${job.maxAttempts}`, align: 'right' },
  { title: 'AGE', of: (job) => span(sinceMs(job.createdAt, now) ?? 0), align: 'right' },
  ...(dead ? DIED(now) : WAITS(now)),
  { title: 'ERROR', of: (job) => firstLine(job.lastError) },
];

const DIED = (now: number): readonly TableColumn<ListedJob>[] => [
  {
    title: 'DIED',
    of: ({ diedAt }) => (diedAt === null ? null : `${span(sinceMs(diedAt, now) ?? 0)} ago`),
    align: 'right',
  },
];

const WAITS = (now: number): readonly TableColumn<ListedJob>[] => [
  { title: 'DUE', of: (job) => due(job, now), align: 'right' },
  { title: 'WORKER', of: (job) => job.claimedBy },
];

function due(job: ListedJob, now: number): string | null {
  const ms = sinceMs(job.runAt, now);
  if (ms === null || job.status !== 'pending') return null;
  return ms >= 0 ? `${span(ms)} ago` : `in ${span(-ms)}`;
}

/** Its last attempt. What did not complete ended when somebody ended it. */
function took({ status, claimedAt, completedAt }: ArchivedJob): string | null {
  if (status !== 'completed' || claimedAt === null) return null;
  return span(Date.parse(completedAt) - Date.parse(claimedAt));
}

export const archivedColumns = (
  now: number,
  withQueue: boolean,
): readonly TableColumn<ArchivedJob & { queue: string }>[] => [
  { title: 'ID', of: (job) => job.id },
  ...(withQueue ? [{ title: 'QUEUE', of: (job: { queue: string }) => job.queue }] : []),
  { title: 'STATUS', of: (job) => job.status },
  { title: 'TYPE', of: (job) => job.type },
  { title: 'KEY', of: (job) => (job.partitionKey === job.id ? null : job.partitionKey) },
  { title: 'TRIES', of: (job) => `${job.attempts}/${job.maxAttempts}`, align: 'right' },
  {
    title: 'ENDED',
    of: (job) => `${span(sinceMs(job.completedAt, now) ?? 0)} ago`,
    align: 'right',
  },
  {
    title: 'TOOK',
    of: took,
    align: 'right',
  },
  { title: 'WORKER', of: (job) => job.claimedBy },
  { title: 'ERROR', of: (job) => firstLine(job.lastError) },
];
