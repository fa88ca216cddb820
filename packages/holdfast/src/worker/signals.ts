/**
 * The first SIGTERM or SIGINT asks for a drain, the second exits at once with 128 plus the signal. What comes with the
 * first is not a second one: supervisors signal a process and then its whole group.
 */
import { writeSync } from 'node:fs';

const NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const;
/** Signals that come closer than this are one; a person takes longer. */
export const TWICE_MS = 200;

export function onSignals(stop: () => void): () => void {
  let askedAt: number | null = null;
  const listeners = Object.entries(NUMBERS).map(([name, number]) => {
    const listener = () => {
      if (askedAt === null) {
        askedAt = performance.now();
        stop();
      } else if (performance.now() - askedAt >= TWICE_MS) process.exit(128 + number);
    };
    process.on(name, listener);
    return () => process.off(name, listener);
  });
  return () => {
    for (const off of listeners) off();
  };
}

/** Ends the process after a while, and does not keep it: handlers that go on after their jobs were released might. */
export function exitAfter(ms: number): void {
  setTimeout(() => {
    try {
      writeSync(2, 'holdfast: handlers that did not end kept the process; it exits now\n');
    } catch {
      // Nobody reads it, or the pipe is full. The process ends all the same.
    }
    process.exit();
  }, ms).unref();
}
