/** What one look at the shop and the fleet found, and the counts that are read from it. */
import type { Overview, QueueOverview } from 'holdfast/internal';
import type { Proof } from './shop/proof.js';

export interface Picture {
  readonly proof: Proof;
  readonly seen: Overview;
  /** When it was asked for. */
  readonly at: number;
  /** Jobs completed since the picture before. */
  readonly perSecond: number;
}

function counts({ queues }: Overview): QueueOverview['counts'] {
  return (queues[0] as QueueOverview).counts;
}

export function waiting(seen: Overview): number {
  const { pending, processing } = counts(seen);
  return pending + processing;
}

export function processing(seen: Overview): number {
  return counts(seen).processing;
}

export function deadLetters(seen: Overview): number {
  return counts(seen).deadLetter;
}
