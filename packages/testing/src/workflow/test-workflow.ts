/**
 * One run of a workflow, inline and on a real database: turns, waits and undos are recorded as in production, time moves forward
 * over everything that the run waits for, and steps, undos and children can be faked.
 */
import type {
  Duration,
  HoldfastError,
  PayloadOf,
  RunStep,
  SignalArguments,
  Signals,
  WorkflowDefinition,
} from 'holdfast';
import { HoldfastError as Failure } from 'holdfast';
import { checkKnown, durationMs, isWorkflow, MAX_DELAY_MS } from 'holdfast/internal';
import { invalid } from '../deps.js';
import { type EnqueuedJob, lastPositions, writtenSince } from '../rows.js';
import { target } from '../target.js';
import { Drive } from './drive.js';
import { outcomeOf, undoneIn } from './outcome.js';
import {
  checkScript,
  SCRIPT,
  type TestBodies,
  type TestWorkflowOptions,
  type WorkflowScript,
} from './script.js';

/** A step of a run, with the value that it returned. */
export interface TestStep extends RunStep<Date> {
  /** A fake took the place of its function. */
  readonly faked: boolean;
}

/** How `run.signal()` sends. */
interface SentOnce {
  /** As for `hf.signal()`: a second signal with this key is dropped. */
  readonly key?: string;
}

/** How a run ended. */
export interface TestRunResult<Result = unknown> {
  /** The id of the run. */
  readonly id: string;
  /** `dead_letter`: it failed for good, and has undone what it did unless `error` says otherwise. */
  readonly outcome: 'completed' | 'dead_letter' | 'cancelled';
  /** What the body returned; null: nothing, or it is not completed. */
  readonly result: Result | null;
  /** Why it failed or was cancelled; null: it is completed. */
  readonly error: string | null;
  /** What it did and waited for, with values, in the order in which it began. */
  readonly steps: readonly TestStep[];
  /** The names of the steps that were undone, in the order in which they were. */
  readonly undone: readonly string[];
  /** By how much time was moved forward, in milliseconds. */
  readonly movedMs: number;
  /** How often the body was called. */
  readonly turns: number;
  /** Fakes under names that the body never asked for, such as `steps.charge`. One that is mistyped rejects the run. */
  readonly unusedFakes: readonly string[];
  /** Jobs of any queue that were written meanwhile and still wait. */
  readonly enqueued: readonly EnqueuedJob[];
}

/**
 * A run in a test. Await it to drive it to its end, or stop it before with `untilWaiting`. It begins with the first await.
 * @example
 * const run = testWorkflow(checkout, async (flow) => flow.wait('approval', 'approved'), order);
 * await run.untilWaiting('approval');
 * await run.signal('approved', { by: 'kim' });
 * const { outcome } = await run;
 */
export class TestRun<Signal extends object = Signals, Result = unknown>
  implements PromiseLike<TestRunResult<Result>>
{
  readonly #begin: () => Promise<Begun>;
  #begun: Promise<Begun> | null = null;
  #drive: Drive | null = null;
  #before: Promise<unknown> = Promise.resolve();
  #end: Promise<TestRunResult<Result>> | null = null;

  /** Made by `testWorkflow()`. */
  constructor(begin: () => Promise<Begun>) {
    this.#begin = begin;
  }

  /** The id of the run. Throws before it has begun. */
  get id(): string {
    if (this.#drive) return this.#drive.id;
    throw new Failure(
      'JOB_STATE',
      'The run has not begun, so it has no id. Await untilWaiting() first.',
    );
  }

  /** By how much time was moved forward so far, in milliseconds. */
  get movedMs(): number {
    return this.#drive?.movedMs ?? 0;
  }

  /** One thing after the other, also if nobody waits in between. */
  #next<Value>(work: (begun: Begun) => Promise<Value>): Promise<Value> {
    const next = this.#before.then(async () => {
      this.#begun ??= this.#begin();
      const begun = await this.#begun;
      this.#drive = begun.drive;
      return work(begun);
    });
    this.#before = next.catch(() => undefined);
    return next;
  }

  /**
   * Goes on until the run waits in the step of this name, or in any: for a signal, a time, children or its next try. Time moves
   * to there. Rejects if the run ends before.
   * @example await testWorkflow(checkout, (flow) => flow.wait('approval', 'approved'), order).untilWaiting('approval');
   */
  untilWaiting(name?: string): Promise<RunStep<Date>> {
    return this.#next(async ({ drive }) => {
      for (;;) {
        if (!(await drive.settle())) throw await endedBefore(drive, name);
        const found = (await drive.waits()).find((one) => name === undefined || one.name === name);
        if (found) return found;
        if (!(await drive.moveOn())) throw await drive.stuck();
      }
    });
  }

  /**
   * Sends the run a signal now. Returns false if its key was sent before.
   * @example await testWorkflow(checkout, (flow) => flow.wait('approval', 'approved'), order).signal('approved', { by: 'kim' });
   */
  signal<Name extends keyof Signal & string>(
    name: Name,
    ...given: SignalArguments<Signal[Name], SentOnce>
  ): Promise<boolean> {
    const [value, options = {}] = given as [value?: unknown, options?: SentOnce];
    return this.#next(({ drive }) => drive.send(name, value, options.key));
  }

  /**
   * Lets so much time pass, and does what is due in it. The run may be waiting after it, or may have ended.
   * @example await testWorkflow(checkout, (flow) => flow.sleep('cool off', '2d'), order).advance('1d');
   */
  advance(by: Duration): Promise<void> {
    return this.#next(async ({ drive }) => {
      const untilMs =
        drive.movedMs + durationMs(by, 'the time to advance by', { max: MAX_DELAY_MS });
      while ((await drive.settle()) && (await drive.moveOn(untilMs - drive.movedMs)));
      await drive.move(untilMs - drive.movedMs);
      await drive.settle();
    });
  }

  /**
   * Cancels the run, as `hf.cancel()` does. With `undo` it undoes first what it did, when it goes on.
   * @example await testWorkflow(checkout, (flow) => flow.sleep('cool off', '2d'), order).cancel({ undo: true });
   */
  cancel(
    options: {
      /** Undoes what the run did. Default false. */
      readonly undo?: boolean;
      /** Why it is cancelled. Default: by an operator. */
      readonly reason?: string;
    } = {},
  ): Promise<void> {
    return this.#next(async ({ drive }) => void (await drive.deps.hf.cancel([drive.id], options)));
  }

  /**
   * What the run has done and waits for until now, with values.
   * @example const waits = (await run.steps()).filter(({ state }) => state === 'waiting');
   */
  steps(): Promise<TestStep[]> {
    return this.#next(({ drive }) => stepsOf(drive));
  }

  /** Drives the run to its end. */
  // biome-ignore lint/suspicious/noThenProperty: awaiting it is how a test says that it goes on to its end
  then<Value = TestRunResult<Result>, Other = never>(
    resolved?: ((value: TestRunResult<Result>) => Value | PromiseLike<Value>) | null,
    rejected?: ((reason: unknown) => Other | PromiseLike<Other>) | null,
  ): Promise<Value | Other> {
    this.#end ??= this.#next(async ({ drive, before }) => {
      while (await drive.settle()) if (!(await drive.moveOn())) throw await drive.stuck();
      return (await resultOf(drive, before)) as TestRunResult<Result>;
    });
    return this.#end.then(resolved, rejected);
  }
}

interface Begun {
  readonly drive: Drive;
  /** By queue, the last position before it. */
  readonly before: ReadonlyMap<string, number>;
}

async function endedBefore(drive: Drive, name: string | undefined): Promise<HoldfastError> {
  drive.faking.checkNames();
  const { outcome, error } = await outcomeOf(drive);
  const where = name === undefined ? 'it waited for anything' : `it waited in "${name}"`;
  const why = error === null ? '' : `: ${error.split('\n', 1)[0]}`;
  return new Failure('JOB_STATE', `The run ended as "${outcome}" before ${where}${why}.`);
}

async function stepsOf({ deps, id, trial, faking }: Drive): Promise<TestStep[]> {
  const { steps } = await deps.hf.steps(id, { queue: trial.names.queue, values: true });
  return steps.map((step) => {
    const hasFunction = step.kind === 'step' || step.kind === 'transaction';
    return { ...step, faked: hasFunction && faking.faked.has(step.name) };
  });
}

async function resultOf(drive: Drive, before: Begun['before']): Promise<TestRunResult> {
  const { deps, id, trial, faking, movedMs, turns } = drive;
  faking.checkNames();
  const steps = await stepsOf(drive);
  const { queue } = trial.names;
  return {
    ...{ id, ...(await outcomeOf(drive)), steps: steps.filter(({ kind }) => kind !== 'undoing') },
    ...{ undone: undoneIn(await deps.hf.history(id, { queue })), movedMs, turns },
    unusedFakes: faking.unused,
    enqueued: await writtenSince(deps.ownPool, deps.schema, before, { id, queue }),
  };
}

/**
 * Runs a workflow to its end and returns how it ended. Time moves forward over its waits, so two days take milliseconds.
 * @example
 * const { outcome, result } = await testWorkflow(checkout, async (flow) => flow.wait('approval', 'approved'), order, {
 *   steps: { charge: { id: 'ch_1' } },
 *   signals: [{ name: 'approved', value: { by: 'kim' }, after: '1d' }],
 * });
 */
export function testWorkflow<Input, Signal extends object, Result, Payload>(
  workflow: WorkflowDefinition<Input, Signal, Result, Payload>,
  bodies: TestBodies<Payload, Signal, NoInfer<Result>>,
  input: PayloadOf<Input>,
  options: TestWorkflowOptions<Signal> = {},
): TestRun<Signal, Result> {
  return new TestRun(async () => {
    checkKnown(options, SCRIPT, 'testWorkflow()', 'Nothing was run.');
    if (typeof workflow !== 'object' || workflow === null || !isWorkflow(workflow))
      throw invalid(
        'The first argument is not a workflow of workflow("name"); nothing was run. The arguments are (workflow, body, input, options); for a job use testJob().',
      );
    const { hf, ...script } = options;
    checkScript(script as WorkflowScript);
    const deps = await target(hf);
    const drive = new Drive(deps, workflow as never, bodies, script as never);
    const before = await lastPositions(deps.ownPool, deps.schema);
    await drive.begin(input);
    return { drive, before };
  });
}
