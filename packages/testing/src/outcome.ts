/** How an attempt ended, in the words of the kit: from what the worker learnt and from where the job stands now. */
import type { Job } from 'holdfast';
import type { AttemptEnd } from './test-worker.js';

/**
 * `retry`: it failed and runs again after `delayMs`. `lost`: somebody else owned the job when this attempt
 * ended, so nothing that it settled counts. `crashed`: the fault `crash` ended it.
 */
export type TestOutcome =
  | 'completed'
  | 'retry'
  | 'dead_letter'
  | 'snoozed'
  | 'cancelled'
  | 'lost'
  | 'crashed';

export function outcomeOf({ outcome, result }: AttemptEnd, row: Job | null): TestOutcome {
  if (result === 'lost') return 'lost';
  if (outcome.kind === 'snoozed') return 'snoozed';
  if (row?.status === 'dead_letter') return 'dead_letter';
  if (row?.status === 'cancelled') return 'cancelled';
  // Also a job that is gone: its queue keeps no archive.
  return row?.status === 'pending' ? 'retry' : 'completed';
}

/** After how long it runs again. */
export function delayOf({ outcome }: AttemptEnd, how: TestOutcome): number | null {
  return (how === 'retry' || how === 'snoozed') && 'delayMs' in outcome ? outcome.delayMs : null;
}
