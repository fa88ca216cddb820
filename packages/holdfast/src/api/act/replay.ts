/**
 * Bringing finished jobs back: which ones, in the order of their enqueues, in batches that commit one by one. What is
 * done to a job and to its idempotency key stands in operate/replay.ts.
 */
import type pg from 'pg';
import { type FinishedJob, finishedByIds, finishedJobs } from '../../inspect/job/archive.js';
import type { JobFilter } from '../../inspect/job/filter.js';
import type { ActRecord } from '../../operate/audit.js';
import { repeatEffects, replay } from '../../operate/replay.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { together } from './acts.js';

/** How far a replay has come. */
export interface ReplayStep {
  /** Sums so far. */
  readonly found: number;
  /** Jobs that wait in their queue again. */
  readonly moved: number;
  /** Left in the archive, because another job has their idempotency key now. */
  readonly keyTaken: number;
  /** There is nothing further. */
  readonly finished: boolean;
}

export interface ReplayWork {
  readonly pool: pg.Pool;
  readonly read: <Value>(work: (db: Executor) => Promise<Value>) => Promise<Value>;
  readonly names: Names;
  readonly which: Which;
  /** Completed jobs as well. */
  readonly completed: boolean;
  readonly repeatEffects: boolean;
  /** Discarded ones only, and as dead letters. */
  readonly restore?: boolean | undefined;
  readonly batch: number;
  readonly record: ActRecord | null;
  /** No batch begins after it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

/** So many are looked up at once: the archive is read once for each chunk. */
const CHUNK = 50_000;
/** And so many by id, each of which costs a search. */
const IDS = 200;

export type Which = JobFilter | readonly string[];
export const isIds = (which: Which): which is readonly string[] => Array.isArray(which);

async function* chunks({ read, names, which }: ReplayWork): AsyncGenerator<FinishedJob[]> {
  if (isIds(which)) {
    yield await finishedOf(read, names, which);
    return;
  }
  let after: FinishedJob | null = null;
  for (;;) {
    const from: FinishedJob | null = after;
    const found: FinishedJob[] = await read((db) => finishedJobs(db, names, which, from, CHUNK));
    yield found;
    after = found.at(-1) ?? null;
    if (found.length < CHUNK) return;
  }
}

/** Those of the ids that are in the archive, the first enqueued first. */
export async function finishedOf(
  read: ReplayWork['read'],
  names: Names,
  ids: readonly string[],
): Promise<FinishedJob[]> {
  const all: FinishedJob[] = [];
  for (let at = 0; at < ids.length; at += IDS) {
    const some = ids.slice(at, at + IDS);
    all.push(...(await read((db) => finishedByIds(db, names, some))));
  }
  // Without the Z and filled up, ISO texts sort as times do, however many digits they have.
  const place = ({ createdAt, id }: FinishedJob) => `${createdAt.slice(0, -1).padEnd(26)}/${id}`;
  return all.sort((a, b) => (place(a) < place(b) ? -1 : 1));
}

export async function* replaying(work: ReplayWork): AsyncGenerator<ReplayStep> {
  let [found, moved, keyTaken] = [0, 0, 0];
  for await (const jobs of chunks(work)) {
    const wanted = jobs.filter(({ status }) =>
      work.restore ? status === 'discarded' : work.completed || status !== 'completed',
    );
    for (let at = 0; at < wanted.length; at += work.batch) {
      if (work.signal?.aborted) return;
      const some = wanted.slice(at, at + work.batch);
      const back = await replayBatch(work, some);
      found += some.length;
      moved += back.moved;
      keyTaken += back.keyTaken;
      yield { found, moved, keyTaken, finished: false };
    }
  }
  yield { found, moved, keyTaken, finished: true };
}

/** A job left the archive while its idempotency key was taken: the key must not stay without it. */
class Vanished extends Error {}

async function replayBatch(work: ReplayWork, jobs: readonly FinishedJob[]) {
  for (;;) {
    try {
      return await replayTogether(work, jobs);
    } catch (error) {
      // Those that are gone are not found again, so it ends.
      if (!(error instanceof Vanished)) throw error;
    }
  }
}

function replayTogether(work: ReplayWork, jobs: readonly FinishedJob[]) {
  const { pool, names, completed, restore = false, record } = work;
  return together(pool, async (db) => {
    const answers = await replay(db, names, jobs, { completed, restore });
    if (answers.some(({ moved, keyTaken }) => !moved && !keyTaken)) throw new Vanished();
    const ids = answers.filter(({ moved }) => moved).map(({ id }) => id);
    if (work.repeatEffects) await repeatEffects(db, names, ids);
    await record?.addJobs(db, names, ids);
    return { moved: ids.length, keyTaken: answers.filter((one) => one.keyTaken).length };
  });
}
