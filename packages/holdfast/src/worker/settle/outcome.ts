/** From the outcome of an attempt to the settle that belongs to it. */
import { writeJobs } from '../../enqueue/enqueue.js';
import { enqueuedEvents } from '../../enqueue/enqueued.js';
import { HoldfastError } from '../../job/errors/errors.js';
import { describeError } from '../../job/errors/failure.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import { executor, type Queryable } from '../../postgres/queryable.js';
import { complete, completedBefore } from '../../settle/complete.js';
import { fail } from '../../settle/fail.js';
import type { Settled } from '../../settle/settled.js';
import type { SettleResult } from '../events.js';
import { described, type Failure, type Outcome } from '../run/attempt.js';
import type { ContextDeps } from '../run/context-deps.js';
import type { Route } from '../run/handler-context.js';
import { leaseLost } from '../run/handler-context.js';
import type { LeasedJob } from '../run/leased-job.js';
import { resultOfFailure, type Settler } from './settler.js';
import { type Done, Refusal } from './waiting.js';

interface OutcomeDeps {
  readonly settler: Settler;
  readonly context: ContextDeps;
  readonly route: Route;
}

type OutcomeOf<Kind extends Outcome['kind']> = Extract<Outcome, { kind: Kind }>;

/** Why an attempt failed: what was thrown, and one line of it. */
export type Failed = Pick<Failure, 'thrown' | 'summary'>;

/** The result, after how long the job is to be run again, if it is, and why the attempt failed, if it did. */
type OnSettled = (result: SettleResult, delayMs?: number, failed?: Failed) => void;

/** Calls `done` once, when the database has answered. */
export function settleOutcome(
  deps: OutcomeDeps,
  held: LeasedJob,
  outcome: Outcome,
  done: OnSettled,
): void {
  new Settlement(deps, held, done).settle(outcome);
}

class Settlement {
  readonly #deps: OutcomeDeps;
  readonly #held: LeasedJob;
  readonly #done: OnSettled;

  constructor(deps: OutcomeDeps, held: LeasedJob, done: OnSettled) {
    this.#deps = deps;
    this.#held = held;
    this.#done = done;
  }

  settle(outcome: Outcome): void {
    const { settler } = this.#deps;
    const { id, generation, workerId: by } = this.#held;
    const orFail = (delayMs?: number, failed?: Failed) =>
      this.#orFail(outcome.kind, delayMs, failed);
    switch (outcome.kind) {
      case 'completed':
        if (outcome.children.length > 0) void this.#completeParent(outcome);
        else settler.settle('complete', by, this.#completion(outcome.result), orFail());
        break;
      case 'transacted':
        this.#done('completed');
        break;
      case 'handed':
        void this.#settleHanded(outcome.ifNot);
        break;
      case 'failed':
        if (outcome.handed) void this.#settleHanded(() => outcome);
        else this.#fail(outcome);
        break;
      case 'dead_letter': {
        const job = { id, generation, ...outcome };
        settler.settle('dead_letter', by, job, orFail(undefined, outcome));
        break;
      }
      case 'snoozed':
        settler.settle('snooze', by, { id, generation, ...outcome }, orFail(outcome.delayMs));
        break;
      case 'cancelled':
        settler.settle('cancel', by, { id, generation, ...outcome }, orFail());
        break;
      case 'refused':
        void this.#releaseRefused(outcome.error);
        break;
      case 'lost':
        this.#done('lost');
        break;
    }
  }

  #orFail(kind: Outcome['kind'], delayMs?: number, failed?: Failed): Done {
    return (result) => {
      if (!(result instanceof Refusal)) return this.#done(result, delayMs, failed);
      // A trigger of yours on the archive may do that. The lease is not lost.
      const why = describeError(result.error).message;
      const text = `the database refused to write the outcome "${kind}": ${why}`;
      this.#failInstead(result.error, new Error(text, { cause: result.error }));
    };
  }

  /**
   * Its transaction was rolled back, and the job is not to blame: it goes back unspent, after a while. Until then the
   * reason may be gone; and a worker does not run one job after the other in vain.
   */
  async #releaseRefused(error: unknown): Promise<void> {
    const { settler, context } = this.#deps;
    const { id, generation, workerId, row } = this.#held;
    if (!settler.keeps) return this.#failInstead(error, error);
    context.log.warn(
      { job: id, type: row.type, err: describeError(error).message },
      'the database refused the completion inside of a transaction; nothing was committed, and the job is released unspent',
    );
    await settler.keepAWhile(error);
    settler.settle('release', workerId, { id, generation }, this.#done);
  }

  /** In a run of a key each names the one before it, and counts only if that one does. */
  #completion(result: string | null): Settled {
    const { id, generation, after, before } = this.#held;
    if (!before) return { id, generation, result };
    return { id, generation, result, after, broken: () => before.failed };
  }

  #fail(failed: Pick<Failure, 'delayMs' | 'error' | 'summary' | 'thrown'>): void {
    const { id, generation, workerId } = this.#held;
    this.#deps.settler.settle('fail', workerId, { id, generation, ...failed }, (result) =>
      this.#done(result, failed.delayMs, failed),
    );
  }

  /** The database does not take the outcome, so the attempt has failed. `shown`: what its history says. */
  #failInstead(error: unknown, shown: unknown): void {
    const { delayMs } = this.#deps.route.job.retry(this.#held.row.attempts, error);
    this.#fail({ delayMs, ...described(shown) });
  }

  async #wasCompleted(): Promise<boolean> {
    const { plain, names } = this.#deps.context;
    return (await completedBefore(plain, names, this.#held.workerId, [this.#held])).length > 0;
  }

  /**
   * The completion was put into a transaction whose end is not known: the archive is asked first. If that
   * transaction is still open, the failure waits for it here and not in the settler, where others would too.
   */
  async #settleHanded(ifNot: () => Failure): Promise<void> {
    const { settler, context } = this.#deps;
    const { id, generation, workerId } = this.#held;
    let failure: Failure | undefined;
    let result: SettleResult;
    try {
      result = await settler.untilAnswered('settling a job whose commit is unknown', async () => {
        if (await this.#wasCompleted()) return 'completed';
        if (!(await settler.isAlive(workerId))) return 'lost';
        failure ??= ifNot();
        const job = { id, generation, ...failure };
        const [row] = await fail(context.plain, context.names, workerId, [job]);
        // It waited for that transaction, which has committed meanwhile.
        if (!row && (await this.#wasCompleted())) return 'completed';
        return resultOfFailure(row?.status);
      });
    } catch {
      // Refused as it is, and reported. The settler finds words that are taken, or tries again.
      return this.#fail(failure ?? ifNot());
    }
    this.#done(result, failure?.delayMs, failure);
  }

  /** A parent whose children cannot be written has failed: neither it nor they are half done. */
  async #completeParent(outcome: OutcomeOf<'completed'>): Promise<void> {
    const { settler, context } = this.#deps;
    const held = this.#held;
    let result: SettleResult;
    try {
      result = await settler.untilAnswered('completing a job with children', async (again) => {
        if (again && (await this.#wasCompleted())) return 'completed';
        if (!(await settler.isAlive(held.workerId))) return 'lost';
        await completeWithChildren(context, held, outcome);
        return 'completed';
      });
    } catch (error) {
      const lost = error instanceof HoldfastError && error.code === 'LEASE_LOST';
      return lost ? this.#done('lost') : this.#failInstead(error, error);
    }
    this.#done(result);
  }
}

/** In one transaction. Throws LEASE_LOST when the lease was lost; then neither the job nor a child is written. */
async function completeWithChildren(
  { names, maxPayloadBytes, ownPool, begin, emit, gate }: ContextDeps,
  held: LeasedJob,
  { children, result }: OutcomeOf<'completed'>,
): Promise<void> {
  const { id, generation, after, workerId } = held;
  const write = async (client: Queryable) => {
    const db = executor(client);
    // The children first: the completion locks the row, and from then on the transaction should be short.
    const limits = { maxPayloadBytes, onMismatch: 'error' } as const;
    const enqueued = await writeJobs(db, names, children, limits);
    const moved = await complete(db, names, workerId, [{ id, generation, after, result }]);
    if (moved.length === 0) throw leaseLost(id, 'the completion');
    return enqueued;
  };
  const transact = () => withTransaction(ownPool, write, begin);
  const written = await (gate ? gate.run(names.queue, transact) : transact());
  for (const event of enqueuedEvents(names.queue, children, written)) emit(event);
}
