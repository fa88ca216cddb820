/**
 * How the attempts of about the last minute ended, by queue, for the heartbeat: so one reading of the registry says
 * whether most of them fail. It is told the counts since the start, and remembers those of the last minute.
 */
import type { Attempts } from './protocol.js';

const WINDOW_MS = 60_000;

interface Counted {
  readonly at: number;
  readonly attempts: readonly Attempts[];
}

export class RecentAttempts {
  readonly #queues: readonly string[];
  #counted: Counted[];

  constructor(queues: readonly string[], attempts: readonly Attempts[], at: number) {
    this.#queues = queues;
    this.#counted = [{ at, attempts }];
  }

  /**
   * `attempts`: since the start, in the order of the queues. Returns those of so many milliseconds, by queue; one
   * without any is left out.
   */
  report(attempts: readonly Attempts[], at: number) {
    // The newest of those that are a minute old is where the minute begins.
    const begins = this.#counted.findLastIndex((one) => at - one.at >= WINDOW_MS);
    this.#counted = [...this.#counted.slice(Math.max(0, begins)), { at, attempts }];
    const first = this.#counted[0] as Counted;
    const ended = this.#queues.map((queue, n): [string, Attempts] => {
      const [now, before] = [attempts[n] as Attempts, first.attempts[n] as Attempts];
      const failed = now.failed - before.failed;
      return [queue, { failed, completed: now.completed - before.completed }];
    });
    return {
      ms: Math.round(at - first.at),
      queues: Object.fromEntries(ended.filter(([, one]) => one.failed + one.completed > 0)),
    };
  }
}
