/**
 * The polls of idle queues: one statement for many of them. A queue whose claims find nothing leaves its polls to this, and
 * goes on when there is something to do. While hints arrive a question is only for those that were missed: each worker asks
 * the less often the more of them serve a queue, from every other poll to every fifth.
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

export function newIdlePoll(deps: IdlePollDeps) {
  const { engine, schema, settings, time, listening, servers, recordRound, reportError } = deps;
  let timer: Timer | null = null;
  let stopped = false;
  /** The queue that was asked for last. */
  let last = '';

  function plan(): void {
    if (stopped) return;
    const fewest = Math.min(...deps.queues().map(({ queue }) => servers(queue)));
    const polls = listening() ? Math.min(Math.max(2, fewest), 5) : 1;
    timer = time.after(jittered(polls * settings.pollMs, time), () => void ask());
  }

  /** Those that come next, in a circle. */
  function nextOnes(): IdleQueue[] {
    const queues = deps.queues();
    const from = 1 + queues.findIndex(({ queue }) => queue === last);
    const next = [...queues.slice(from), ...queues.slice(0, from)]
      .filter(({ claims }) => claims.idle)
      .slice(0, MOST_QUEUES);
    last = next.at(-1)?.queue ?? '';
    return next;
  }

  async function ask(): Promise<void> {
    const next = nextOnes();
    try {
      const asked = new Map(next.map(({ queue, versions }) => [queue, versions]));
      const names = { schema, queue: 'inbox' };
      const answers = next.length === 0 ? [] : await askDue(engine, names, asked);
      for (const { queue, unused, ...news } of answers) {
        recordRound(queue, news.maintainedMs, unused);
        next.find((one) => one.queue === queue)?.claims.record(news);
      }
    } catch (error) {
      if (!stopped) reportError('asking which queues have due jobs', error);
      // They poll for themselves, with a backoff of their own.
      for (const { claims } of next) claims.wake();
    }
    plan();
  }

  return {
    start: plan,
    stop(): void {
      stopped = true;
      timer?.cancel();
    },
  };
}
