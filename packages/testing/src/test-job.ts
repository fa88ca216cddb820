/**
 * One attempt of one job, inline: the handler is called once, in a real context, on a real row, and what came of
 * it is returned. With a fault it meets one of the things that happen in production.
 */
import type { JobDefinition, PayloadOf } from 'holdfast';
import { checkKnown, type Known, type LeasedJob } from 'holdfast/internal';
import { invalid } from './deps.js';
import { FAULTS, type Fault } from './faults/fault.js';
import { strike, usualPlace } from './faults/strike.js';
import { type EnqueuedJob, effectsOf, lastPositions, writtenSince } from './rows.js';
import { type Target, target } from './target.js';
import { type AttemptEnd, outcomeOf, type TestOutcome, type TestWorker } from './test-worker.js';
import { type TestHandler, TRIAL_OPTIONS, Trial, type TrialOptions } from './trial.js';

export type { TestOutcome } from './test-worker.js';

/** The job that `testJob()` runs, and the fault. */
export interface TestJobOptions extends Target, TrialOptions {
  /** What goes wrong while it runs. Default: nothing. */
  readonly fault?: Fault;
}

const OPTIONS = { ...TRIAL_OPTIONS, fault: true } as const satisfies Known<TestJobOptions>;

/** How the job ended. */
export interface TestJobResult<Result = unknown> {
  readonly id: string;
  readonly outcome: TestOutcome;
  /** With `retry` and `snoozed`: after how long it runs again. */
  readonly delayMs: number | null;
  /** What the handler returned, as it is kept with the job; null: nothing, or the job is not completed. */
  readonly result: Result | null;
  /** What the handler threw, or why the payload could not be read. */
  readonly error: unknown;
  /** Jobs of any queue that were written meanwhile and are committed: children, and others. */
  readonly enqueued: readonly EnqueuedJob[];
  /** By name, what `ctx.once` has recorded. */
  readonly effects: Readonly<Record<string, unknown>>;
}

/**
 * Runs one attempt of a job and returns how it ended. The job stays as the attempt left it: completed in the archive, or
 * waiting for its next attempt.
 * @example
 * const { outcome } = await testJob(sendReceipt, async () => {}, { orderId: 9182 });
 * console.log(outcome); // 'completed'
 */
export async function testJob<Input, Payload, Result>(
  job: JobDefinition<Input, Payload, Result>,
  handler: TestHandler<Payload, NoInfer<Result>>,
  payload: PayloadOf<Input>,
  options: TestJobOptions = {},
): Promise<TestJobResult<Result>> {
  checkKnown(options, OPTIONS, 'testJob()', 'Nothing was run.');
  const { hf, fault, ...rest } = options;
  if (fault !== undefined && !FAULTS.includes(fault))
    throw invalid(
      `There is no fault ${JSON.stringify(fault)}; nothing was run. Use one of ${FAULTS.join(', ')}.`,
    );
  const trial = new Trial(await target(hf), job, handler);
  const { ownPool, schema } = trial.deps;
  const before = await lastPositions(ownPool, schema);
  const first = trial.worker();
  const held = await trial.begin(first, payload, { ...rest, unique: false });
  const end = fault ? await struckAttempt(trial, fault, held, first) : await trial.run(first, held);
  const enqueued = await writtenSince(ownPool, schema, before, held);
  const ended = await resultOf(trial, end, held.id);
  return { id: held.id, ...ended, result: ended.result as Result | null, enqueued };
}
async function struckAttempt(trial: Trial, fault: Fault, held: LeasedJob, first: TestWorker) {
  const scene = { trial, first, held, tell: async () => undefined };
  const { end, step } = await strike(fault, scene, usualPlace(fault, held));
  if (step) return end;
  throw invalid(
    `The fault "${fault}" had nothing to strike: the attempt ended before. ` +
      (fault === 'marker_lost'
        ? 'It strikes where ctx.once records its marker, and this handler got to none.'
        : 'Did the handler throw before it came to its end?'),
  );
}

async function resultOf(trial: Trial, end: AttemptEnd | null, id: string) {
  const { deps, names } = trial;
  const row = await deps.hf.job(id, { queue: names.queue });
  const outcome = end ? outcomeOf(end, row) : 'crashed';
  const failed = outcome === 'retry' || outcome === 'dead_letter';
  const again = outcome === 'retry' || outcome === 'snoozed';
  return {
    outcome,
    delayMs: again && end && 'delayMs' in end.outcome ? end.outcome.delayMs : null,
    result: row?.result ?? null,
    error: trial.thrown ?? (failed ? new Error(row?.lastError ?? 'the attempt failed') : undefined),
    effects: await effectsOf(deps.ownPool, names, id),
  };
}
