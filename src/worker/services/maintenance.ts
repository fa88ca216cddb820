/**
 * What every queue needs now and then: silent workers are declared dead, what dead workers held is recovered,
 * and what is past its retention is pruned.
 */
import { hintQueue } from '../../fleet/wake.js';
import { nextPages } from '../../maintenance/pages.js';
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
import { clearSuspects, forgetClaims, type Pages, recover } from '../../maintenance/recover.js';
import { forgetDeadWorkers, sweepDeadWorkers } from '../../maintenance/sweep.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { MAX_ROWS } from '../../postgres/statement.js';
import { inBatches, MAX_BATCHES, type Service } from './service.js';

/** Each batch finds its rows anew, and nobody waits for them: so larger ones. */
const PRUNE_BATCH = 5_000;

export interface RecoveryNews {
  /** This job is a dead letter, because its workers vanished too often. */
  exhausted(queue: string, job: string): void;
  /** Some of the jobs are suspects now, perhaps only for a moment. */
  suspects(queue: string): void;
}

/**
 * Returns what dead workers held, and what nobody renewed. Safe from anywhere, at any time. Claims that were made by
 * hand are looked for on these pages.
 */
export function recoverAll(
  db: Executor,
  names: Names,
  recoverer: string,
  news: RecoveryNews,
  pages?: Pages,
): Promise<number> {
  return inBatches(MAX_ROWS, async (limit) => {
    const back = await recover(db, names, { limit, recoverer, ...(pages && { pages }) });
    // Cursors have passed these. Without the hint, polls find them.
    await hintQueue(db, names, back).catch(() => undefined);
    for (const { id, status } of back)
      if (status === 'dead_letter') news.exhausted(names.queue, id);
    if (back.some(({ crashes }) => crashes > 1)) news.suspects(names.queue);
    return back.length;
  });
}

/** Suspects that nothing speaks against run like others again. */
export function clearAll(db: Executor, names: Names): Promise<number> {
  return inBatches(MAX_ROWS, async (limit) => {
    const cleared = await clearSuspects(db, names, limit);
    await hintQueue(db, names, cleared).catch(() => undefined);
    return cleared.length;
  });
}

export interface MaintenanceNews {
  /** These workers were declared dead. */
  readonly dead: (ids: readonly string[]) => void;
  readonly recovery: RecoveryNews;
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
        const pages = await nextPages(engine, names);
        const back = await recoverAll(engine, names, workerId, news.recovery, pages);
        await clearAll(engine, names);
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
