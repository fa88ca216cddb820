/**
 * What happens in a run that nobody watches: one worker is killed, the fleet makes up for it, and
 * another one joins. A run that is too short for it is left in peace.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Acts } from './acts.js';
import type { Recoveries } from './fleet/recoveries.js';

/** The workers watch each other for five seconds before they trust what they see. */
const KILL_AFTER_MS = 6_500;
const RECOVERY_MS = 3_000;
const LOOK_MS = 100;

export async function tellStory(
  acts: Acts,
  recoveries: Recoveries,
  forMs: number | null,
  ending: AbortSignal,
): Promise<void> {
  if (forMs !== null && forMs < KILL_AFTER_MS + RECOVERY_MS) return;
  const pause = (ms: number) => delay(ms, undefined, { signal: ending }).catch(() => undefined);
  await pause(KILL_AFTER_MS);
  if (ending.aborted) return;
  acts.press('k');
  while (!ending.aborted && recoveries.done.length === 0) await pause(LOOK_MS);
  if (!ending.aborted) acts.press('a');
}
