/**
 * A trial: one job, written for the purpose, that workers of the kit claim, run, lose and recover. It is what
 * `testJob`, its faults and `survivesFaults` are made of. The job is claimed in the transaction that writes it,
 * so a worker that runs on the same database never sees it.
 */
import type { EnqueueOptions, HandlerContext, JobDefinition, JobHandler } from 'holdfast';
import { HoldfastError } from 'holdfast';
import {
  type Known,
  type LeasedJob,
  type Names,
  type Route,
  recover,
  withTransaction,
} from 'holdfast/internal';
import { invalid, type TestDeps } from './deps.js';
import { type Watcher, watchedExecutor, watching, watchPool } from './faults/steps.js';
import { makeDue, type Place, setAttempts } from './rows.js';
import type { Target } from './target.js';
import { type AttemptEnd, TestWorker } from './test-worker.js';

/** The handler of a job, as your worker has it. */
export type TestHandler<Payload, Result = unknown> = JobHandler<Payload, Result>;

/** The job that a test runs. */
export interface TrialOptions
  extends Pick<EnqueueOptions, 'partitionKey' | 'headers' | 'maxAttempts'> {
  /** Which attempt it is. Default 1. */
  readonly attempt?: number;
}

export const TRIAL_OPTIONS = {
  ...{ hf: true, partitionKey: true, headers: true, maxAttempts: true, attempt: true },
} as const satisfies Known<TrialOptions & Target>;

/** How the job is handled, if not by a handler. */
interface How {
  route(watcher: Watcher | null): Omit<Route, 'job'>;
}

/** What is tried, checked. */
export class Trial {
  readonly deps: TestDeps;
  readonly job: JobDefinition<never, unknown>;
  readonly names: Names;
  readonly #how: How;
  /** What the handler threw last. */
  thrown: unknown;

  constructor(deps: TestDeps, job: JobDefinition<never, unknown>, how: TestHandler<never> | How) {
    if (typeof job?.item !== 'function')
      throw wrong('The first argument is not a job of job("name")');
    if (typeof how !== 'function' && typeof how?.route !== 'function')
      throw wrong('The second argument is not a handler function');
    this.deps = { ...deps, engine: watchedExecutor(deps.engine) };
    this.job = job;
    this.names = deps.names(job.queue);
    this.#how =
      typeof how === 'function' ? { route: (watcher) => this.#handle(how, watcher) } : how;
  }

  worker(): TestWorker {
    return new TestWorker(this.deps, new Map([[this.job.type, this.#route(null)]]));
  }

  #route(watcher: Watcher | null): Route {
    // A crashed attempt never ends, and must not leave a timer behind.
    const job = watcher ? { ...this.job, timeoutMs: null } : this.job;
    return { job: job as unknown as Route['job'], ...this.#how.route(watcher) };
  }

  #handle(given: TestHandler<never>, watcher: Watcher | null): Pick<Route, 'handler'> {
    const handler = async (context: HandlerContext<never>) => {
      try {
        return await given(context);
      } catch (error) {
        this.thrown = error;
        throw error;
      } finally {
        if (watcher) watcher.settling = true;
      }
    };
    return { handler: handler as Route['handler'] };
  }

  /** Writes the job and claims it, in one transaction. */
  async begin(
    by: TestWorker,
    payload: unknown,
    options: TrialOptions & Pick<EnqueueOptions, 'unique'>,
    as: JobDefinition<never, unknown> = this.job,
  ): Promise<LeasedJob> {
    const { attempt = 1, ...enqueue } = options;
    const { hf, ownPool } = this.deps;
    const maxAttempts = enqueue.maxAttempts ?? this.job.maxAttempts;
    if (!Number.isInteger(attempt) || attempt < 1 || attempt > maxAttempts)
      throw wrong(
        `attempt is ${String(attempt)} and must be a whole number from 1 to maxAttempts, which is ${maxAttempts}`,
      );
    return withTransaction(ownPool, async (tx) => {
      const unique = { ...enqueue, tx };
      const { id, deduplicated } = await hf.enqueue(as, payload as never, unique);
      if (deduplicated)
        throw new HoldfastError(
          'JOB_STATE',
          `Job ${id} already has the unique key, so no job was made. Use another payload, or clearJobs(hf).`,
        );
      if (attempt > 1) await setAttempts(tx, this.names, id, attempt - 1);
      const place = (await makeDue(tx, this.names, id)) as Place;
      const held = await by.claimPlace(this.deps.on(tx), this.names, id, place);
      if (!held) throw unclaimed(this.names.queue, place);
      return held;
    });
  }

  /** One attempt, with every step shown to the watcher. */
  run(by: TestWorker, held: LeasedJob, watcher?: Watcher): Promise<AttemptEnd> {
    if (!watcher) return by.run(held);
    watchPool(this.deps.pool);
    watchPool(this.deps.ownPool);
    const routes = new Map([[this.job.type, this.#route(watcher)]]);
    return watching.run(watcher, () => new TestWorker(this.deps, routes).run(held));
  }

  /** Others act as if nobody watched. */
  aside<Value>(work: () => Promise<Value>): Promise<Value> {
    return watching.exit(work);
  }

  /** The worker is gone with what it holds, and another one recovers that. */
  async vanish(by: TestWorker, recoverer: TestWorker): Promise<void> {
    await by.leave(this.names, true);
    await recover(this.deps.engine, this.names, { limit: 1_000, recoverer: recoverer.id });
  }
}

const wrong = (problem: string) =>
  invalid(`${problem}; nothing was run. The arguments are (job, handler, payload, options).`);

function unclaimed(queue: string, { paused, ordering, key }: Place): HoldfastError {
  const why = paused
    ? paused === 'queue'
      ? `the queue "${queue}" is paused: call hf.resume("${queue}")`
      : `its ${paused} is paused: call hf.resume("${queue}", { ${paused} })`
    : ordering === 'turns'
      ? `in the queue "${queue}" an older job of the key ${JSON.stringify(key)} waits, or as many run as may: use another key, or clearJobs(hf)`
      : ordering !== 'none'
        ? `the queue "${queue}" is read by key, and another job of the key ${JSON.stringify(key)} stands before it: use another key, or clearJobs(hf)`
        : 'it was taken by another worker: stop the workers that run on this database';
  return new HoldfastError('JOB_STATE', `The job could not be claimed, and was not run: ${why}.`);
}
