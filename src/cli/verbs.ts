/** What a person does with jobs: the verbs, the states from which each moves a job, and whether it is final. */
import { cancel } from '../operate/cancel.js';
import { discard, retry } from '../operate/dead-letters.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';

export interface Verb {
  readonly name: 'retry' | 'discard' | 'cancel';
  readonly done: string;
  readonly noun: string;
  /** In which states it moves a job. */
  readonly from: readonly string[];
  /** It asks even when the jobs were named one by one. */
  readonly final: boolean;
  readonly act: (db: Executor, names: Names, ids: readonly string[]) => Promise<readonly string[]>;
}

export const VERBS = {
  retry: {
    name: 'retry',
    done: 'retried',
    noun: 'dead letter',
    from: ['dead_letter'],
    final: false,
    act: retry,
  },
  discard: {
    name: 'discard',
    done: 'discarded',
    noun: 'dead letter',
    from: ['dead_letter'],
    final: true,
    act: discard,
  },
  cancel: {
    name: 'cancel',
    done: 'cancelled',
    noun: 'job',
    from: ['pending', 'processing'],
    final: true,
    act: (db, names, ids) => cancel(db, names, ids, 'cancelled by an operator'),
  },
} satisfies Record<string, Verb>;
