/**
 * The jobs of one queue that are in flight in this process. A job leaves when the database has answered its settle, or
 * when it is lost: then its signal is aborted and nothing that it settles counts. All counts and events of jobs are
 * made here.
 */

import type { JobEvent, SettleResult } from '../events.js';
import type { QueueDeps } from '../queue-deps.js';
import type { Outcome } from '../run/attempt.js';
import type { Route } from '../run/handler-context.js';
import { leaseLost } from '../run/handler-context.js';
import type { LeasedJob } from '../run/leased-job.js';
import { type Failed, type Settlement, settleOutcome } from './outcome.js';

interface InFlightDeps extends QueueDeps {
  readonly queue: string;
  readonly left: (held: LeasedJob) => void;
  readonly later: (held: LeasedJob, delayMs: number) => void;
}

export class InFlightJobs {
  readonly #deps: InFlightDeps;
  readonly #held = new Map<string, LeasedJob>();
  /** Attempts that have ended since the start; as failures the last ones of dead letters too. */
  readonly attempts = { failed: 0, completed: 0 };

  constructor(deps: InFlightDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#held.size;
  }

  /** Without those that it has lost: their handlers run on, but the queue has given them to others. */
  get held(): number {
    let held = 0;
    for (const { lost } of this.#held.values()) if (!lost) held++;
    return held;
  }

  values(): LeasedJob[] {
    return [...this.#held.values()];
  }

  /** Sent to the keeper before anything is started: a handler that blocks must not cost the others. */
  take(jobs: readonly LeasedJob[]): void {
    const { queue, keeper, stats, emit } = this.#deps;
    keeper.hold(queue, jobs);
    for (const job of jobs) this.#held.set(job.id, job);
    stats.claimed += jobs.length;
    const types: Record<string, number> = {};
    for (const { row } of jobs) types[row.type] = (types[row.type] ?? 0) + 1;
    const taken = jobs.filter(({ row }) => row.taken).length;
    emit({ kind: 'claimed', queue, count: jobs.length, types, taken });
  }

  /** Claimed, but the claim counted no more when its answer was read. */
  missed(jobs: readonly LeasedJob[]): void {
    this.#deps.stats.claimed += jobs.length;
    for (const job of jobs) this.lose(job);
  }

  settle(held: LeasedJob, route: Route, outcome: Outcome): void {
    // At the end of a drain: it leaves when the database has answered the release.
    if (held.releasing) return;
    if (held.gone) this.lose(held);
    if (held.lost) return void this.remove(held);
    held.settling = true;
    const { settler, context } = this.#deps;
    const done: Settlement['done'] = (how, delayMs, failed) => {
      const isFailure = how === 'failed' || how === 'dead_letter';
      const more = isFailure && failed ? this.#reportFailure(held, how, delayMs, failed) : {};
      this.#settled(held, how, more);
      const again = how === 'failed' || how === 'snoozed';
      if (again && delayMs !== undefined) this.#deps.later(held, delayMs);
    };
    settleOutcome({ settler, context, route, held, done }, outcome);
  }

  /** Logs it, and returns what its event says of it. */
  #reportFailure(
    held: LeasedJob,
    how: 'failed' | 'dead_letter',
    retryInMs: number | undefined,
    { summary: err, thrown: error }: Failed,
  ): Partial<JobEvent> {
    const { log } = this.#deps.context;
    const { id: job, queue, row } = held;
    const { type, attempts: attempt, maxAttempts } = row;
    const facts = { queue, type, job, attempt, maxAttempts, err };
    const again = how === 'failed' && retryInMs !== undefined && { retryInMs };
    if (how === 'dead_letter') log.error({ ...facts }, 'a job became a dead letter');
    else log.warn({ ...facts, ...again }, 'an attempt failed');
    return { attempt, maxAttempts, error, ...again };
  }

  /** Back to the queue, unspent; what is settled or lost already is left alone. */
  release(held: LeasedJob): void {
    if (held.settling) return;
    if (held.lost) return void this.remove(held);
    held.settling = true;
    held.releasing = true;
    this.#release(held, (result) => this.#settled(held, result));
  }

  #settled(held: LeasedJob, how: SettleResult, more: Partial<JobEvent> = {}): void {
    if (how === 'lost') {
      // Perhaps only what ran before it was lost: then the row is still ours, and must not wait for its lease.
      if (held.before) this.#release(held, () => undefined);
      this.lose(held);
    } else {
      held.how = how;
      this.#deps.stats[how]++;
      if (how === 'failed' || how === 'dead_letter') this.attempts.failed++;
      if (how === 'completed') this.attempts.completed++;
      this.report(how, held, more);
    }
    this.remove(held);
  }

  #release({ id, generation, workerId }: LeasedJob, done: (result: SettleResult) => void): void {
    this.#deps.settler.settle('release', workerId, { id, generation }, done);
  }

  lose(held: LeasedJob): void {
    if (held.lost) return;
    held.lost = true;
    held.abort(leaseLost(held.id, 'what this attempt does from now on'));
    this.#deps.stats.lost++;
    this.#deps.context.log.warn(
      { job: held.id, type: held.row.type, generation: held.generation, worker: held.workerId },
      'the lease of a job was lost; nothing that this attempt settles counts',
    );
    this.report('lost', held);
  }

  remove(held: LeasedJob): void {
    if (this.#held.get(held.id) === held) this.#held.delete(held.id);
    this.#deps.keeper.drop(held);
    held.leave();
    this.#deps.left(held);
  }

  /** The keeper could not renew these, unless a settle of ours is the reason. */
  find(jobs: readonly { id: string; generation: number }[]): LeasedJob[] {
    return jobs.flatMap(({ id, generation }) => {
      const held = this.#held.get(id);
      return held?.generation === generation && !held.settling ? [held] : [];
    });
  }

  report(kind: JobEvent['kind'], held: LeasedJob, more: Partial<JobEvent> = {}): void {
    if (!this.#deps.hasListeners()) return;
    const { id, queue, generation, ranMs, row, claim } = held;
    const sinceMs = this.#deps.time.now() - claim.claimedAt;
    const times =
      kind === 'started-job'
        ? { waitedMs: claim.clock - Date.parse(row.cursorAt) + sinceMs }
        : ranMs !== null && { ranMs };
    this.#deps.emit({ kind, queue, id, type: row.type, generation, ...times, ...more });
  }
}
