/**
 * Acts of a person: what is done, the hint to workers that sleep and the row in the audit, in one transaction. The
 * methods of a Holdfast and the command line go through here, so nothing is done that the audit does not know.
 */
import type pg from 'pg';
import { hintQueue } from '../../fleet/wake.js';
import { invalid } from '../../job/errors/holdfast-error.js';
import { type Act, type ActName, ActRecord } from '../../operate/audit.js';
import { cancel } from '../../operate/cancel.js';
import { discard, retryLetters } from '../../operate/dead-letters.js';
import { drainWorker } from '../../operate/drain.js';
import type { ActOptions } from '../../operate/options.js';
import { type Pruned, pruneArchiveOlder } from '../../operate/prune.js';
import { MAX_PAUSED, type QueuePart, setPartPaused, setPaused } from '../../operate/queue.js';
import { untilNotLost } from '../../postgres/connect/backoff.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import type { Names } from '../../postgres/names.js';
import {
  type Executor,
  engineExecutor,
  executor,
  type Transaction,
} from '../../postgres/queryable.js';
import { pause, remove, resume, runNow, type Turned } from '../../schedule/operate.js';
import { forgetFailures, forgetStepsFrom } from '../../workflow/rows/retry.js';
import type { Access } from '../access.js';

/** Null: it is not to be recorded. */
export function recordOf(act: Act, options: ActOptions): ActRecord | null {
  const { reason, actor, audit = true } = options;
  return audit ? new ActRecord({ ...act, reason, actor }) : null;
}

/** An act waits for a lock for so long; then it fails with 55P03 and has done nothing. */
export const ACTING = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10s'`;

/** Committed together or not at all. `work` may be done again, after a deadlock. */
export const together = <Value>(
  pool: pg.Pool,
  work: (db: Executor, client: pg.PoolClient) => Promise<Value>,
): Promise<Value> =>
  untilNotLost(() =>
    withTransaction(
      pool,
      (client) => work(engineExecutor(client, { prepare: false }), client),
      ACTING,
    ),
  );

/** The same in the caller's transaction, if there is one; `call` has been checked. */
export async function actIn<Value>(
  access: Pick<Access, 'pool'>,
  call: { readonly tx?: Transaction },
  work: (db: Executor) => Promise<Value>,
): Promise<Value> {
  // Also with a transaction: a Holdfast that is closed does nothing.
  const pool = access.pool();
  return call.tx ? work(executor(call.tx)) : together(pool, work);
}

/** Moves jobs by their ids and returns those that it moved. */
export type MoveJobs = (db: Executor, names: Names, ids: readonly string[]) => Promise<string[]>;

/** Retried dead letters lie where workers have read already. */
export const retryAndHint: MoveJobs = async (db, names, ids) => {
  const back = await retryLetters(db, names, ids);
  await forgetFailures(
    db,
    names,
    back.map(({ id }) => id),
  );
  await hintQueue(db, names, back);
  return back.map(({ id }) => id);
};

/** Runs of workflows, from a step on. */
export const retryFrom =
  (step: string): MoveJobs =>
  async (db, names, ids) => {
    const back = await retryLetters(db, names, ids);
    for (const { id } of back) await forgetStepsFrom(db, names, id, step);
    await hintQueue(db, names, back);
    return back.map(({ id }) => id);
  };

export const discardJobs: MoveJobs = discard;

export const cancelFor =
  (reason = 'cancelled by an operator', from?: readonly string[]): MoveJobs =>
  (db, names, ids) =>
    cancel(db, names, ids, reason, from);

interface MovementIn {
  readonly names: Names;
  readonly move: MoveJobs;
  readonly record: ActRecord | null;
}

export interface Movement extends MovementIn {
  readonly pool: pg.Pool;
}

/** One batch, in the transaction that is open there. */
export async function moveJobsIn(
  db: Executor,
  { names, move, record }: MovementIn,
  ids: readonly string[],
): Promise<string[]> {
  const moved = await move(db, names, ids);
  await record?.addJobs(db, names, moved);
  return moved;
}

/** One batch. */
export const moveJobs = (movement: Movement, ids: readonly string[]): Promise<string[]> =>
  together(movement.pool, (db) => moveJobsIn(db, movement, ids));

/** Whether the queue, or this part of it, was paused before; null: there is no such queue. */
export function turnQueue(
  pool: pg.Pool,
  names: Names,
  paused: boolean,
  options: ActOptions,
  part: QueuePart | null = null,
): Promise<boolean | null> {
  const act = { act: paused ? 'pause' : 'resume', queue: names.queue, filter: part } as const;
  return together(pool, async (db) => {
    const was = await (part ? turnPart(db, names, part, paused) : setPaused(db, names, paused));
    if (was !== null && was !== paused) await recordOf(act, options)?.add(db, names);
    return was;
  });
}

async function turnPart(
  db: Executor,
  names: Names,
  part: QueuePart,
  paused: boolean,
): Promise<boolean | null> {
  const row = await setPartPaused(db, names, part, paused);
  if (paused && row && row.most > MAX_PAUSED) {
    throw invalid(
      `${MAX_PAUSED} types or keys of the queue "${names.queue}" are paused already; nothing was paused. ` +
        'Pause the queue, or resume some of them.',
    );
  }
  return row?.was ?? null;
}

/** What the worker was before; see operate/drain.ts. */
export function drain(pool: pg.Pool, schema: string, id: string, options: ActOptions) {
  return together(pool, async (db) => {
    const was = await drainWorker(db, schema, id);
    const act = { act: 'drain', queue: null, changes: { worker: id } } as const;
    if (was === 'alive') await recordOf(act, options)?.add(db, { schema, queue: 'inbox' });
    return was;
  });
}

/** One batch. */
export function pruneBatch(
  pool: pg.Pool,
  names: Names,
  { olderMs, limit }: { readonly olderMs: number; readonly limit: number },
  record: ActRecord | null,
): Promise<Pruned> {
  return together(pool, async (db) => {
    const batch = await pruneArchiveOlder(db, names, olderMs, limit);
    await record?.addJobs(db, names, batch.pruned);
    return batch;
  });
}

const SCHEDULE_ACTS = {
  ...{ pause_schedule: pause, resume_schedule: resume },
  ...{ delete_schedule: remove, run_schedule: runNow },
} as const satisfies Partial<
  Record<ActName, (db: Executor, names: Names, name: string) => Promise<Turned>>
>;

type ScheduleActs = typeof SCHEDULE_ACTS;

/** In the caller's transaction. */
export async function actOnSchedule<Verb extends keyof ScheduleActs>(
  db: Executor,
  schema: string,
  verb: Verb,
  name: string,
  options: ActOptions,
): Promise<Awaited<ReturnType<ScheduleActs[Verb]>>> {
  const names = { schema, queue: 'inbox' };
  const done = (await SCHEDULE_ACTS[verb](db, names, name)) as Turned;
  const act = { act: verb, queue: done.queue, changes: { schedule: name } };
  if (done.changed) await recordOf(act, options)?.add(db, names);
  return done as Awaited<ReturnType<ScheduleActs[Verb]>>;
}
