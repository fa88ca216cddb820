/** A settle that waits to be sent, what the database may answer, and which of those that wait may still be sent. */
import type { Settled } from '../../settle/settled.js';
import type { SettleResult } from '../events.js';

export type Results = (id: string) => SettleResult;
export type Done = (result: SettleResult | Refusal) => void;
/** `held up`: it may go better later. `abandoned`: nobody waits for an answer any more. */
export type Answer = Results | Refusal | 'held up' | 'abandoned';

/** Postgres refuses to settle a job in this way, and will refuse it again. */
export class Refusal {
  readonly error: unknown;
  /** It takes no settle of this kind just now, of whichever job. */
  readonly ofAll: boolean;

  constructor(error: unknown, ofAll: boolean) {
    this.error = error;
    this.ofAll = ofAll;
  }
}

export interface Waiting<T> {
  readonly workerId: string;
  readonly item: T;
  readonly done: Done;
}

/**
 * Those that may still count, in the order in which locks are taken: two groups cannot deadlock. What ran before a job
 * may have been lost, as an earlier group has found: nothing behind that may count. And this worker may have claimed
 * the job again after the lease had run out: a job has one result in a statement.
 */
export function sendable<T extends Settled>(group: readonly Waiting<T>[]): Waiting<T>[] {
  const newest = newestGenerations(group);
  const whole = group.filter(({ item, done }) => {
    const older = newest !== null && item.generation < (newest.get(item.id) ?? 0);
    const broken = older || item.broken?.() === true;
    if (broken) done('lost');
    return !broken;
  });
  return whole.sort((a, b) => (a.item.id < b.item.id ? -1 : 1));
}

/** Null, and that is nearly always: no job stands in the group twice. */
function newestGenerations(group: readonly Waiting<Settled>[]): Map<string, number> | null {
  const newest = new Map<string, number>();
  for (const { item } of group)
    newest.set(item.id, Math.max(item.generation, newest.get(item.id) ?? 0));
  return newest.size < group.length ? newest : null;
}
