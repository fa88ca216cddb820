/**
 * Logger: the shape of pino's interface, so that a pino instance can be passed as it is.
 *
 * One event is one line: an object of facts and a short sentence. Payloads never go into it. The
 * default writes warnings and errors to stderr as JSON lines and keeps quiet otherwise. What a handler's
 * or the database's error says is not ours to know; `redact` sees every line before the logger does.
 */
export interface Logger {
  debug(facts: object, message?: string): void;
  info(facts: object, message?: string): void;
  warn(facts: object, message?: string): void;
  error(facts: object, message?: string): void;
  child?(facts: object): Logger;
}

type Level = 'debug' | 'info' | 'warn' | 'error';

function write(level: Level, base: object) {
  return (facts: object, message?: string) => {
    const line = JSON.stringify({
      level,
      time: new Date().toISOString(),
      ...base,
      ...facts,
      msg: message,
    });
    process.stderr.write(`${line}\n`);
  };
}

const quiet = () => {};

export function defaultLogger(base: object = {}): Logger {
  return {
    debug: quiet,
    info: quiet,
    warn: write('warn', base),
    error: write('error', base),
    child: (facts) => defaultLogger({ ...base, ...facts }),
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

/** A logger that throws must not disturb the work that it was told of. */
export function safeLogger(log: Logger): Logger {
  const guarded = (level: Level) => (facts: object, message?: string) => {
    try {
      log[level](facts, message);
    } catch {
      process.stderr.write(
        `{"level":"error","msg":"the logger threw; a line at level ${level} was lost"}\n`,
      );
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
