/**
 * Several jobs of one type in one call of a handler. To the rest of the worker each of them is an attempt of its own: its
 * handler waits (batch-slot.ts) until the batch says what became of it. So what fails, is lost or cancelled is one job.
 */
import type pg from 'pg';
import { childLogger, type Logger } from '../../postgres/log/log.js';
import { BatchSlot } from './batch-slot.js';
import { completeTogether } from './completion.js';
import type { JobContext } from './context.js';
import type { ContextDeps } from './context-deps.js';
import type { Route } from './handler-context.js';
import {
  type BatchContext,
  type BatchHandler,
  type BatchJob,
  jobState,
  type Many,
} from './handler-context.js';
import type { LeasedJob } from './leased-job.js';
import type { OneJob } from './one-job.js';

/** A job by itself, for who knows of no batches, such as the test kit. */
export function aloneHandler(many: Many): Route['handler'] {
  return (context) => {
    const slot = new BatchSlot(null, null);
    const ended = slot.join(context as JobContext<unknown>);
    void callHandler(many.handler, [slot], context.log, null);
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
  const slots: BatchSlot[] = [];
  const size = runs.reduce((sum, run) => sum + run.length, 0);
  const ends = runs.map((run) => {
    for (const held of run) held.together = size;
    return startRun(slots, run, job, one);
  });
  const handler = { of: { queue: job.queue, type: job.type }, abandon: () => {} };
  let over = false;
  void callHandler(many.handler, slots, deps.log, deps).then(() => {
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
  slots: BatchSlot[],
  run: readonly LeasedJob[],
  job: Route['job'],
  one: OneJob,
): Promise<boolean> {
  let before = run[0]?.before ?? null;
  if (before?.failed) return false;
  let behind: BatchSlot | null = null;
  let ahead: Promise<boolean> | null = null;
  for (const held of run) {
    const slot: BatchSlot = new BatchSlot(behind, held);
    slots.push(slot);
    if (ahead) slot.ahead = ahead;
    const handler: Route['handler'] = (context) => slot.join(context as never);
    const ran = one(held, before, { job, handler, inBatch: true });
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

/**
 * Calls the handler when all jobs are there. Never throws: what it throws is the failure of its jobs. `deps` are needed
 * for more than one job.
 */
async function callHandler(
  handler: BatchHandler<unknown>,
  all: readonly BatchSlot[],
  log: Logger,
  deps: ContextDeps | null,
): Promise<void> {
  await Promise.all(all.map(({ filled }) => filled));
  const slots = all.filter(({ taken }) => taken);
  if (slots.length === 0) return;
  try {
    await handler(jobsOf(slots), manyContext(slots, log, deps));
  } catch (error) {
    for (const slot of slots) slot.fail(error);
  }
  for (const slot of slots) slot.done(undefined);
}

function manyContext(
  slots: readonly BatchSlot[],
  workerLog: Logger,
  deps: ContextDeps | null,
): BatchContext<unknown> {
  const [{ type, queue }] = jobsOf(slots) as [BatchJob<unknown>];
  let signal: AbortSignal | null = null;
  let log: Logger | null = null;
  let transacting = false;
  return {
    type,
    queue,
    get signal() {
      signal ??= whenNoneIsOpen(slots);
      return signal;
    },
    get log() {
      log ??= childLogger(workerLog, { type, queue });
      return log;
    },
    async transaction(work) {
      for (const slot of slots) slot.stopBehindLost();
      const open = slots.filter((slot) => slot.isOpen);
      const late = slots.find(({ context }) => context.isTimedOut);
      if (open.length === 0 && late) throw late.context.notHeld('the transaction');
      const problem = transacting
        ? 'The batch has a transaction open already'
        : open.length === 0
          ? 'No job of the batch is open any more'
          : null;
      if (problem)
        throw jobState(
          `${problem}, so a transaction was refused. Do all of it in one: the jobs complete with it.`,
        );
      if (slots[0]?.context.hasResultSchema)
        throw jobState(
          `The definition of "${type}" has a schema for its result, and the transaction of a batch completes jobs without results, so it was refused. ` +
            'Return jobs.map((job) => job.done(result)) instead.',
        );
      transacting = true;
      try {
        const value = await complete(open, deps, (tx) => work(tx, jobsOf(open)));
        for (const slot of open) slot.done(undefined);
        return value;
      } finally {
        transacting = false;
      }
    },
  };
}

const jobsOf = (slots: readonly BatchSlot[]) => slots.map(({ job }) => job as BatchJob<unknown>);

async function complete<Value>(
  open: readonly BatchSlot[],
  deps: ContextDeps | null,
  work: (tx: pg.PoolClient) => Promise<Value>,
): Promise<Value> {
  const contexts = open.map(({ context }) => context);
  const [first] = contexts as [JobContext<unknown>];
  if (deps && open.length > 1) return completeTogether(contexts, deps, work);
  let value!: Value;
  await first.transaction(async (tx) => {
    // A batch has no result of its own, whatever its size.
    value = await work(tx);
  });
  return value;
}

/** Aborted once every unsettled job's signal is aborted; a job that is done or failed has no limit any more. */
function whenNoneIsOpen(slots: readonly BatchSlot[]): AbortSignal {
  const none = new AbortController();
  const signalOf = ({ job }: BatchSlot) => (job as BatchJob<unknown>).signal;
  let aborted = slots.some((slot) => signalOf(slot).aborted);
  const check = () => {
    if (!aborted) return;
    const open = slots.filter(({ decided }) => !decided);
    const [first] = open;
    if (first && open.every((slot) => signalOf(slot).aborted)) none.abort(signalOf(first).reason);
  };
  const onAbort = () => {
    aborted = true;
    check();
  };
  for (const slot of slots) {
    slot.onDecided = check;
    signalOf(slot).addEventListener('abort', onAbort, { once: true });
  }
  check();
  return none.signal;
}
