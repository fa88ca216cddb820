/** How queues, workers and jobs look: their columns for people, and their values for programs. */
import { type Busy, busyOf } from '../../inspect/fleet/reports.js';
import { holdsLock, isSilent, saysOf, stateOf } from '../../inspect/fleet/workers.js';
import type { ArchivedJob } from '../../inspect/job/archive.js';
import type { ListedJob } from '../../inspect/job/list.js';
import {
  type LockedQueue,
  type QueueOverview,
  type WorkerOverview,
  whyLocked,
} from '../../inspect/queue/overview.js';
import { describePaused, isPartlyPaused } from '../../inspect/queue/queues.js';
import { firstLine, span } from '../../inspect/reading/words.js';
import { type Call, EXIT } from '../command.js';
import { plain, right, type Style, type TableColumn } from './table.js';

export const sinceMs = (time: string | null, now: string | number) =>
  time === null ? null : Number(typeof now === 'string' ? Date.parse(now) : now) - Date.parse(time);

export const worry = (yes: boolean, style: Style = 'worry') => (yes ? style : null);

const figure = (count: number, approximate = false) =>
  `${approximate ? '~' : ''}${count.toLocaleString('en')}`;

export const queueColumns: readonly TableColumn<QueueOverview>[] = [
  { title: 'QUEUE', of: ({ queue }) => queue.name },
  right('PENDING', ({ counts }) => figure(counts.pending, counts.approximate)),
  right('SCHEDULED', ({ counts }) => counts.scheduled),
  right('ON HOLD', ({ counts }) => figure(counts.onHold)),
  // Claimed: the handlers of some of them may not have started.
  right('PROCESSING', ({ counts }) => figure(counts.processing)),
  right(
    'DEAD',
    ({ counts }) => figure(counts.deadLetter, counts.deadLetterApproximate),
    ({ counts }) => worry(counts.deadLetter > 0),
  ),
  right(
    'EXPIRED',
    ({ counts }) => figure(counts.expired),
    ({ counts }) => worry(counts.expired > 0),
  ),
  right('OLDEST', ({ counts }) => {
    const ms = sinceMs(counts.oldestDue, counts.size.at);
    return ms === null ? null : `${counts.oldestDueApproximate ? '~' : ''}${span(ms)}`;
  }),
  right(
    'DONE/S',
    ({ rate }) => rate && `${rate.atLeast ? '>' : ''}${rate.completedPerSecond.toFixed(1)}`,
  ),
  { title: 'READ BY', of: ({ queue }) => (queue.ordering === 'none' ? 'time' : 'key') },
  {
    title: 'STATE',
    of: ({ queue, stoppedMs }) => {
      if (stoppedMs !== null) return `STOPPED for ${span(stoppedMs)}`;
      if (queue.paused) return 'paused';
      if (!isPartlyPaused(queue)) return 'open';
      return `partly paused: ${firstLine(describePaused(queue), 60)}`;
    },
    style: ({ queue, stoppedMs }) =>
      stoppedMs === null ? worry(queue.paused || isPartlyPaused(queue)) : 'bad',
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
  right(
    'HEARD',
    ({ worker }) => span(worker.silentMs),
    ({ worker }) => worry(isSilent(worker), 'bad'),
  ),
  right('UP', ({ worker }) => span(worker.upMs)),
  right('HOLDS', ({ held }) => (complete ? held : '?')),
  right('BUSY', ({ worker }) => busyText([worker])),
  { title: 'VERSION', of: ({ worker }) => saysOf(worker, 'version') },
  { title: 'HOST', of: ({ worker }) => saysOf(worker, 'host') },
  right('PID', ({ worker }) => saysOf(worker, 'pid')),
  { title: 'HANDLES', of: ({ worker }) => handled(worker.handles) },
];

/** `7/10 70 %`: so many handlers ran of so many, when they last sent a heartbeat. Null: nobody says. */
export function busyText(workers: readonly WorkerOverview['worker'][]): string | null {
  const known = workers.map(busyOf).filter((one) => one !== null);
  if (known.length === 0) return null;
  const queues = new Map<string, { running: number; handlers: number }>();
  for (const [queue, { running, handlers }] of known.flatMap((one) => Object.entries(one.queues))) {
    const before = queues.get(queue) ?? { running: 0, handlers: 0 };
    queues.set(queue, {
      running: before.running + running,
      handlers: before.handlers + handlers,
    });
  }
  const share = ({ running, handlers }: Pick<Busy, 'running' | 'handlers'>) =>
    `${running}/${handlers} ${Math.round((running / handlers) * 100)} %`;
  // Each queue has handlers of its own: one that is full is not seen in a sum.
  if (queues.size > 1)
    return [...queues].map(([queue, one]) => `${queue} ${share(one)}`).join(', ');
  const running = known.reduce((sum, one) => sum + one.running, 0);
  const handlers = known.reduce((sum, one) => sum + one.handlers, 0);
  return share({ running, handlers });
}

function handled(handles: unknown): string {
  return Object.entries((handles ?? {}) as Record<string, Record<string, number>>)
    .map(([queue, types]) => `${queue}: ${Object.keys(types).join(' ')}`)
    .join('; ');
}

const UNKNOWN = { held: null, expired: null, oldestClaim: null };

export const workerValue = ({ worker, ...rest }: WorkerOverview, complete: boolean): object => ({
  ...worker,
  ...{ holdsLivenessLock: holdsLock(worker), state: stateOf(worker), busy: busyOf(worker) },
  ...(complete ? rest : UNKNOWN),
});

/** Queues that could not be read because they are locked, one line for each. */
export const lockedLines = (locked: readonly LockedQueue[]): string[] =>
  locked.map((one) => plain(`The queue "${one.queue.name}" could not be read. ${whyLocked(one)}`));

/** The same for programs. */
export const lockedPart = (locked: readonly LockedQueue[]): object =>
  locked.length === 0
    ? {}
    : { locked: locked.map((one) => ({ queue: one.queue.name, error: whyLocked(one) })) };

/** The exit code: what was shown is not all. */
export function noteLocked(out: Call['out'], locked: readonly LockedQueue[]): number {
  for (const line of lockedLines(locked)) out.note(line);
  return locked.length > 0 ? EXIT.failed : EXIT.ok;
}

const STATUS_STYLES: Readonly<Record<string, Style>> = { dead_letter: 'bad', processing: 'good' };

type Placed = { readonly queue: string };

/** What a job is, in a queue or in an archive. */
const identity = (
  withQueue: boolean,
): readonly TableColumn<(ListedJob | ArchivedJob) & Placed>[] => [
  { title: 'ID', of: (job) => job.id },
  ...(withQueue ? [{ title: 'QUEUE', of: (job: Placed) => job.queue }] : []),
  { title: 'STATUS', of: (job) => job.status, style: (job) => STATUS_STYLES[job.status] ?? null },
  { title: 'TYPE', of: (job) => job.type },
  { title: 'KEY', of: (job) => (job.partitionKey === job.id ? null : job.partitionKey) },
  right('TRIES', (job) => `${job.attempts}/${job.maxAttempts}`),
];

type Ran = Pick<ListedJob, 'claimedBy' | 'lastError'>;
const WORKER: TableColumn<Ran> = { title: 'WORKER', of: (job) => job.claimedBy };
const ERROR: TableColumn<Ran> = { title: 'ERROR', of: (job) => firstLine(job.lastError) };

export const ago = (time: string, now: number) => `${span(sinceMs(time, now) ?? 0)} ago`;

/** `dead`: of dead letters, which are due never and with nobody. */
export const jobColumns = (
  now: number,
  withQueue: boolean,
  dead = false,
): readonly TableColumn<ListedJob & Placed>[] => [
  ...identity(withQueue),
  right('AGE', (job) => span(sinceMs(job.createdAt, now) ?? 0)),
  ...(dead
    ? [right('DIED', ({ diedAt }: ListedJob) => diedAt && ago(diedAt, now))]
    : [right('DUE', (job: ListedJob) => due(job, now)), WORKER]),
  ERROR,
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
): readonly TableColumn<ArchivedJob & Placed>[] => [
  ...identity(withQueue),
  right('ENDED', (job) => ago(job.completedAt, now)),
  right('TOOK', took),
  WORKER,
  ERROR,
];
