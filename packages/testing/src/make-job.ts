/**
 * Jobs in every state, for tests of what an application does with them. They are made by the verbs of the
 * engine, so each has the history, the generation and the side rows that it would have in production.
 */
import type { Job, JobDefinition, PayloadOf } from 'holdfast';
import { Cancel, DeadLetter, type Duration } from 'holdfast';
import { checkKnown, durationMs, type Known } from 'holdfast/internal';
import { invalid } from './deps.js';
import { type Target, target } from './target.js';
import { TRIAL_OPTIONS, Trial, type TrialOptions } from './trial.js';

/**
 * - `pending`: due; `delayed`: due later; `leased`: a worker that lives holds it;
 * - `retrying`: an attempt failed, and the next one waits for its time;
 * - `dead_letter`: given up; `completed`, `cancelled`: in the archive;
 * - `suspect`: two workers vanished while they ran it, so it runs apart from others.
 */
export type MadeState =
  | 'pending'
  | 'delayed'
  | 'leased'
  | 'retrying'
  | 'dead_letter'
  | 'completed'
  | 'cancelled'
  | 'suspect';

/** How `makeJob()` makes the job. */
export interface MakeJobOptions extends Target, TrialOptions {
  /** Of a delayed job. Default 1 h. */
  readonly delay?: Duration;
  /** Why it failed, was given up or cancelled. Default `made by makeJob`. */
  readonly reason?: string;
}

const OPTIONS = {
  ...TRIAL_OPTIONS,
  ...{ delay: true, reason: true },
} as const satisfies Known<MakeJobOptions>;

/** The job as `hf.job` returns it. */
export type MadeJob = Job;

const STATES: readonly MadeState[] = [
  ...(['pending', 'delayed', 'leased', 'retrying'] as const),
  ...(['dead_letter', 'completed', 'cancelled', 'suspect'] as const),
];

const OUTCOMES: Partial<Record<MadeState, (reason: string) => void>> = {
  completed: () => undefined,
  retrying(reason) {
    throw new Error(reason);
  },
  dead_letter(reason) {
    throw new DeadLetter(reason);
  },
  cancelled(reason) {
    throw new Cancel(reason);
  },
};

/**
 * Makes a job in the state you name.
 * @example const dead = await makeJob('dead_letter', sendReceipt, { orderId: 9182 }, { reason: 'no mailbox' });
 */
export async function makeJob<Input, Output>(
  state: MadeState,
  job: JobDefinition<Input, Output>,
  payload: PayloadOf<Input>,
  options: MakeJobOptions = {},
): Promise<MadeJob> {
  if (!STATES.includes(state))
    throw invalid(
      `There is no state ${typeof state === 'string' ? JSON.stringify(state) : `that is of type ${typeof state}`}; no job was made. Use one of ${STATES.join(', ')}. The arguments are (state, job, payload, options).`,
    );
  checkKnown(options, OPTIONS, 'makeJob()', 'No job was made.');
  const { hf, delay = '1h', reason = 'made by makeJob', ...rest } = options;
  const deps = await target(hf);
  const trial = new Trial(deps, job, () => OUTCOMES[state]?.(reason));
  const most = rest.maxAttempts ?? job.maxAttempts;
  if (state === 'retrying' && (rest.attempt ?? 1) >= most)
    throw invalid(
      `A job that is retrying has an attempt left, and maxAttempts is ${most}; no job was made. ` +
        'Pass a higher maxAttempts, or make a dead_letter.',
    );
  const id = await make(trial, state, payload, rest, durationMs(delay, 'delay'));
  return (await deps.hf.job(id, { queue: trial.names.queue })) as MadeJob;
}

async function make(
  trial: Trial,
  state: MadeState,
  payload: unknown,
  options: TrialOptions,
  delayMs: number,
): Promise<string> {
  if (state === 'pending' || state === 'delayed') {
    const { attempt: _, ...enqueue } = options;
    const delay = state === 'delayed' ? { delay: delayMs } : {};
    const item = { ...enqueue, ...delay };
    return (await trial.deps.hf.enqueue(trial.job, payload as never, item)).id;
  }
  const worker = trial.worker();
  const held = await trial.begin(worker, payload, options);
  if (OUTCOMES[state]) await trial.run(worker, held);
  else await worker.register(trial.names);
  if (state === 'suspect') {
    const second = trial.worker();
    await trial.vanish(worker, second);
    const again = await second.claimJob(trial.names, held.id);
    if (again) await second.start(again);
    await second.register(trial.names);
    await trial.vanish(second, trial.worker());
  }
  return held.id;
}
