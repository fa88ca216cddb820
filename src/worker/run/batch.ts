/**
 * Several jobs of one type in one call of a handler. To the rest of the worker each of them is an attempt of its
 * own, with its context, its lease, its signal and its settle: its handler waits (batch-slot.ts) until the batch says what
 * became of it. So a part may fail, and what is lost or cancelled is one job and not the batch.
 */
import type pg from 'pg';
import { HoldfastError } from '../../job/errors.js';
import { childLogger, type Logger } from '../../postgres/log.js';
import type { Route } from './attempt.js';
import { BatchSlot } from './batch-slot.js';
import { completeTogether } from './completion.js';
import type { JobContext } from './context.js';
import type { ContextDeps } from './handler-context.js';
import type { LeasedJob } from './leased-job.js';
import type { BatchContext, BatchHandler, BatchJob, Many } from './many.js';
import type { OneJob } from './one-job.js';

/** A job by itself, for who knows of no batches, such as the test kit. */
export function aloneHandler(many: Many): Route['handler'] {
  return (context) => {
    const batch = new Batch(many.handler, context.log, null);
    const slot = batch.slot(null, null);
    const ended = slot.join(context as JobContext<unknown>);
    void batch.run();
    return ended;
  };
}

/** One call of the handler for all of these jobs. Resolves when each has ended: whether the last run succeeded. */
export async function runBatch(
  { job, many }: { readonly job: Route['job']; readonly many: Many },
  runs: readonly LeasedJob[][],
  one: OneJob,
  deps: ContextDeps,
): Promise<boolean> {
  const batch = new Batch(many.handler, deps.log, deps);
  const first = runs[0]?.[0] as LeasedJob;
  const size = runs.reduce((sum, run) => sum + run.length, 0);
  const ends = runs.map((run) => {
    for (const held of run) held.together = size;
    return startRun(batch, run, job, one);
  });
  const handler = { of: { queue: first.queue, type: job.type }, abandon: () => {} };
  let over = false;
  void batch.run().then(() => {
    over = true;
    deps.leaks?.ended(handler);
  });
  const succeeded = (await Promise.all(ends)).at(-1) === true;
  // It goes on, and not because it has said of each job how that ended.
  if (!over && runs.some((run) => run.some((held) => held.aborted))) deps.leaks?.add(handler);
  return succeeded;
}

/** Starts the jobs of one run; each is settled after the one before it. True: all of them succeeded. */
async function startRun(
  batch: Batch,
  run: readonly LeasedJob[],
  job: Route['job'],
  one: OneJob,
): Promise<boolean> {
  let before = run[0]?.before ?? null;
  if (before?.failed) return false;
  let behind: BatchSlot | null = null;
  let ahead: Promise<boolean> | null = null;
  for (const held of run) {
    const slot: BatchSlot = batch.slot(behind, held);
    if (ahead) slot.ahead = ahead;
    const handler: Route['handler'] = (context) => slot.join(context as never);
    const ran = one.run(held, before, { job, handler, inBatch: true });
    if (!held.started) {
      slot.leave();
      return false;
    }
    ahead = Promise.resolve(ran).then(async (ok) => {
      slot.leave();
      // Until it is known how it ended, those behind it would be settled after a job that may have succeeded.
      if (!ok) await held.left();
      // The answer to its commit may have been lost, and it was found to have succeeded.
      return ok || held.how === 'completed';
    });
    behind = slot;
    before = held;
  }
  return ahead ?? false;
}

class Batch {
  readonly #handler: BatchHandler<unknown>;
  readonly #log: Logger;
  readonly #deps: ContextDeps | null;
  readonly #slots: BatchSlot[] = [];

  /** `deps` are needed for more than one job. */
  constructor(handler: BatchHandler<unknown>, log: Logger, deps: ContextDeps | null) {
    this.#handler = handler;
    this.#log = log;
    this.#deps = deps;
  }

  slot(before: BatchSlot | null, held: LeasedJob | null): BatchSlot {
    const slot = new BatchSlot(before, held);
    this.#slots.push(slot);
    return slot;
  }

  /** Calls the handler when all jobs are there. Never throws: what it throws is the failure of its jobs. */
  async run(): Promise<void> {
    await Promise.all(this.#slots.map(({ filled }) => filled));
    const slots = this.#slots.filter(({ taken }) => taken);
    const jobs = slots.map(({ job }) => job as BatchJob<unknown>);
    if (jobs.length === 0) return;
    try {
      await this.#handler(jobs, new ManyContext(slots, this.#log, this.#deps));
    } catch (error) {
      for (const slot of slots) slot.fail(error);
    }
    for (const slot of slots) slot.done(undefined);
  }
}

class ManyContext implements BatchContext<unknown> {
  readonly #slots: readonly BatchSlot[];
  readonly #jobs: readonly BatchJob<unknown>[];
  readonly #workerLog: Logger;
  readonly #deps: ContextDeps | null;
  #signal: AbortSignal | null = null;
  #log: Logger | null = null;
  #transacting = false;

  constructor(slots: readonly BatchSlot[], workerLog: Logger, deps: ContextDeps | null) {
    this.#slots = slots;
    this.#jobs = slots.map(({ job }) => job as BatchJob<unknown>);
    this.#workerLog = workerLog;
    this.#deps = deps;
  }

  get type(): string {
    return (this.#jobs[0] as BatchJob<unknown>).type;
  }

  get queue(): string {
    return (this.#jobs[0] as BatchJob<unknown>).queue;
  }

  get signal(): AbortSignal {
    this.#signal ??= whenNoneIsOpen(this.#slots);
    return this.#signal;
  }

  get log(): Logger {
    const { type, queue } = this;
    this.#log ??= childLogger(this.#workerLog, { type, queue });
    return this.#log;
  }

  // Taken out of the context by some: (jobs, { transaction }) => ….
  get transaction(): BatchContext<unknown>['transaction'] {
    return (work) => this.#transaction(work);
  }

  async #transaction<Value>(
    work: (tx: pg.PoolClient, jobs: readonly BatchJob<unknown>[]) => Promise<Value>,
  ): Promise<Value> {
    for (const slot of this.#slots) slot.stopBehindLost();
    const open = this.#slots.filter((slot) => slot.isOpen);
    const problem = this.#transacting
      ? 'The batch has a transaction open already'
      : open.length === 0
        ? 'No job of the batch is open any more'
        : null;
    if (problem) {
      throw new HoldfastError(
        'JOB_STATE',
        `${problem}, so a transaction was refused. Do all of it in one: the jobs complete with it.`,
      );
    }
    const jobs = open.map(({ job }) => job as BatchJob<unknown>);
    this.#transacting = true;
    try {
      const value = await this.#complete(open, (tx) => work(tx, jobs));
      for (const slot of open) slot.done(undefined);
      return value;
    } finally {
      this.#transacting = false;
    }
  }

  async #complete<Value>(open: readonly BatchSlot[], work: (tx: pg.PoolClient) => Promise<Value>) {
    const [first] = open;
    if (this.#deps && open.length > 1)
      return completeTogether(
        open.map((slot) => slot.member),
        this.#deps,
        work,
      );
    let value!: Value;
    await (first as BatchSlot).context.transaction(async (tx) => {
      // A batch has no result of its own, whatever its size.
      value = await work(tx);
    });
    return value;
  }
}

/**
 * Aborted with the last job of which nothing was said: one that is done or failed has no time limit and no lease left
 * that could end.
 */
function whenNoneIsOpen(slots: readonly BatchSlot[]): AbortSignal {
  const none = new AbortController();
  const signalOf = ({ job }: BatchSlot) => (job as BatchJob<unknown>).signal;
  let aborted = slots.some((slot) => signalOf(slot).aborted);
  const look = () => {
    if (!aborted) return;
    const open = slots.filter(({ decided }) => !decided);
    const [first] = open;
    if (first && open.every((slot) => signalOf(slot).aborted)) none.abort(signalOf(first).reason);
  };
  const onAbort = () => {
    aborted = true;
    look();
  };
  for (const slot of slots) {
    slot.onDecided = look;
    signalOf(slot).addEventListener('abort', onAbort, { once: true });
  }
  look();
  return none.signal;
}
