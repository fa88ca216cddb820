/** The way back for programs: finished jobs run again. */

import { countFinished } from '../../inspect/job/archive.js';
import { isEmpty, type JobFilter } from '../../inspect/job/filter.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkIds } from '../../job/id.js';
import { checkInteger } from '../../job/job.js';
import { checkFlag, checkKnown, checkNamed, type Known } from '../../job/options/known-options.js';
import { refuseTx } from '../../operate/bulk.js';
import { ACT_OPTIONS, type ActOptions, checkActOptions } from '../../operate/options.js';
import type { Names } from '../../postgres/names.js';
import { type Access, ask, ofQueue, type QueueChoice } from '../access.js';
import { type JobsFilter, jobsFilter, PARTS } from '../look/filter.js';
import { findJobs } from '../look/find-jobs.js';
import { recordOf } from './acts.js';
import { finishedOf, type ReplayStep, replaying } from './replay.js';

/** What `hf.archive.replay()` may do, and how. */
export interface ReplayChoice extends QueueChoice, ActOptions {
  /** Replay completed jobs as well: they do their work once more. Default false. */
  readonly completed?: boolean;
  /** Only discarded jobs, and as the dead letters that they were: nothing runs. Default false. */
  readonly asDeadLetters?: boolean;
  /** Repeat what they did under `ctx.once()`. Default false. */
  readonly repeatEffects?: boolean;
  /** Only count. Default false. */
  readonly dryRun?: boolean;
  /** Jobs in one transaction. Default 1,000, at most 10,000. */
  readonly batch?: number;
  /** After it is aborted no batch begins; what was done stays done. Default: none. */
  readonly signal?: AbortSignal;
  /** Called after every batch. Default: nothing. */
  readonly onProgress?: (step: ReplayStep) => void;
}

const OPTIONS = {
  ...{ queue: true, completed: true, asDeadLetters: true, repeatEffects: true, dryRun: true },
  ...{ batch: true, signal: true, onProgress: true, ...ACT_OPTIONS },
} as const satisfies Known<ReplayChoice>;

/** Ids, or what a filter names; all that was cancelled or discarded only where that is said. */
export type WhichFinished = readonly string[] | JobsFilter | 'all';

export const MAX_BATCH = 10_000;

const refused = (problem: string) => invalid(`${problem} Nothing was done.`);

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
  if (which !== 'all') checkNamed(which, ['status', ...PARTS], 'more jobs than you meant');
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

type Wanted = JobFilter | readonly string[];

/** By queue, what is asked for there. Ids without a queue are looked for in all of them. */
async function byQueue(access: Access, which: Wanted, { queue }: ReplayChoice) {
  const all = new Map<string, Wanted>([[queue ?? 'inbox', which]]);
  if (!Array.isArray(which) || queue !== undefined) return all;
  const found = await findJobs(access, which);
  const elsewhere = new Set([...found.values()].flat());
  if (elsewhere.size > 0)
    all.set(
      'inbox',
      which.filter((id) => !elsewhere.has(id)),
    );
  for (const [name, ids] of found) all.set(name, ids);
  return all;
}

async function count(access: Access, which: Wanted, choice: ReplayChoice): Promise<ReplayStep> {
  const statuses = replayStatuses(undefined, choice);
  let found = 0;
  for (const [queue, part] of await byQueue(access, which, choice)) {
    found += await ofQueue(access, { queue }, async (names) => {
      if (!Array.isArray(part))
        return ask(access, (db) => countFinished(db, names, part as JobFilter));
      const jobs = await finishedOf((work) => ask(access, work), names, part as readonly string[]);
      return jobs.filter(({ status }) => statuses.includes(status)).length;
    });
  }
  return { found, moved: 0, keyTaken: 0, finished: false };
}

export function archive(access: Access) {
  return {
    /**
     * Puts finished jobs back into their queue, under their own ids and with all their attempts: cancelled and discarded
     * ones as long as the archive keeps them, completed ones if you ask for it.
     * @example await hf.archive.replay({ type: 'send_receipt', newer: '1d' }, { dryRun: true });
     */
    async replay(asked: WhichFinished, choice: ReplayChoice = {}): Promise<ReplayStep> {
      refuseTx(
        choice,
        'archive.replay()',
        'Replay before you begin it, or after it has committed.',
      );
      checkKnown(choice, OPTIONS, 'archive.replay()', 'Nothing was done.');
      checkActOptions(choice);
      for (const name of ['completed', 'asDeadLetters', 'repeatEffects', 'dryRun'] as const)
        checkFlag(choice[name], name, 'Nothing was done.');
      const { completed = false, repeatEffects = false, batch = 1_000 } = choice;
      const restore = choice.asDeadLetters ?? false;
      if (typeof asked === 'string' && asked !== 'all')
        throw refused(`${shown(asked)} names no jobs; for one job write [id].`);
      const wanted = Array.isArray(asked)
        ? [...new Set(checkIds(asked).map((id) => id.toLowerCase()))]
        : filterOf(asked as JobsFilter | 'all', choice);
      checkInteger(batch, 'batch', 1, MAX_BATCH);
      if (choice.dryRun) return count(access, wanted, choice);
      let last: ReplayStep = { found: 0, moved: 0, keyTaken: 0, finished: false };
      const parts = [...(await byQueue(access, wanted, choice))];
      const replayIn = async (names: Names, which: Wanted, isLast: boolean) => {
        const before = last;
        const filter = Array.isArray(wanted) ? null : (asked as object | 'all');
        const changes = restore ? { asDeadLetters: true } : null;
        const act = {
          act: 'replay',
          queue: names.queue,
          filter: shownFilter(filter),
          changes,
        } as const;
        const steps = replaying({
          ...{ pool: access.pool(), read: (work) => ask(access, work), names, which },
          ...{ completed, restore, repeatEffects, batch, signal: choice.signal },
          record: recordOf(act, choice),
        });
        for await (const step of steps) {
          last = {
            found: before.found + step.found,
            moved: before.moved + step.moved,
            keyTaken: before.keyTaken + step.keyTaken,
            finished: step.finished && isLast,
          };
          choice.onProgress?.(last);
        }
      };
      for (const [n, [queue, which]] of parts.entries())
        await ofQueue(access, { queue }, (names) => replayIn(names, which, n === parts.length - 1));
      return last;
    },
  };
}

/** As the audit keeps it. */
export const shownFilter = (which: object | 'all' | null): object | null =>
  which === 'all' ? { all: true } : which;
