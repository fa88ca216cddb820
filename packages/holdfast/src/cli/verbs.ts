/** What a person does with jobs: the verbs, the states from which each moves a job, and whether it asks. */
import { cancelFor, discardJobs, type MoveJobs, retryAndHint } from '../api/act/acts.js';

export interface Verb {
  readonly name: 'retry' | 'discard' | 'cancel';
  readonly done: string;
  readonly noun: string;
  /** In which states it moves a job. */
  readonly from: readonly string[];
  /** It asks even when the jobs were named one by one. */
  readonly final: boolean;
  /** `from`: only jobs that are still in one of these states. */
  readonly move: (reason: string | undefined, from?: readonly string[]) => MoveJobs;
}

export const VERBS = {
  retry: {
    name: 'retry',
    done: 'retried',
    noun: 'dead letter',
    from: ['dead_letter'],
    final: false,
    move: () => retryAndHint,
  },
  discard: {
    name: 'discard',
    done: 'discarded',
    noun: 'dead letter',
    from: ['dead_letter'],
    final: true,
    move: () => discardJobs,
  },
  cancel: {
    name: 'cancel',
    done: 'cancelled',
    noun: 'job',
    from: ['pending', 'processing'],
    final: true,
    move: cancelFor,
  },
} satisfies Record<string, Verb>;
