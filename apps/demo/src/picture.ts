/** What one look at the shop and the fleet found, and the counts that are read from it. */
import type { Overview, QueueOverview } from 'holdfast/internal';
import { QUEUE } from './shop/jobs.js';
import type { Proof } from './shop/proof.js';

export interface Picture {
  readonly proof: Proof;
  readonly seen: Overview;
  /** When it was asked for. */
  readonly at: number;
  /** Jobs completed since the picture before. */
  readonly perSecond: number;
}

/** Of the jobs that run in order per order. */
function counts({ queues }: Overview): QueueOverview['counts'] {
  return (queues.find(({ queue }) => queue.name === QUEUE) as QueueOverview).counts;
}

/** All that is not over: checkouts as well, also those that wait for an answer. */
export function unfinished({ queues }: Overview): number {
  const each = queues.map(({ counts: one }) => one.pending + one.processing + one.waitingRuns);
  return each.reduce((sum, one) => sum + one, 0);
}

export function waiting(seen: Overview): number {
  const { pending, processing } = counts(seen);
  return pending + processing;
}

/** Whether a worker has any of it. */
export function isBusy({ queues }: Overview): boolean {
  return queues.some(({ counts: one }) => one.processing > 0);
}

export function deadLetters(seen: Overview): number {
  return counts(seen).deadLetter;
}
