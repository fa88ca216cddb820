/**
 * Logger: the shape of pino's interface, so that a pino instance can be passed as it is. One event is one line: an object
 * of facts and a short sentence. Payloads never go into it; `redact` sees every line before the logger does.
 */

export interface Logger {
  /** Details, such as every job. */
  debug(facts: object, message?: string): void;
  /** What happens in normal operation. */
  info(facts: object, message?: string): void;
  /** What you should look at. */
  warn(facts: object, message?: string): void;
  /** What failed. */
  error(facts: object, message?: string): void;
  /** A logger that adds these facts to every line. Optional. */
  child?(facts: object): Logger;
}

export type Level = 'debug' | 'info' | 'warn' | 'error';

/** A logger of a function for each level, and one for its children. */
export const leveled = (
  at: (level: Level) => Logger[Level],
  child: (facts: object) => Logger,
): Required<Logger> => ({
  ...{ debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child },
});

/** A logger that also carries these facts, whether or not the given one knows `child`. */
export function childLogger(log: Logger, facts: object): Logger {
  if (log.child) return log.child(facts);
  return leveled(
    (level) => (more, message) => log[level]({ ...facts, ...more }, message),
    (more) => childLogger(log, { ...facts, ...more }),
  );
}

/** Facts in, facts out: what it returns is logged in their place. */
export type Redact = (facts: Readonly<Record<string, unknown>>) => object;

/** A logger behind a redaction. When `redact` throws, the line is kept and its facts are left out: rather too little. */
export function redactingLogger(log: Logger, redact: Redact): Logger {
  const safe = (facts: object): object => {
    try {
      return redact(facts as Readonly<Record<string, unknown>>);
    } catch {
      return { redacted: 'the redact function threw' };
    }
  };
  return leveled(
    (level) => (facts, message) => log[level](safe(facts), message),
    (facts) => redactingLogger(childLogger(log, safe(facts)), redact),
  );
}
