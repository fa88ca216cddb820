/** What the times of journey 5 lead to at the worst moment, by arithmetic; and what Holdfast says to them as settings. */
import { resolveOptions } from 'holdfast/internal';
import type { Settings } from './frame.js';
import { problemOf } from './stage.js';

/** How often worker-b looks for a job. */
export const POLL_MS = 1_000;

export type Fate = 'nothing' | 'stall' | 'kill';

export interface Times {
  readonly heartbeatMs: number;
  readonly ttlMs: number;
  readonly leaseMs: number;
  /** 0: never. */
  readonly renewMs: number;
  readonly maintenanceMs: number;
  readonly handlerMs: number;
  /** How long worker-a stands still, if that is its fate. */
  readonly stallMs: number;
  readonly fate: Fate;
}

export interface Verdict {
  /** A worker that lives can be called dead. */
  readonly falseDeath: boolean;
  readonly lostLease: boolean;
  readonly doubleRun: boolean;
  /** From a kill to the next claim of the job, at worst. */
  readonly recoveryMs: number;
  /** What Holdfast's worker says to these settings; null: it takes them. */
  readonly refusal: string | null;
}

const DEFAULTS = {
  ...{ heartbeat: 10, ttl: 30, lease: 90, renew: 30, maintenance: 10 },
  ...{ handler: 120, stall: 40 },
};

export function timesOf(settings: Settings): Times {
  const ms = (name: keyof typeof DEFAULTS, least = 1) => {
    const value = Number(settings[name] ?? DEFAULTS[name]);
    const known = Number.isFinite(value) ? value : DEFAULTS[name];
    return Math.round(1_000 * Math.min(300, Math.max(least, known)));
  };
  const fate = (['nothing', 'stall', 'kill'] as const).find((one) => one === settings.fate);
  return {
    ...{ heartbeatMs: ms('heartbeat'), ttlMs: ms('ttl'), leaseMs: ms('lease') },
    ...{ renewMs: ms('renew', 0), maintenanceMs: ms('maintenance'), handlerMs: ms('handler') },
    ...{ stallMs: ms('stall', 0), fate: fate ?? 'nothing' },
  };
}

/** The arithmetic, for the worst moment. */
export function computed(times: Times): Verdict {
  const { heartbeatMs, ttlMs, leaseMs, renewMs, maintenanceMs, handlerMs, fate } = times;
  const stallMs = fate === 'stall' ? times.stallMs : 0;
  const endMs = handlerMs + stallMs;
  // The longest silence of a worker that lives; it matters only if a sweep comes before it ends.
  const silenceMs = heartbeatMs + stallMs;
  const falseDeath = silenceMs > ttlMs;
  const unrenewedMs = renewMs === 0 ? endMs : Math.min(endMs, renewMs + stallMs);
  // A renewal in the moment in which the lease ends comes too late.
  const lostLease = unrenewedMs >= leaseMs || (falseDeath && endMs > ttlMs);
  return {
    ...{ falseDeath, lostLease, doubleRun: lostLease },
    // By silence: the last beat came just before. By the lease: it was renewed just before, and claims take it.
    recoveryMs: Math.min(ttlMs + maintenanceMs, leaseMs) + POLL_MS,
    refusal: refusalOf(times),
  };
}

function refusalOf({ heartbeatMs, ttlMs, leaseMs, renewMs, maintenanceMs }: Times): string | null {
  if (renewMs === 0) return 'Holdfast always renews: renewEvery cannot be turned off.';
  const options = { heartbeat: heartbeatMs, ttl: ttlMs, lease: leaseMs, renewEvery: renewMs };
  return problemOf(() => resolveOptions({ ...options, maintenance: maintenanceMs }));
}
