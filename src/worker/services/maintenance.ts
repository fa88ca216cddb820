/**
 * What every queue needs now and then: silent workers are declared dead, what dead workers held is recovered,
 * and what is past its retention is pruned.
 */
import { hintQueue } from '../../fleet/wake.js';
import {
  type AgedPruning,
  prune,
  pruneArchive,
  pruneAudit,
  pruneBatch,
  pruneEffects,
  pruneIdempotency,
  pruneRates,
  pruneUnique,
  rememberPruned,
} from '../../maintenance/prune.js';
import { forgetClaims, recover } from '../../maintenance/recover.js';
import { forgetDeadWorkers, sweepDeadWorkers } from '../../maintenance/sweep.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { MAX_ROWS } from '../../postgres/statement.js';
import { inBatches, MAX_BATCHES, type Service } from './service.js';

/** Each batch finds its rows anew, and nobody waits for them: so larger ones. */
const PRUNE_BATCH = 5_000;

/**
 * Returns what dead workers held, and what nobody renewed. Safe from anywhere, at any time. `exhausted` is
 * called with each job that took its workers along too often and is a dead letter now.
 */
export function recoverAll(
  db: Executor,
  names: Names,
  recoverer: string,
  exhausted: (queue: string, job: string) => void,
): Promise<number> {
  return inBatches(MAX_ROWS, async (limit) => {
    const back = await recover(db, names, { limit, recoverer });
    // Cursors have passed these. Without the hint, polls find them.
    await hintQueue(db, names, back).catch(() => undefined);
    for (const { id, status } of back) if (status === 'dead_letter') exhausted(names.queue, id);
    return back.length;
  });
}

export interface MaintenanceNews {
  /** These workers were declared dead. */
  readonly dead: (ids: readonly string[]) => void;
  /** This job is a dead letter, because its workers vanished too often. */
  readonly exhausted: (queue: string, job: string) => void;
}

export function maintenanceServices(everyMs: number, news: MaintenanceNews): readonly Service[] {
  // What is past its retention may stay a little longer.
  const pruneEveryMs = 6 * everyMs;
  const pruning = (name: string, what: typeof pruneAudit): Service => ({
    name,
    everyMs: pruneEveryMs,
    atMost: MAX_BATCHES * PRUNE_BATCH,
    run: ({ withBitmaps, names }) =>
      inBatches(PRUNE_BATCH, (limit) => withBitmaps((db) => prune(db, names, what, limit))),
  });
  const aged = (name: string, what: AgedPruning): Service => ({
    name,
    everyMs: pruneEveryMs,
    // Of what it looks at some stands: where it pruned half of the most, something may be left.
    atMost: (MAX_BATCHES * PRUNE_BATCH) / 2,
    run: async ({ withBitmaps, engine, names }) => {
      let upTo: string | null = null;
      let [sum, seen] = [0, 0];
      await inBatches(PRUNE_BATCH, async (limit) => {
        const batch = await withBitmaps((db) => pruneBatch(db, names, what, limit, upTo));
        [upTo, sum, seen] = [batch.upTo, sum + batch.pruned, seen + batch.seen];
        return batch.seen;
      });
      if (upTo !== null && seen > 0) await rememberPruned(engine, names, what, upTo);
      return sum;
    },
  });
  return [
    {
      name: 'sweep',
      everyMs,
      run: async ({ engine, names, workerId, ttlMs, maySweep }) => {
        const dead = maySweep ? await sweepDeadWorkers(engine, names, workerId, ttlMs) : [];
        if (dead.length > 0) news.dead(dead);
        return dead.length;
      },
    },
    {
      name: 'recover',
      everyMs,
      run: async ({ engine, names, workerId }) => {
        const back = await recoverAll(engine, names, workerId, news.exhausted);
        await forgetClaims(engine, names);
        return back;
      },
    },
    {
      name: 'prune archive',
      everyMs: pruneEveryMs,
      run: ({ engine, names }) => pruneArchive(engine, names),
    },
    aged('prune idempotency keys', pruneIdempotency),
    aged('prune unique keys', pruneUnique),
    aged('prune effect markers', pruneEffects),
    pruning('prune audit', pruneAudit),
    pruning('prune rates', pruneRates),
    {
      name: 'prune registry',
      everyMs: pruneEveryMs,
      run: ({ engine, names }) => forgetDeadWorkers(engine, names),
    },
  ];
}
