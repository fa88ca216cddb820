/** The figures of a scrape. It asks what the status asks, so that a graph and the command line agree. */

import { isOutage } from '../../postgres/connect/transient.js';
import type { Executor } from '../../postgres/queryable.js';
import { listWorkers, stateOf } from '../fleet/workers.js';
import type { ProjectionGauges } from '../projections/lag.js';
import type { Part } from '../reading/reading.js';
import type { MissingGrant } from '../reading/rights.js';
import { countByStatus, EXACT_ROWS } from './counts.js';
import { type EmptyQueues, emptyQueues } from './empty.js';
import { type DueLine, dueOf, dueUnder, jobsOf, limitStates, readLimits } from './limits.js';
import { overdueByQueue, overdueMs } from './oldest.js';
import { listQueues, type QueueRow } from './queues.js';
import { waitingByReason } from './waiting.js';

/** Figures of one queue. */
export interface QueueGauges {
  readonly queue: string;
  readonly paused: boolean;
  /** Null before the first round. */
  readonly maintenanceAgeMs: number | null;
  readonly pending: number;
  /** Null when too many jobs wait for their time to count them. */
  readonly due: number | null;
  readonly processing: number;
  /** In processing, with a lease that is over. */
  readonly expired: number;
  readonly deadLetters: number;
  /** Of `pending`, those that a pause holds back; of a large queue at least so many. */
  readonly onHold: number;
  /** How long the oldest job has been due of those that do not start; 0 when work starts. */
  readonly stoppedMs: number;
  /** How long the oldest due job has been due that no pause holds back; 0 when none waits. */
  readonly oldestPendingMs: number;
  /** How long the schedule that is due longest has been due; 0 when none is. */
  readonly scheduleOverdueMs: number;
  /** `pending`, and `deadLetters` if there are many, are estimates. */
  readonly estimated: boolean;
}

/** A queue whose figures could not be read, while the database answered. */
export interface UnreadQueue {
  readonly queue: string;
  readonly error: Error;
  /** Only whether jobs wait there that nobody handles, what they wait for, its runs, or whether it has stopped; the other figures are there. */
  readonly only?: 'unhandled' | 'waiting' | 'runs' | 'stopped';
}

/** Due jobs of a type, or of a version of it, that no live worker handles. */
export interface UnhandledJobs {
  readonly queue: string;
  readonly type: string;
  /** So many were found; behind a long backlog there may be more. */
  readonly jobs: number;
}

/** What is used of a limit. */
export interface LimitGauges {
  readonly queue: string;
  /** Null: all types of the queue together. */
  readonly type: string | null;
  /** Null: any number may run. */
  readonly concurrency: number | null;
  readonly running: number;
  /** How many due jobs wait for a token of the rate, up to a bound; null: there is no rate. */
  readonly waiting: number | null;
}

/** Jobs that wait for one reason, by the words of `explain`. */
export interface WaitingJobs {
  readonly queue: string;
  readonly reason: string;
  /** Of a large queue at least so many. */
  readonly jobs: number;
}

/** Runs of a workflow that do the same. */
export interface RunGauges {
  readonly queue: string;
  readonly workflow: string;
  readonly state: string;
  /** Where very many wait, an estimate. */
  readonly runs: number;
  /** How long the one has waited that has waited longest; null: none of them waits. */
  readonly oldestMs: number | null;
}

/** Figures of all queues and workers, as the metrics show them. */
export interface Gauges {
  /** Of the queues that could be read. */
  readonly waiting: readonly WaitingJobs[];
  /** Of the queues that could be read. */
  readonly limits: readonly LimitGauges[];
  /** Those that this user may read. */
  readonly queues: readonly QueueGauges[];
  /** Locked, or without the right to read it. */
  readonly unread: readonly UnreadQueue[];
  /** Null: this user may not read the registry. */
  readonly workers: Readonly<Record<'alive' | 'draining' | 'silent', number>> | null;
  /** Of the queues where it could be found out within a second; the others are in `unread`. */
  readonly unhandled: readonly UnhandledJobs[];
  /** Of the workflows that workers have registered. */
  readonly runs: readonly RunGauges[];
  /** Builds of projections, where this user may read them. */
  readonly projections: readonly ProjectionGauges[];
  /** What this user may not read, and what is left out for it. */
  readonly missingGrants: readonly MissingGrant[];
  /** Of the worker that has been silent for longest and is not dead; null when there is none. */
  readonly oldestHeartbeatMs: number | null;
}

function ageMs(at: string, since: string | null): number | null {
  return since === null ? null : Math.max(0, Date.parse(at) - Date.parse(since));
}

/** The part that is read in one transaction. */
export type BasicGauges = Omit<Gauges, 'unhandled' | 'runs' | 'projections' | 'missingGrants'>;

/** One question after the other: a scrape is in no hurry. A queue that cannot be read is named. `unreadable`: to leave alone. */
export async function readGauges(
  db: Executor,
  schema: string,
  part: Part,
  unreadable: readonly MissingGrant[] = [],
): Promise<BasicGauges & { readonly empty: ReadonlySet<string> }> {
  const barred = (table: string) => unreadable.some((one) => one.table === table);
  const queues: QueueGauges[] = [];
  const unread: UnreadQueue[] = [];
  const rows = barred('queues') ? [] : await listQueues(db, schema);
  const empty =
    unreadable.length > 0 ? NONE : await part(() => emptyQueues(db, schema, rows)).catch(none);
  const overdue = empty.size > 0 ? await overdueByQueue(db, schema) : null;
  for (const row of rows) {
    if (unreadable.some((one) => one.queue === row.name)) continue;
    const read = () => queueGauges(db, schema, row, empty, overdue);
    try {
      queues.push(await (empty.has(row.name) ? read() : part(read)));
    } catch (error) {
      if (isOutage(error)) throw error;
      unread.push({ queue: row.name, error: error as Error });
    }
  }
  const keyed = (queue: string) =>
    rows.some(({ name, ordering }) => name === queue && ordering !== 'none');
  const hidden =
    ['limits', 'rates', 'permits', 'workers'].some(barred) ||
    unreadable.some(({ table }) => table.includes('_held('));
  const { limits, due } = hidden
    ? { limits: [], due: new Map<string, DueLine[]>() }
    : await limitGauges(db, schema, queues, keyed);
  const waiting: WaitingJobs[] = [];
  for (const one of queues) {
    if (empty.has(one.queue)) continue;
    const how = { ...one, keyed: keyed(one.queue), due: due.get(one.queue) ?? [] };
    try {
      waiting.push(...(await part(() => waitingOf(db, schema, how, limits))));
    } catch (error) {
      if (isOutage(error)) throw error;
      unread.push({ queue: one.queue, error: error as Error, only: 'waiting' });
    }
  }
  const figures = { waiting, limits, queues, unread, empty: new Set(empty.keys()) };
  if (barred('workers')) return { ...figures, workers: null, oldestHeartbeatMs: null };
  const workers = await listWorkers(db, schema);
  const having = (state: string) => workers.filter((worker) => stateOf(worker) === state).length;
  const silent = workers.map((worker) => worker.silentMs);
  return {
    ...figures,
    workers: { alive: having('alive'), draining: having('draining'), silent: having('silent') },
    oldestHeartbeatMs: silent.length === 0 ? null : Math.max(...silent),
  };
}

/** Asked of queues only that have a limit. */
async function limitGauges(
  db: Executor,
  schema: string,
  queues: readonly QueueGauges[],
  keyed: (queue: string) => boolean,
): Promise<{ limits: LimitGauges[]; due: Map<string, DueLine[]> }> {
  const limits: LimitGauges[] = [];
  const due = new Map<string, DueLine[]>();
  const rows = await readLimits(db, { schema, queue: 'inbox' }, null);
  for (const { queue } of queues) {
    const own = rows.filter((row) => row.queue === queue);
    if (own.length === 0) continue;
    const names = { schema, queue };
    const states = await limitStates(db, names);
    const rates = own.filter((row) => row.rateLimit !== null);
    const paced = (await dueUnder(db, names, rates, keyed(queue))).filter(
      ({ opensAt }) => opensAt !== null,
    );
    due.set(queue, paced);
    for (const row of own) {
      const { type, concurrency, rateLimit } = row;
      const waiting = rateLimit === null ? null : jobsOf(dueOf(row, paced, own));
      limits.push({ queue, type, concurrency, running: states.get(type)?.running ?? 0, waiting });
    }
  }
  return { limits, due };
}

async function waitingOf(
  db: Executor,
  schema: string,
  {
    queue,
    keyed,
    due,
    estimated,
  }: Pick<QueueGauges, 'queue' | 'estimated'> & { keyed: boolean; due: DueLine[] },
  limits: readonly LimitGauges[],
): Promise<WaitingJobs[]> {
  const full = limits.filter(
    (one) => one.queue === queue && one.concurrency !== null && one.running >= one.concurrency,
  );
  const found = await waitingByReason(
    db,
    { schema, queue },
    {
      keyed,
      rows: estimated ? null : EXACT_ROWS,
      fullTypes: full.flatMap(({ type }) => type ?? []),
      queueFull: full.some(({ type }) => type === null),
      paced: due,
    },
  );
  return found.map(({ reason, jobs }) => ({ queue, reason, jobs }));
}

const NONE: EmptyQueues = new Map();

/** Then they are asked one by one, which says what is wrong. */
function none(error: unknown): EmptyQueues {
  if (isOutage(error)) throw error;
  return NONE;
}

async function queueGauges(
  db: Executor,
  schema: string,
  { name: queue, paused, maintainedAt }: QueueRow,
  empty: EmptyQueues,
  overdue: ReadonlyMap<string, number> | null,
): Promise<QueueGauges> {
  const counts = await countByStatus(db, { schema, queue }, { empty: empty.get(queue)?.size });
  const { pending, scheduled, processing, expired, deadLetter, oldestDue, size } = counts;
  return {
    queue,
    paused,
    maintenanceAgeMs: ageMs(size.at, maintainedAt),
    pending,
    due: scheduled === null ? null : pending - scheduled,
    processing,
    expired,
    deadLetters: deadLetter,
    onHold: counts.onHold,
    stoppedMs: 0,
    oldestPendingMs: ageMs(size.at, oldestDue) ?? 0,
    scheduleOverdueMs: overdue ? (overdue.get(queue) ?? 0) : await overdueMs(db, { schema, queue }),
    estimated: counts.approximate,
  };
}
