/** A clock that stands still until a test moves it, and chance that repeats itself. */
import type { Time } from '../../packages/holdfast/src/worker/time.js';

export interface SimulatedTime extends Time {
  /** Moves to the next timer and runs it. False: there is none. */
  step(): boolean;
}

export function simulatedTime(seed: number): SimulatedTime {
  let now = 0;
  let state = seed;
  const timers = new Set<{ at: number; run: () => void }>();
  return {
    now: () => now,
    after(ms, run) {
      const timer = { at: now + ms, run };
      timers.add(timer);
      return { cancel: () => void timers.delete(timer) };
    },
    soon: (run) => void setImmediate(run),
    // Park and Miller's generator.
    random() {
      state = (state * 48_271) % 2_147_483_647;
      return state / 2_147_483_647;
    },
    step() {
      const [next] = [...timers].sort((a, b) => a.at - b.at);
      if (!next) return false;
      timers.delete(next);
      now = Math.max(now, next.at);
      next.run();
      return true;
    },
  };
}
