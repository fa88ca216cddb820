/** A clock that is set by hand: timers run when it is advanced to their time, and not before. */
import type { Time } from '../../packages/holdfast/src/worker/time.js';

export function handClock() {
  const timers = new Set<{ at: number; run: () => void }>();
  let now = 0;
  const time: Time = {
    now: () => now,
    after(ms, run) {
      const timer = { at: now + ms, run };
      timers.add(timer);
      return { cancel: () => void timers.delete(timer) };
    },
    soon: (run) => void setImmediate(run),
    random: () => 0.5,
  };
  function advance(ms: number): void {
    now += ms;
    for (const timer of [...timers].filter(({ at }) => at <= now)) {
      timers.delete(timer);
      timer.run();
    }
  }
  return { time, advance, timers };
}
