/** Loggers for tests: one that says nothing, and one that keeps what it was told. */
import type { Logger } from '../../packages/holdfast/src/postgres/log/log.js';

const nothing = () => {};
export const quietLogger: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing };

export interface Line {
  level: string;
  facts: object;
  message: string | undefined;
}

export function recordingLogger(): Logger & { lines: Line[] } {
  const lines: Line[] = [];
  const keep = (level: string) => (facts: object, message?: string) => {
    lines.push({ level, facts, message });
  };
  return {
    lines,
    debug: keep('debug'),
    info: keep('info'),
    warn: keep('warn'),
    error: keep('error'),
  };
}
