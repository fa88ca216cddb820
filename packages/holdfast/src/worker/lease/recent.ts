/** What a heartbeat says of about the last minute: how attempts ended, and what started, by queue and type. */
import { UNIT_MS } from '../../job/options/duration.js';
import type { Attempts, Load, QueueLoad, Starts } from './protocol.js';

/** A heartbeat names so many types of a queue, those that started last; the others are one, `*`. */
export const MAX_TYPES = 50;

/** Counters that rise, and what they were about a minute ago. */
function minuteOf<Counts>(first: Counts, startedAt: number) {
  let counted = [{ at: startedAt, counts: first }];
  return (counts: Counts, at: number) => {
    // The newest of those that are a minute old is where the minute begins.
    const begins = counted.findLastIndex((one) => at - one.at >= UNIT_MS.m);
    counted = [...counted.slice(Math.max(0, begins)), { at, counts }];
    return counted[0] as (typeof counted)[0];
  };
}

/** How the attempts of about the last minute ended, by queue. A queue without any is left out. */
export function newRecentAttempts(first: Load['attempts'], startedAt: number) {
  const minute = minuteOf(first, startedAt);
  return (attempts: Load['attempts'], at: number) => {
    const from = minute(attempts, at);
    const ended = Object.entries(attempts).map(([queue, now]): [string, Attempts] => {
      const { failed, completed } = from.counts[queue] as Attempts;
      return [queue, { failed: now.failed - failed, completed: now.completed - completed }];
    });
    return {
      ms: Math.round(at - from.at),
      queues: Object.fromEntries(ended.filter(([, one]) => one.failed + one.completed > 0)),
    };
  };
}

/** What the registry is told of a queue of a worker. */
export interface RecentLoad extends Pick<QueueLoad, 'running' | 'held' | 'handlers'> {
  /** For so long all handlers have been busy, and none has begun another job; null: it is not so. */
  readonly fullMs: number | null;
  /** By type: how many attempts began in about the last minute, and how long ago the last one of all did. */
  readonly started: Starts;
}

/** The same for what started. A type of which nothing has started yet is left out. */
export function newRecentStarts(first: Load['queues'], startedAt: number) {
  const minute = minuteOf(first, startedAt);
  return (queues: Load['queues'], at: number): Record<string, RecentLoad> => {
    const from = minute(queues, at);
    const of = ([queue, load]: [string, QueueLoad]): [string, RecentLoad] => {
      const { running, held, handlers, fullSince } = load;
      const before = from.counts[queue]?.started ?? {};
      const all = Object.entries(load.started)
        .map(([type, [count, last]]): [string, [number, number]] => {
          return [type, [count - (before[type]?.[0] ?? 0), Math.max(0, Math.round(at - last))]];
        })
        .sort(([, a], [, b]) => a[1] - b[1]);
      const others = all.splice(MAX_TYPES).map(([, one]) => one);
      if (others[0]) all.push(['*', [others.reduce((sum, [n]) => sum + n, 0), others[0][1]]]);
      const fullMs = fullSince === null ? null : Math.max(0, Math.round(at - fullSince));
      return [queue, { running, held, handlers, fullMs, started: Object.fromEntries(all) }];
    };
    return Object.fromEntries(Object.entries(queues).map(of));
  };
}
