/**
 * A bound on what a worker says: of one kind, which is a sentence and a job's type, five lines a second. What
 * is beyond is counted, and the second ends with one line that says how many more there were. So a mail server
 * that is down does not bury the rest of the log, and costs nobody his disk.
 *
 * A child is not bounded: it is `ctx.log`, and those lines are the handler's own.
 */
import { childLogger, type Level, type Logger } from '../postgres/log.js';
import type { Time, Timer } from './time.js';

const LINES = 5;
const WINDOW_MS = 1_000;
/** Types may be anything; what was said of those before is forgotten. */
const MAX_KINDS = 500;

export interface BoundedLogger extends Logger {
  /** Says what was left out until now: before the end. */
  flush(): void;
}

interface Kind {
  readonly from: number;
  lines: number;
  more: number;
  timer: Timer | null;
  readonly say: () => void;
}

export function boundedLogger(log: Logger, time: Time): BoundedLogger {
  const kinds = new Map<string, Kind>();

  function kindOf(level: Level, facts: object, message: string): Kind {
    const { type } = facts as { type?: unknown };
    const key = `${message}\0${String(type)}`;
    const known = kinds.get(key);
    if (known && (known.timer || time.now() - known.from < WINDOW_MS)) return known;
    if (kinds.size >= MAX_KINDS) flush();
    const kind: Kind = {
      from: time.now(),
      lines: 0,
      more: 0,
      timer: null,
      say() {
        kind.timer?.cancel();
        kinds.delete(key);
        const sum = { ...(type !== undefined && { type }), more: kind.more };
        if (kind.more > 0) log[level](sum, `${message}: and ${counted(kind.more)} more`);
      },
    };
    kinds.set(key, kind);
    return kind;
  }

  const bounded = (level: Level) => (facts: object, message?: string) => {
    const kind = kindOf(level, facts, message ?? '');
    if (kind.lines++ < LINES) log[level](facts, message);
    else {
      kind.more++;
      kind.timer ??= time.after(kind.from + WINDOW_MS - time.now(), kind.say, true);
    }
  };

  function flush(): void {
    for (const kind of [...kinds.values()]) kind.say();
  }

  return {
    debug: bounded('debug'),
    info: bounded('info'),
    warn: bounded('warn'),
    error: bounded('error'),
    child: (facts) => childLogger(log, facts),
    flush,
  };
}

const counted = (count: number) => count.toLocaleString('en-US');
