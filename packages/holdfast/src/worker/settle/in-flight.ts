/**
 * The jobs of one queue that are in flight in this process. A job leaves when the database has answered its settle, or
 * when it is lost: then its signal is aborted and nothing that it settles counts.
 */
import type { Lease } from '../../lease/renew.js';
import type { JobEvent, SettleResult } from '../events.js';
import type { QueueDeps } from '../queue-deps.js';
import type { Outcome } from '../run/attempt.js';
import { leaseLost, type Route } from '../run/handler-context.js';
import type { LeasedJob } from '../run/leased-job.js';
import { type Failed, type Settlement, settleOutcome } from './outcome.js';

interface InFlightDeps extends QueueDeps {
  readonly queue: string;
  readonly left: (held: LeasedJob) => void;
  readonly later: (held: LeasedJob, delayMs: number) => void;
}

export type InFlightJobs = ReturnType<typeof newInFlightJobs>;

export function newInFlightJobs(deps: InFlightDeps) {
  const { queue, keeper, stats, emit, settler, context, time } = deps;
  const jobs = new Map<string, LeasedJob>();
  /** Attempts that have ended since the start; as failures the last ones of dead letters too. */
  const attempts = { failed: 0, completed: 0 };

  /** Logs it, and returns what its event says of it. */
  function reportFailure(
    held: LeasedJob,
    how: 'failed' | 'dead_letter',
    retryInMs: number | undefined,
    { summary: err, thrown: error }: Failed,
  ): Partial<JobEvent> {
    const { id: job, row } = held;
    const { type, attempts: attempt, maxAttempts } = row;
    const facts = { queue, type, job, attempt, maxAttempts, err };
    const again = how === 'failed' && retryInMs !== undefined && { retryInMs };
    if (how === 'dead_letter') context.log.error({ ...facts }, 'a job became a dead letter');
    else context.log.warn({ ...facts, ...again }, 'an attempt failed');
    return { attempt, maxAttempts, error, ...again };
  }

  function settled(held: LeasedJob, how: SettleResult, more: Partial<JobEvent> = {}): void {
    if (how === 'lost') {
      // Perhaps only what ran before it was lost: then the row is still ours, and must not wait for its lease.
      if (held.before) giveBack(held, () => undefined);
      lose(held);
    } else {
      held.how = how;
      stats[how]++;
      if (how === 'failed' || how === 'dead_letter') attempts.failed++;
      if (how === 'completed') attempts.completed++;
      report(how, held, more);
    }
    remove(held);
  }

  function giveBack(held: LeasedJob, done: (result: SettleResult) => void): void {
    const { id, generation, workerId } = held;
    settler.settle('release', workerId, { id, generation }, done);
  }

  function lose(held: LeasedJob): void {
    if (held.lost) return;
    held.lost = true;
    held.abort(leaseLost(held.id, 'what this attempt does from now on'));
    stats.lost++;
    context.log.warn(
      { job: held.id, type: held.row.type, generation: held.generation, worker: held.workerId },
      'the lease of a job was lost; nothing that this attempt settles counts',
    );
    report('lost', held);
  }

  function remove(held: LeasedJob): void {
    if (jobs.get(held.id) === held) jobs.delete(held.id);
    keeper.drop(held);
    held.leave();
    deps.left(held);
  }

  function report(kind: JobEvent['kind'], held: LeasedJob, more: Partial<JobEvent> = {}): void {
    if (!deps.hasListeners()) return;
    const { id, generation, ranMs, row, claim } = held;
    const sinceMs = time.now() - claim.claimedAt;
    const times =
      kind === 'started-job'
        ? { waitedMs: claim.clock - Date.parse(row.cursorAt) + sinceMs }
        : ranMs !== null && { ranMs };
    emit({ kind, queue, id, type: row.type, generation, ...times, ...more });
  }

  return {
    ...{ attempts, lose, report },
    get size() {
      return jobs.size;
    },
    /** Without those that it has lost: their handlers run on, but the queue has given them to others. */
    get held() {
      let held = 0;
      for (const { lost } of jobs.values()) if (!lost) held++;
      return held;
    },
    values: (): LeasedJob[] => [...jobs.values()],
    /** Sent to the keeper before anything is started: a handler that blocks must not cost the others. */
    take(claimed: readonly LeasedJob[]): void {
      keeper.hold(queue, claimed);
      for (const job of claimed) jobs.set(job.id, job);
      stats.claimed += claimed.length;
      const types: Record<string, number> = {};
      for (const { row } of claimed) types[row.type] = (types[row.type] ?? 0) + 1;
      const taken = claimed.filter(({ row }) => row.taken).length;
      emit({ kind: 'claimed', queue, count: claimed.length, types, taken });
    },
    /** Claimed, but the claim counted no more when its answer was read. */
    missed(claimed: readonly LeasedJob[]): void {
      stats.claimed += claimed.length;
      for (const job of claimed) lose(job);
    },
    settle(held: LeasedJob, route: Route, outcome: Outcome): void {
      // At the end of a drain: it leaves when the database has answered the release.
      if (held.releasing) return;
      if (held.gone) lose(held);
      if (held.lost) return void remove(held);
      held.settling = true;
      const done: Settlement['done'] = (how, delayMs, failed) => {
        const isFailure = how === 'failed' || how === 'dead_letter';
        settled(held, how, isFailure && failed ? reportFailure(held, how, delayMs, failed) : {});
        const again = how === 'failed' || how === 'snoozed' || how === 'suspended';
        if (again && delayMs !== undefined) deps.later(held, delayMs);
      };
      settleOutcome({ settler, context, route, held, done }, outcome);
    },
    /** Back to the queue, unspent; what is settled or lost already is left alone. */
    release(held: LeasedJob): void {
      if (held.settling) return;
      if (held.lost) return void remove(held);
      held.settling = true;
      held.releasing = true;
      giveBack(held, (result) => settled(held, result));
    },
    /** The keeper could not renew these, unless a settle of ours is the reason. */
    find: (leases: readonly Lease[]): LeasedJob[] =>
      leases.flatMap(({ id, generation }) => {
        const held = jobs.get(id);
        return held?.generation === generation && !held.settling ? [held] : [];
      }),
  };
}
