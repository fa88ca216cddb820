/** What was written, as events: one for each type. */
import type { Enqueued } from './enqueue.js';
import type { NewJob } from './insert.js';

export function enqueuedEvents(
  queue: string,
  jobs: readonly NewJob[],
  written: readonly Enqueued[],
) {
  const byType = new Map<string, { count: number; deduplicated: number }>();
  for (const [index, { type }] of jobs.entries()) {
    const seen = byType.get(type) ?? { count: 0, deduplicated: 0 };
    seen.count++;
    if (written[index]?.deduplicated) seen.deduplicated++;
    byType.set(type, seen);
  }
  return [...byType].map(([type, counts]) => ({
    kind: 'enqueued' as const,
    queue,
    type,
    ...counts,
  }));
}
