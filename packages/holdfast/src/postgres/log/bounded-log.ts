/**
 * A bound on what a worker says: of one kind, which is a sentence and a job's type, five lines a second. The second ends
 * with one line that says how many more there were. A child is not bounded: it is `ctx.log`, the handler's own.
 */
import { childLogger, type Level, type Logger, leveled } from './log.js';

const LINES = 5;
const WINDOW_MS = 1_000;

export interface BoundedLogger extends Logger {
  /** Says what was left out until now: before the end. */
  flush(): void;
}

interface Kind {
  lines: number;
  readonly end: () => void;
}

/** `background`: it does not keep the process alive. */
interface Timers {
  after(ms: number, run: () => void, background: boolean): { cancel(): void };
}

export function boundedLogger(log: Logger, time: Timers): BoundedLogger {
  const kinds = new Map<string, Kind>();

  function begin(key: string, level: Level, type: unknown, message: string): Kind {
    const end = () => {
      timer.cancel();
      kinds.delete(key);
      const more = kind.lines - LINES;
      const sum = { ...(type !== undefined && { type }), more };
      if (more > 0) log[level](sum, `${message}: and ${more.toLocaleString('en-US')} more`);
    };
    const timer = time.after(WINDOW_MS, end, true);
    const kind = { lines: 0, end };
    kinds.set(key, kind);
    return kind;
  }

  const bounded =
    (level: Level) =>
    (facts: object, message = '') => {
      const { type } = facts as { type?: unknown };
      const key = `${message}\0${String(type)}`;
      const kind = kinds.get(key) ?? begin(key, level, type, message);
      if (kind.lines++ < LINES) log[level](facts, message);
    };

  return {
    ...leveled(bounded, (facts) => childLogger(log, facts)),
    flush() {
      for (const kind of [...kinds.values()]) kind.end();
    },
  };
}
