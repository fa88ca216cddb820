/**
 * Work that is due and does not start. Of each type with due jobs that nobody has paused, the oldest job is looked at: when
 * it has waited for long, and nothing of its type has started for long, `explain` says why. So there is one set of causes,
 * and the doctor, the status, the metrics and the dashboard agree. A cause by which others work meanwhile, such as the order of a key
 * or a limit, counts only after longer.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { heldTypes } from '../fleet/held.js';
import { queueLoadOf, startedAgoMs, startsIn } from '../fleet/reports.js';
import { isLive, listWorkers, takes, type WorkerRow } from '../fleet/workers.js';
import { begunIn, type DueType, dueTypes } from '../queue/due-types.js';
import type { LockedQueue, QueueOverview } from '../queue/overview.js';
import type { QueueRow } from '../queue/queues.js';
import type { Part } from '../reading/reading.js';
import { firstFew, many, span } from '../reading/words.js';
import { explainJob } from './explain.js';
import type { RingOwner } from './facts/situation.js';
import type { Reason, ReasonCode } from './reasons.js';

export interface StopLimits {
  /** A due job may wait for so long. */
  readonly stoppedMs: number;
  /** And so long ago the last job of its type may have started. */
  readonly quietMs: number;
  /** What waits for the order of its key, or for a limit, may wait for so long. */
  readonly oldestMs: number;
}

export const STOP_LIMITS: StopLimits = { stoppedMs: 30_000, quietMs: 60_000, oldestMs: 300_000 };

/** Due jobs of one queue that do not start, for one reason. */
export interface Stopped {
  readonly queue: string;
  /** Those of which the oldest job has waited longest first. */
  readonly types: readonly string[];
  /** So many were found. */
  readonly jobs: number;
  /** There may be more of them. */
  readonly more: boolean;
  /** The job that has waited longest, and for how long it has been due. */
  readonly oldest: string;
  readonly dueMs: number;
  /** How long ago a job of these types last started; null: as far as anybody knows none has. */
  readonly idleMs: number | null;
  /** What explain says of the oldest job. */
  readonly reason: Reason;
}

/** What is known of the oldest due job of a type. */
export interface Waits {
  readonly dueMs: number;
  /** How long ago a job of its type last started, and of any type of its queue; null: nobody knows. */
  readonly idleMs: number | null;
  readonly queueIdleMs: number | null;
  /** How long the worker has been up that can run it and has been up for longest; null: none can. */
  readonly upMs: number | null;
}

type Kind = 'stands' | 'flows' | 'held' | 'not due';

/** What each reason means for work that is due. One that is not named is that of a job that does not wait. */
const KINDS: Partial<Readonly<Record<ReasonCode, Kind>>> = {
  // A person must act, or nothing happens.
  ...{ no_worker: 'stands', no_handler: 'stands', version_too_new: 'stands', no_body: 'stands' },
  ...{ row_locked: 'stands', workers_silent: 'stands', key_held: 'stands' },
  // Its turn has not come: as long as the queue starts others, all is as it should be.
  ...{ handlers_busy: 'flows', beside_suspect: 'flows', waiting_its_turn: 'flows' },
  // Somebody wanted it so.
  ...{ key_full: 'held', group_full: 'held', rate_limited: 'held', limit_reached: 'held' },
  suspect: 'held',
};

function kindOf({ code, fix, untaken }: Reason): Kind {
  if (untaken) return 'stands';
  // Nobody need act on a key whose job runs or is tried again.
  if (code === 'key_held' && fix === null) return 'held';
  return KINDS[code] ?? 'not due';
}

const least = (...all: readonly (number | null)[]) => {
  const known = all.filter((ms) => ms !== null);
  return known.length === 0 ? null : Math.min(...known);
};

/** Pure: whether work that waits like this does not start. */
export function isStopped(reason: Reason, waits: Waits, limits: StopLimits): boolean {
  const { dueMs, idleMs, queueIdleMs, upMs } = waits;
  const quiet = (ms: number | null) => (least(ms, upMs) ?? dueMs) > limits.quietMs;
  if (dueMs <= limits.stoppedMs || !quiet(idleMs)) return false;
  const kind = kindOf(reason);
  if (kind === 'held') return dueMs > limits.oldestMs;
  return kind === 'stands' || (kind === 'flows' && quiet(queueIdleMs));
}

/** So many oldest jobs of a queue are explained. */
const MOST_EXPLAINED = 5;

export interface StopQuestion {
  readonly queue: QueueRow;
  /** With the dead: what they began counts too. */
  readonly workers: readonly WorkerRow[];
  readonly limits?: StopLimits;
  readonly ringOwner?: RingOwner | undefined;
}

export async function findStopped(
  db: Executor,
  schema: string,
  { queue, workers, limits = STOP_LIMITS, ringOwner }: StopQuestion,
): Promise<Stopped[]> {
  if (queue.paused) return [];
  const names: Names = { schema, queue: queue.name };
  const late = (await dueTypes(db, names, queue.ordering !== 'none')).filter(
    ({ dueMs }) => dueMs > limits.stoppedMs,
  );
  if (late.length === 0) return claimedAhead(db, names, workers, limits);
  const said = startsIn(workers, queue.name);
  const seen = await begunIn(db, names, limits.quietMs);
  const queueIdleMs = least(...said.values(), ...seen.values());
  const found: Stopped[] = [];
  for (const one of late) {
    const idleMs = least(startedAgoMs(said, one.type), seen.get(one.type) ?? null);
    if (found.length >= MOST_EXPLAINED || (idleMs !== null && idleMs <= limits.quietMs)) continue;
    const explained = await explainJob(db, schema, one.oldest, {
      ...{ queues: [queue.name], ringOwner },
    });
    const { version } = explained.job ?? { version: 1 };
    const waits = {
      dueMs: one.dueMs,
      idleMs,
      queueIdleMs,
      upMs: upMs(workers, names, one, version),
    };
    if (!isStopped(explained, waits, limits)) continue;
    const { id: _, also: __, job: ___, bucketOwner: ____, ...reason } = explained;
    found.push({ ...{ queue: queue.name, types: [one.type], idleMs, reason }, ...rest(one) });
  }
  return grouped(found);
}

/**
 * Nothing waits in the queue, and yet work does not start: workers have claimed it ahead, and a handler has not become free
 * for long in any of them.
 */
async function claimedAhead(
  db: Executor,
  names: Names,
  workers: readonly WorkerRow[],
  { quietMs }: StopLimits,
): Promise<Stopped[]> {
  const full = workers.filter(isLive).flatMap(({ id, ...worker }) => {
    const load = queueLoadOf({ id, ...worker }, names.queue);
    const ahead = load === null ? 0 : load.held - load.running;
    return load && ahead > 0 && (load.fullMs ?? 0) > quietMs
      ? [{ id, ahead, fullMs: load.fullMs as number, handlers: load.handlers }]
      : [];
  });
  if (full.length === 0) return [];
  const ids = full.map(({ id }) => id);
  const held = (await heldTypes(db, names, ids)).filter(({ type }) => type !== null);
  const longest = held.toSorted((a, b) =>
    (a.oldestClaim ?? '') < (b.oldestClaim ?? '') ? -1 : 1,
  )[0];
  if (!longest) return [];
  const jobs = full.reduce((sum, { ahead }) => sum + ahead, 0);
  const fullMs = Math.max(...full.map((one) => one.fullMs));
  const who = full.map(({ id, handlers }) => `${id} (${many(handlers, 'handler')})`);
  const what = held.map((one) => `${one.jobs.toLocaleString('en')} ${one.type}`);
  const reason: Reason = {
    code: 'handlers_busy',
    text: `They were claimed ahead by ${firstFew(who, 3, 'worker')}, where no handler has become free for ${span(fullMs)}; held are ${firstFew(what, 3, 'type')}.`,
    fix: `holdfast jobs show ${longest.longest} shows the job that is held for longest`,
    longest: { job: longest.longest, worker: longest.worker },
  };
  const types = [...new Set(held.flatMap(({ type }) => type ?? []))];
  return [
    {
      ...{ queue: names.queue, types, jobs, more: false, oldest: longest.longest },
      ...{ dueMs: fullMs, idleMs: fullMs, reason },
    },
  ];
}

const rest = ({ jobs, more, oldest, dueMs }: DueType) => ({ jobs, more, oldest, dueMs });

function upMs(
  workers: readonly WorkerRow[],
  { queue }: Names,
  { type }: DueType,
  version: number,
): number | null {
  const able = workers.filter(
    (worker) => isLive(worker) && takes(worker, queue, { type, version }),
  );
  return able.length === 0 ? null : Math.max(...able.map((worker) => worker.upMs));
}

/** One for each cause: types that wait for the same are one. */
function grouped(all: readonly Stopped[]): Stopped[] {
  const causes = new Map<string, Stopped>();
  for (const one of all) {
    const cause = `${one.reason.code} ${one.reason.fix}`;
    const first = causes.get(cause);
    causes.set(
      cause,
      first
        ? {
            ...first,
            types: [...first.types, ...one.types],
            jobs: first.jobs + one.jobs,
            more: first.more || one.more,
            idleMs: least(first.idleMs, one.idleMs),
          }
        : one,
    );
  }
  return [...causes.values()];
}

/**
 * The same for queues whose counts are known, each of which gets its `stoppedMs`. Asked only where the oldest due job has
 * waited for long, or jobs are in the hands of workers. A queue that does not answer in time, or may not be read, is passed over.
 */
export async function markStopped<Seen extends QueueOverview | LockedQueue>(
  db: Executor,
  part: Part,
  schema: string,
  queues: readonly Seen[],
  ringOwner?: RingOwner,
): Promise<{ queues: Seen[]; stopped: Stopped[] }> {
  const counted = queues.filter((one): one is Seen & QueueOverview => 'counts' in one);
  const late = counted.filter((one) => isOld(one, STOP_LIMITS));
  const busy = counted.filter((one) => one.counts.processing > 0 && !late.includes(one));
  const stopped: Stopped[] = [];
  if (late.length + busy.length === 0) return { queues: [...queues], stopped };
  const workers = await part(() => listWorkers(db, schema, { withDead: true })).catch(() => null);
  for (const { queue } of workers ? late : []) {
    const question = { queue, workers: workers ?? [], ringOwner };
    stopped.push(...(await part(() => findStopped(db, schema, question)).catch(() => [])));
  }
  for (const { queue } of workers ? busy : []) {
    const names = { schema, queue: queue.name };
    const ask = () => claimedAhead(db, names, workers ?? [], STOP_LIMITS);
    stopped.push(...(await part(ask).catch(() => [])));
  }
  const marked = queues.map((one): Seen => {
    const own = stopped.filter(({ queue }) => queue === one.queue.name);
    if (own.length === 0 || !('counts' in one)) return one;
    return { ...one, stoppedMs: Math.max(...own.map(({ dueMs }) => dueMs)) };
  });
  return { queues: marked, stopped };
}

const isOld = ({ counts: { oldestDue, size } }: QueueOverview, { stoppedMs }: StopLimits) =>
  oldestDue !== null && Date.parse(size.at) - Date.parse(oldestDue) > stoppedMs;
