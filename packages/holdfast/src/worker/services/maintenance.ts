/**
 * What every queue needs now and then: silent workers are declared dead, what dead workers held is recovered,
 * and what is past its retention is pruned.
 */

import {
  type AgedPruning,
  prune,
  pruneArchive,
  pruneAudit,
  pruneChildren,
  pruneChunk,
  pruneEffects,
  pruneIdempotency,
  pruneRates,
  pruneSignals,
  pruneSteps,
  pruneUnique,
  rememberPruned,
} from '../../maintenance/prune.js';
import { forgetClaims, nextPages } from '../../maintenance/recover.js';
import { forgetDeadWorkers, sweepDeadWorkers } from '../../maintenance/sweep.js';
import { MAX_ROWS } from '../../postgres/statement.js';
import type { Recovery } from './recovery.js';
import { inChunks, MAX_CHUNKS, type Service } from './service-loop.js';

/** Each chunk finds its rows anew, and nobody waits for them: so larger ones. */
const PRUNE_CHUNK = 5 * MAX_ROWS;

/** `dead` is told whom a sweep has declared dead. */
export function maintenanceServices(
  everyMs: number,
  recovery: Pick<Recovery, 'recoverAll' | 'clearAll'>,
  dead: (ids: readonly string[]) => void,
): readonly Service[] {
  // What is past its retention may stay a little longer.
  const rare = (name: string, run: Service['run']) => ({ name, everyMs: 6 * everyMs, run });
  const most = MAX_CHUNKS * PRUNE_CHUNK;
  const pruning = (name: string, what: typeof pruneAudit): Service => ({
    ...rare(name, ({ withBitmaps, names }) =>
      inChunks(PRUNE_CHUNK, (limit) => withBitmaps((db) => prune(db, names, what, limit))),
    ),
    atMost: most,
  });
  const aged = (name: string, what: AgedPruning): Service => ({
    ...rare(name, async ({ withBitmaps, engine, names }) => {
      let upTo: string | null = null;
      let [sum, seen] = [0, 0];
      await inChunks(PRUNE_CHUNK, async (limit) => {
        const chunk = await withBitmaps((db) => pruneChunk(db, names, what, limit, upTo));
        [upTo, sum, seen] = [chunk.upTo, sum + chunk.pruned, seen + chunk.seen];
        return chunk.seen;
      });
      if (upTo !== null && seen > 0) await rememberPruned(engine, names, what, upTo);
      return sum;
    }),
    // Of what it reads some stands: where it pruned half of the most, something may be left.
    atMost: most / 2,
  });
  const sweep: Service['run'] = async ({ engine, names, workerId, ttlMs, maySweep }) => {
    const swept = maySweep ? await sweepDeadWorkers(engine, names, workerId, ttlMs) : [];
    if (swept.length > 0) dead(swept);
    return swept.length;
  };
  const recover: Service['run'] = async ({ engine, names }) => {
    const back = await recovery.recoverAll(names, await nextPages(engine, names));
    await recovery.clearAll(names);
    await forgetClaims(engine, names);
    return back;
  };
  return [
    { name: 'sweep', everyMs, run: sweep },
    { name: 'recover', everyMs, run: recover },
    rare('prune archive', ({ engine, names }) => pruneArchive(engine, names)),
    aged('prune idempotency keys', pruneIdempotency),
    aged('prune unique keys', pruneUnique),
    aged('prune effect markers', pruneEffects),
    aged('prune steps of runs', pruneSteps),
    aged('prune signals', pruneSignals),
    aged('prune outcomes of children', pruneChildren),
    pruning('prune audit', pruneAudit),
    pruning('prune rates', pruneRates),
    rare('prune registry', ({ engine, names }) => forgetDeadWorkers(engine, names)),
  ];
}
