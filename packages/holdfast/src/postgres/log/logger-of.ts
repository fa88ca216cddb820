/** Which logger a Holdfast writes to: the caller's or our own, from which level on, redacted, and safe to call. */
import { HoldfastError } from '../../job/errors/errors.js';
import {
  childLogger,
  type Level,
  type Logger,
  leveled,
  type Redact,
  redactingLogger,
} from './log.js';
import { lineLogger, write } from './log-lines.js';

/** The least level that is written; `silent` writes nothing. */
export type LogLevel = Level | 'silent';

export const LOG_LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent'];

export interface LogOptions {
  readonly logger?: Logger | undefined;
  readonly log?: LogLevel | undefined;
  readonly redact?: Redact | undefined;
}

/** What a Holdfast writes its lines to. A logger that was passed in has a level of its own; ours is `info`. */
export function loggerOf({ logger, log, redact }: LogOptions, env = process.env): Logger {
  const level = levelOf(log, 'log') ?? levelOf(env.HOLDFAST_LOG || undefined, 'HOLDFAST_LOG');
  const target = logger ? atLevel(logger, level ?? 'debug') : defaultLogger(level);
  return safeLogger(redact ? redactingLogger(target, redact) : target);
}

function levelOf(given: string | undefined, where: string): LogLevel | undefined {
  if (given === undefined || LOG_LEVELS.includes(given as LogLevel)) return given as LogLevel;
  throw new HoldfastError(
    'OPTION_INVALID',
    `${where} is ${JSON.stringify(given)}, which is no level; nothing was started. ` +
      `It is one of ${LOG_LEVELS.join(', ')}.`,
  );
}

/** Lines on stderr, from `info` on unless told otherwise. */
export const defaultLogger = (level: LogLevel = 'info'): Logger => atLevel(lineLogger(), level);

const quiet = () => {};

function atLevel(log: Logger, least: LogLevel): Logger {
  const from = LOG_LEVELS.indexOf(least);
  const at = (level: Level): Logger[Level] =>
    LOG_LEVELS.indexOf(level) < from ? quiet : (facts, message) => log[level](facts, message);
  return leveled(at, (facts) => atLevel(childLogger(log, facts), least));
}

/** A logger that throws must not disturb the work that it logs. */
export function safeLogger(log: Logger): Logger {
  const guarded = (level: Level) => (facts: object, message?: string) => {
    try {
      log[level](facts, message);
    } catch {
      const line = `{"level":"error","msg":"the logger threw; a line at level ${level} was lost"}`;
      write(process.stderr, `${line}\n`);
    }
  };
  return leveled(guarded, (facts) => safeLogger(childLogger(log, facts)));
}
