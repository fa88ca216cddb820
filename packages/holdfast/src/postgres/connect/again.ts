/** Doing a transaction of our own again that lost to others. */
import { setTimeout } from 'node:timers/promises';

/** The server rolled the whole transaction back because of others (a deadlock, a serialization failure): nothing of it was done. */
function lostToOthers(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === '40P01' || code === '40001';
}

const MOST_TRIES = 5;

/**
 * `work` is one transaction of our own, or one statement outside of any. If others made the server roll it back, it is
 * done again after a moment. Never for a caller's transaction: its earlier statements are gone too.
 */
export async function untilNotLost<Value>(work: () => Promise<Value>): Promise<Value> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries === MOST_TRIES || !lostToOthers(error)) throw error;
      await setTimeout(10 * 2 ** tries * (0.5 + Math.random()));
    }
  }
}
