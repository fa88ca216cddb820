/**
 * Logger: the shape of pino's interface, so that a pino instance can be passed as it is.
 *
 * One event is one line: an object of facts and a short sentence. Payloads never go into it. What a handler's
 * or the database's error says is not ours to know; `redact` sees every line before the logger does.
 * logger-of.ts chooses the logger of a Holdfast; the default one is in log-lines.ts.
 */

export interface Logger {
  debug(facts: object, message?: string): void;
  info(facts: object, message?: string): void;
  warn(facts: object, message?: string): void;
  error(facts: object, message?: string): void;
  child?(facts: object): Logger;
}

export type Level = 'debug' | 'info' | 'warn' | 'error';

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
