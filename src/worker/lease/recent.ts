/**
 * How the attempts of about the last minute ended, by queue, for the heartbeat: so one reading of the registry says
 * whether most of them fail. It is told the counts since the start, and remembers those of the last minute.
 */
import { UNIT_MS } from '../../job/duration.js';
import type { Attempts, Load } from './protocol.js';

interface Counted {
  readonly at: number;
  readonly attempts: Load['attempts'];
}

export class RecentAttempts {
  #counted: Counted[];

  constructor(attempts: Load['attempts'], at: number) {
    this.#counted = [{ at, attempts }];
  }

  /** Returns the attempts of so many milliseconds, by queue; one without any is left out. */
  report(attempts: Load['attempts'], at: number) {
    // The newest of those that are a minute old is where the minute begins.
    const begins = this.#counted.findLastIndex((one) => at - one.at >= UNIT_MS.m);
    this.#counted = [...this.#counted.slice(Math.max(0, begins)), { at, attempts }];
    const first = this.#counted[0] as Counted;
    const ended = Object.entries(attempts).map(([queue, now]): [string, Attempts] => {
      const { failed, completed } = first.attempts[queue] as Attempts;
      return [queue, { failed: now.failed - failed, completed: now.completed - completed }];
    });
    return {
      ms: Math.round(at - first.at),
      queues: Object.fromEntries(ended.filter(([, one]) => one.failed + one.completed > 0)),
    };
  }
}
