/**
 * What a worker says of one of its queues: how many of its handlers run, since when all have been busy, and what started.
 * It is asked several times a second and looks at counters; a job costs nothing more.
 */
import { monotonicMs, type QueueLoad } from './lease/protocol.js';
import type { Route } from './run/handler-context.js';
import type { Time } from './time.js';

interface LoadDeps {
  readonly routes: readonly Route[];
  /** How many handlers the queue has. */
  readonly handlers: number;
  readonly running: () => number;
  readonly held: () => number;
  readonly time: Pick<Time, 'now'>;
}

export function newQueueLoad({ routes, handlers, running, held, time }: LoadDeps): () => QueueLoad {
  /** To the clock that all threads share. */
  const offset = monotonicMs() - time.now();
  /** Jobs that run for as long as their worker always take all of its handlers. */
  const residents = routes.some((route) => route.residents !== undefined);
  let fullSince: number | null = null;
  let begun = 0;
  return () => {
    const known = routes.flatMap(({ job, starts }) => (starts?.count ? [{ job, starts }] : []));
    const total = known.reduce((sum, { starts }) => sum + starts.count, 0);
    const isFull = !residents && running() >= handlers;
    // A handler that begins another job was free before.
    if (!isFull) fullSince = null;
    else if (fullSince === null || total !== begun) fullSince = Math.round(time.now() + offset);
    begun = total;
    const started = known.map(({ job, starts }) => {
      return [job.type, [starts.count, Math.round(starts.at + offset)]] as const;
    });
    return {
      running: running(),
      held: held(),
      handlers,
      fullSince,
      started: Object.fromEntries(started),
    };
  };
}
