/**
 * Failed attempts a second, by queue, from what workers report with their heartbeats. A worker's rate is that between
 * its last two heartbeats, and holds until the next one. Nothing is asked of the database for it.
 */
import type { WorkerOverview } from '../inspect/overview.js';
import { failedOf } from '../inspect/workers.js';

interface Reported {
  readonly seenAt: number;
  readonly failed: Readonly<Record<string, number>>;
  readonly perSecond: Readonly<Record<string, number>>;
}

export class FailureRates {
  #reported: ReadonlyMap<string, Reported> = new Map();

  /** By queue, over all workers that are there. */
  update(workers: readonly WorkerOverview[]): ReadonlyMap<string, number> {
    const before = this.#reported;
    this.#reported = new Map(
      workers.map(({ worker }) => {
        const seenAt = Date.parse(worker.lastSeenAt);
        return [worker.id, reported(before.get(worker.id), seenAt, failedOf(worker))];
      }),
    );
    const sums = new Map<string, number>();
    for (const { perSecond } of this.#reported.values())
      for (const [queue, rate] of Object.entries(perSecond))
        sums.set(queue, (sums.get(queue) ?? 0) + rate);
    return sums;
  }
}

function reported(
  before: Reported | undefined,
  seenAt: number,
  failed: Reported['failed'],
): Reported {
  if (!before) return { seenAt, failed, perSecond: {} };
  if (seenAt <= before.seenAt) return before;
  const seconds = (seenAt - before.seenAt) / 1000;
  const perSecond = Object.entries(failed).map(([queue, count]) => [
    queue,
    Math.max(0, count - (before.failed[queue] ?? 0)) / seconds,
  ]);
  return { seenAt, failed, perSecond: Object.fromEntries(perSecond) };
}
