/** What `survivesFaults()` asks for and tells, of jobs and of workflows. */
import { invalid } from './deps.js';

/** Which faults were tried. */
export interface SurvivalReport {
  /** What was tried, in words. */
  readonly tried: readonly string[];
  /** What had nothing to strike, because the handler did not come to that step again: its steps differ from run to run. */
  readonly missed: readonly string[];
  /** A crash between the effect of a `ctx.once` and its marker repeats it; null: the handler uses no `ctx.once`. */
  readonly onceGap: 'open' | 'closed' | null;
}

export function checkEffect(effect: unknown): void {
  if (typeof effect !== 'function')
    throw invalid(
      'survivesFaults needs { effect }, a function that returns how often the effect has happened so far; nothing was run. ' +
        'For example { effect: () => mailer.sent.length }, or a query that counts rows.',
    );
}
