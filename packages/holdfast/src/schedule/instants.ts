/** When a schedule fires, as a pure function of what it says and of an instant before. Intervals begin with 1970 in UTC. */
import { hash32 } from '../job/key.js';
import { cronLine } from './cron.js';
import { nextInZone } from './zone.js';

/** One of `cron` and `everyMs`. */
export interface Timing {
  readonly cron: string | null;
  readonly everyMs: number | null;
  readonly timezone: string;
}

/** Schedules of many tenants say the same, and ask for the same instants. */
const MAX_KEPT = 10_000;
const kept = new Map<string, number | null>();

/** The first instant after `after`; null: there is none any more. In milliseconds. */
export function nextInstant({ cron, everyMs, timezone }: Timing, after: number): number | null {
  if (everyMs !== null) return (Math.floor(after / everyMs) + 1) * everyMs;
  const key = `${after} ${timezone} ${cron}`;
  const found = kept.get(key);
  if (found !== undefined) return found;
  const next = nextInZone(cronLine(cron), timezone, after);
  if (kept.size >= MAX_KEPT) kept.clear();
  kept.set(key, next);
  return next;
}

export function upcoming(timing: Timing, after: number, count: number): number[] {
  const found: number[] = [];
  for (let at = nextInstant(timing, after); at !== null && found.length < count; ) {
    found.push(at);
    at = nextInstant(timing, at);
  }
  return found;
}

/** How much later than its instants a schedule fires: always the same for a name, from 0 up to its jitter. */
export function delayOf(name: string, jitterMs: number): number {
  return jitterMs === 0 ? 0 : Math.floor((hash32(name) / 2 ** 32) * jitterMs);
}
