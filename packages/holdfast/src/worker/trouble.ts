/**
 * What goes wrong in a worker that looks healthy from outside: handlers that run on without their jobs, and jobs that
 * have ended and cannot be settled. The registry gets it with the next heartbeat, so that `doctor` and `explain` know.
 */

import { describeError, summaryOf } from '../job/errors/failure.js';
import type { SharedDeps } from './deps.js';
import type { TroubleReport } from './lease/protocol.js';
import { MAX_TYPES } from './lease/recent.js';

/** A refusal is told of for so long. */
const TOLD_MS = 30_000;
/** More tables than that are one right: that of the schema. */
const MOST_DENIED = MAX_TYPES / 10;
const DENIED = '42501';

export function newTrouble({ log, emit }: Pick<SharedDeps, 'log' | 'emit'>) {
  const refused = new Map<string, { readonly since: number; jobs: number; why: string }>();
  /** By what the database said, what was tried and when last. */
  const denied = new Map<string, { readonly what: string; readonly at: number }>();

  return {
    report(leaked: TroubleReport['leaked']): TroubleReport | null {
      const now = performance.now();
      for (const [said, { at }] of denied) if (now - at > TOLD_MS) denied.delete(said);
      if (refused.size + denied.size + Object.keys(leaked).length === 0) return null;
      const kept = [...refused].map(([queue, { jobs, why }]) => [queue, { jobs, why }]);
      return {
        ...{ leaked, kept: Object.fromEntries(kept) },
        denied: [...denied].map(([said, { what }]) => ({ said, what })),
      };
    },
    /** Something failed; a right that is missing is told of. */
    failed(what: string, error: unknown): void {
      const { message, code } = describeError(error);
      if (code !== DENIED || (denied.size >= MOST_DENIED && !denied.has(message))) return;
      denied.set(summaryOf(message), { what, at: performance.now() });
    },
    /** So many jobs of the queue have ended and are not settled. */
    kept(queue: string, jobs: number, change: number, error: unknown): void {
      emit({ kind: 'settles-kept', queue, jobs, change, error });
      const before = refused.get(queue);
      if (before && jobs > 0) before.jobs = jobs;
      else if (before) {
        refused.delete(queue);
        const forMs = Math.round(performance.now() - before.since);
        log.info({ queue, forMs }, 'the database takes the outcomes of jobs again');
      } else if (jobs > 0) {
        const { message: err, code } = describeError(error);
        const why = summaryOf(code === null ? err : `${code} ${err}`);
        refused.set(queue, { since: performance.now(), jobs, why });
        log.error(
          { queue, jobs, err, code },
          'the database refuses to write how jobs ended; they did not fail, and their outcomes are kept and tried again',
        );
      }
    },
  };
}
