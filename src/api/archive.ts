/** The way back for programs: finished jobs run again. */

import { isEmpty, type JobFilter } from '../inspect/job/filter.js';
import { countFinished } from '../inspect/job/finished.js';
import { HoldfastError, shown } from '../job/errors.js';
import { checkIds } from '../job/id.js';
import { checkInteger } from '../job/job.js';
import { checkFlag, checkKnown, type Known } from '../job/known-options.js';
import { ACT_OPTIONS, type ActOptions, checkActOptions } from '../operate/options.js';
import { type Access, ask, ofQueue, type QueueChoice } from './access.js';
import { recordOf } from './acts.js';
import { type JobsFilter, jobsFilter } from './filter.js';
import { finishedOf, type ReplayStep, replaying } from './replay.js';

export interface ReplayChoice extends QueueChoice, ActOptions {
  /** Completed jobs as well: they did their work, and do it once more. */
  readonly completed?: boolean;
  /** Discarded jobs only, and as the dead letters that they were: nothing runs. */
  readonly asDeadLetters?: boolean;
  /** What they did under `ctx.once` is done again. Default false: it is not. */
  readonly repeatEffects?: boolean;
  /** Only count. */
  readonly dryRun?: boolean;
  /** So many in one transaction; default 1,000, at most 10,000. */
  readonly batch?: number;
  /** No batch begins after it is aborted; what was done stays done. */
  readonly signal?: AbortSignal;
  /** Called after every batch. */
  readonly onProgress?: (step: ReplayStep) => void;
}

const OPTIONS = {
  ...{ queue: true, completed: true, asDeadLetters: true, repeatEffects: true, dryRun: true },
  ...{ batch: true, signal: true, onProgress: true, ...ACT_OPTIONS },
} as const satisfies Known<ReplayChoice>;

/** Ids, or what a filter names; all that was cancelled or discarded only where that is said. */
export type WhichFinished = readonly string[] | JobsFilter | 'all';

export const MAX_BATCH = 10_000;

const refused = (problem: string) =>
  new HoldfastError('OPTION_INVALID', `${problem} Nothing was done.`);

/** The states from which jobs come back. */
export function replayStatuses(
  asked: readonly string[] | undefined,
  { completed = false, asDeadLetters = false }: { completed?: boolean; asDeadLetters?: boolean },
): readonly string[] {
  if (asDeadLetters) return ['discarded'];
  return asked ?? ['cancelled', 'discarded', ...(completed ? ['completed'] : [])];
}

function filterOf(which: JobsFilter | 'all', choice: ReplayChoice): JobFilter {
  const { completed = false, asDeadLetters = false } = choice;
  const { filter, place } = jobsFilter(which === 'all' ? {} : which);
  if (which !== 'all' && isEmpty(filter))
    throw refused("The filter is empty; write archive.replay('all') for all of the archive.");
  if (filter.statuses && place !== 'archive')
    throw refused(`Jobs that are ${filter.statuses.join(', ')} are not in the archive.`);
  if (!completed && filter.statuses?.includes('completed'))
    throw refused('Completed jobs did their work; pass { completed: true } to run them again.');
  if (asDeadLetters && filter.statuses?.some((status) => status !== 'discarded'))
    throw refused('Only discarded jobs were dead letters; leave asDeadLetters or the status out.');
  return { ...filter, statuses: replayStatuses(filter.statuses, choice) };
}

async function count(access: Access, which: JobFilter | readonly string[], choice: ReplayChoice) {
  const statuses = replayStatuses(undefined, choice);
  const found = await ofQueue(access, choice, async (names) => {
    if (!Array.isArray(which))
      return ask(access, (db) => countFinished(db, names, which as JobFilter));
    const jobs = await finishedOf((work) => ask(access, work), names, which as readonly string[]);
    return jobs.filter(({ status }) => statuses.includes(status)).length;
  });
  return { found, moved: 0, keyTaken: 0, finished: false };
}

export function archive(access: Access) {
  return {
    /**
     * Finished jobs wait in their queue again, under their own ids and with all their attempts: cancelled and
     * discarded ones, for as long as the archive keeps them, and completed ones where that is asked for.
     */
    async replay(which: WhichFinished, choice: ReplayChoice = {}): Promise<ReplayStep> {
      checkKnown(choice, OPTIONS, 'archive.replay()', 'Nothing was done.');
      checkActOptions(choice);
      for (const name of ['completed', 'asDeadLetters', 'repeatEffects', 'dryRun'] as const)
        checkFlag(choice[name], name, 'Nothing was done.');
      const { completed = false, repeatEffects = false, batch = 1_000 } = choice;
      const restore = choice.asDeadLetters ?? false;
      if (typeof which === 'string' && which !== 'all')
        throw refused(`${shown(which)} names no jobs; for one job write [id].`);
      const wanted = Array.isArray(which)
        ? [...new Set(checkIds(which).map((id) => id.toLowerCase()))]
        : filterOf(which as JobsFilter | 'all', choice);
      checkInteger(batch, 'batch', 1, MAX_BATCH);
      if (choice.dryRun) return count(access, wanted, choice);
      let last: ReplayStep = { found: 0, moved: 0, keyTaken: 0, finished: false };
      await ofQueue(access, choice, async (names) => {
        const filter = Array.isArray(wanted) ? null : (which as object | 'all');
        const changes = restore ? { asDeadLetters: true } : null;
        const act = {
          act: 'replay',
          queue: names.queue,
          filter: shownFilter(filter),
          changes,
        } as const;
        const steps = replaying({
          ...{ pool: access.pool(), read: (work) => ask(access, work), names, which: wanted },
          ...{ completed, restore, repeatEffects, batch, signal: choice.signal },
          record: recordOf(act, choice),
        });
        for await (const step of steps) {
          last = step;
          choice.onProgress?.(step);
        }
      });
      return last;
    },
  };
}

/** As the audit keeps it. */
export const shownFilter = (which: object | 'all' | null): object | null =>
  which === 'all' ? { all: true } : which;
