/**
 * The service that wakes runs to which signals were sent in transactions: the sender only writes a row, and this comes after
 * its commit. The worker whose id comes first does it at once when it hears of a signal, the others a moment later, so a leader
 * without workflows, frozen or cut off is stood in for. Without notifications, and for those that are lost, all look now and
 * then; two that look at once do no harm.
 */
import { MAX_ROWS } from '../../postgres/statement.js';
import type { SharedDeps } from '../deps.js';
import { CHECK_MS, jittered, type Timer } from '../time.js';

interface SignalDeps extends Pick<SharedDeps, 'time' | 'reportError'> {
  /** Those for which this worker has workflows. */
  readonly queues: readonly string[];
  readonly wake: (queue: string, most: number) => Promise<number>;
  readonly membership: { readonly leads: boolean; readonly size: number };
  readonly listening: () => boolean;
}

export type SignalWaker = ReturnType<typeof newSignalWaker>;

export function newSignalWaker({ queues, wake, membership, listening, ...deps }: SignalDeps) {
  const { time, reportError } = deps;
  let timer: Timer | null = null;
  let plannedAt = Number.POSITIVE_INFINITY;
  let [stopped, busy, again] = [false, false, false];

  function plan(delayMs: number): void {
    const at = time.now() + delayMs;
    if (stopped || at >= plannedAt) return;
    timer?.cancel();
    plannedAt = at;
    timer = time.after(delayMs, () => void look());
  }

  /** When nobody tells of anything. */
  function planSweep(): void {
    const often = listening() ? 5 * CHECK_MS : CHECK_MS;
    plan(membership.leads ? often : jittered(Math.max(2, membership.size) * often, time));
  }

  async function look(): Promise<void> {
    if (stopped || busy) return;
    busy = true;
    again = false;
    plannedAt = Number.POSITIVE_INFINITY;
    try {
      for (const queue of queues) while (!stopped && (await wake(queue, MAX_ROWS)) === MAX_ROWS);
    } catch (error) {
      if (!stopped) reportError('waking runs for their signals', error);
    }
    busy = false;
    if (again) plan(0);
    else planSweep();
  }

  return {
    start(): void {
      if (queues.length > 0) void look();
    },
    stop(): void {
      stopped = true;
      timer?.cancel();
    },
    /** A signal was sent, in a transaction that has committed. */
    hint(queue: string): void {
      if (!queues.includes(queue)) return;
      again = busy;
      if (!busy) plan(membership.leads ? 0 : jittered(CHECK_MS / 4, time));
    },
  };
}
