/**
 * Logger: the shape of pino's interface, so that a pino instance can be passed as it is.
 *
 * One event is one line: an object of facts and a short sentence. Payloads never go into it. What a handler's
 * or the database's error says is not ours to know; `redact` sees every line before the logger does.
 * The default logger is in log-lines.ts.
 */
import { HoldfastError } from '../../job/errors/errors.js';
import { lineLogger, write } from './log-lines.js';

export interface Logger {
  debug(facts: object, message?: string): void;
  info(facts: object, message?: string): void;
  warn(facts: object, message?: string): void;
  error(facts: object, message?: string): void;
  child?(facts: object): Logger;
}

export type Level = 'debug' | 'info' | 'warn' | 'error';
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
  const at = (level: Level) =>
    LOG_LEVELS.indexOf(level) < from
      ? quiet
      : (facts: object, message?: string) => log[level](facts, message);
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (facts) => atLevel(childLogger(log, facts), least),
  };
}

/** A logger that also carries these facts, whether or not the given one knows `child`. */
export function childLogger(log: Logger, facts: object): Logger {
  if (log.child) return log.child(facts);
  return {
    debug: (more, message) => log.debug({ ...facts, ...more }, message),
    info: (more, message) => log.info({ ...facts, ...more }, message),
    warn: (more, message) => log.warn({ ...facts, ...more }, message),
    error: (more, message) => log.error({ ...facts, ...more }, message),
  };
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
  return {
    debug: guarded('debug'),
    info: guarded('info'),
    warn: guarded('warn'),
    error: guarded('error'),
    child: (facts) => safeLogger(childLogger(log, facts)),
  };
}

/** Facts in, facts out: what it returns is logged in their place. */
export type Redact = (facts: Readonly<Record<string, unknown>>) => object;

/**
 * A logger behind a redaction. The facts that a child binds pass through it once, those of a line every
 * time. When `redact` throws, the line is kept and its facts are left out: rather too little than too much.
 */
export function redactingLogger(log: Logger, redact: Redact): Logger {
  const safe = (facts: object): object => {
    try {
      return redact(facts as Readonly<Record<string, unknown>>);
    } catch {
      return { redacted: 'the redact function threw' };
    }
  };
  return {
    debug: (facts, message) => log.debug(safe(facts), message),
    info: (facts, message) => log.info(safe(facts), message),
    warn: (facts, message) => log.warn(safe(facts), message),
    error: (facts, message) => log.error(safe(facts), message),
    child: (facts) => redactingLogger(childLogger(log, safe(facts)), redact),
  };
}
