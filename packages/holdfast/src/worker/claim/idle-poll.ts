/**
 * The polls of idle queues: one statement for many of them. A queue whose claims find nothing leaves its polls to this, and
 * goes on when there is something to do.
 *
 * While hints arrive a question is only for those that were missed, and one of the workers that serve a queue is enough. So
 * each asks the less often the more they are, from every other poll to every fifth.
 *
 * A statement asks for at most `MOST_QUEUES`, because each takes a few locks; with more, it asks for some after the others.
 */
import { askDue } from '../../claim/due.js';
import type { Versions } from '../../claim/take.js';
import type { Executor } from '../../postgres/queryable.js';
import { jittered, type Time, type Timer } from '../time.js';
import type { ClaimLoop } from './claim-loop.js';

export const MOST_QUEUES = 50;

export interface IdleQueue {
  readonly queue: string;
  readonly versions: Versions;
  readonly claims: ClaimLoop;
}

export interface IdlePollDeps {
  readonly engine: Executor;
  readonly schema: string;
  readonly settings: { readonly pollMs: number };
  readonly time: Time;
  readonly queues: () => readonly IdleQueue[];
  readonly listening: () => boolean;
  /** How many live workers serve a queue. */
  readonly servers: (queue: string) => number;
  /** When the last round of maintenance of a queue began, and whether there is any job in it. */
  readonly recordRound: (queue: string, agoMs: number | null, unused: boolean) => void;
  readonly reportError: (what: string, error: unknown) => void;
}

export class IdlePoll {
  readonly #deps: IdlePollDeps;
  #timer: Timer | null = null;
  #stopped = false;
  /** The queue that was asked for last. */
  #last = '';

  constructor(deps: IdlePollDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#plan();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #plan(): void {
    if (this.#stopped) return;
    const { time, settings, listening, queues, servers } = this.#deps;
    const fewest = Math.min(...queues().map(({ queue }) => servers(queue)));
    const polls = listening() ? Math.min(Math.max(2, fewest), 5) : 1;
    const everyMs = polls * settings.pollMs;
    this.#timer = time.after(jittered(everyMs, time), () => void this.#ask());
  }

  /** Those that come next, in a circle. */
  #next(): IdleQueue[] {
    const queues = this.#deps.queues();
    const from = 1 + queues.findIndex(({ queue }) => queue === this.#last);
    const next = [...queues.slice(from), ...queues.slice(0, from)]
      .filter(({ claims }) => claims.idle)
      .slice(0, MOST_QUEUES);
    this.#last = next.at(-1)?.queue ?? '';
    return next;
  }

  async #ask(): Promise<void> {
    const { engine, schema, reportError, recordRound } = this.#deps;
    const next = this.#next();
    try {
      const asked = new Map(next.map(({ queue, versions }) => [queue, versions]));
      const names = { schema, queue: 'inbox' };
      const answers = next.length === 0 ? [] : await askDue(engine, names, asked);
      for (const { queue, unused, ...news } of answers) {
        recordRound(queue, news.maintainedMs, unused);
        next.find((one) => one.queue === queue)?.claims.record(news);
      }
    } catch (error) {
      if (!this.#stopped) reportError('asking which queues have due jobs', error);
      // They poll for themselves, with a backoff of their own.
      for (const { claims } of next) claims.wake();
    }
    this.#plan();
  }
}
