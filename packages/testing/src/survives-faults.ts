/**
 * Runs a handler through everything that can go wrong around it, and counts its effect: a handler whose effect
 * happens twice, or not at all, is found, with the steps that led there.
 *
 * Undisturbed, the handler shows at which steps it talks to the database. Then, each time with a job of its own, every
 * fault strikes at every step where it can, and workers finish the job. The effect must happen as often as undisturbed.
 */
import {
  HoldfastError,
  type JobDefinition,
  type PayloadOf,
  type WorkflowDefinition,
} from 'holdfast';
import { checkKnown, isWorkflow, type Known } from 'holdfast/internal';
import { invalid } from './deps.js';
import { COMMITS, type Fault, Recorder, type Where } from './faults/fault.js';
import { type Finding, failedReport } from './faults/report.js';
import type { Step } from './faults/steps.js';
import { strike } from './faults/strike.js';
import { checkEffect, type SurvivalReport } from './survival.js';
import { type Target, target } from './target.js';
import { outcomeOf } from './test-worker.js';
import { type TestHandler, TRIAL_OPTIONS, Trial, type TrialOptions } from './trial.js';
import type { TestBodies } from './workflow/script.js';
import type { WorkflowSurvivalOptions } from './workflow/survival-options.js';
import { surveyWorkflow } from './workflow/survives.js';

/** Options of `survivesFaults()`. */
export interface SurvivalOptions extends Target, Omit<TrialOptions, 'attempt'> {
  /** How often the effect has happened so far: count rows, or the calls of a fake. */
  readonly effect: () => number | Promise<number>;
  /**
   * A crash between an effect of `ctx.once` and its marker repeats the effect, unless the other system knows an
   * idempotency key. Default `'allow'`: that is reported and passes. `'fail'`: it fails.
   */
  readonly onceGap?: 'allow' | 'fail';
}

const { attempt: _, ...OF_A_TRIAL } = TRIAL_OPTIONS;
const OPTIONS = {
  ...OF_A_TRIAL,
  ...{ effect: true, onceGap: true },
} as const satisfies Known<SurvivalOptions>;

interface Scenario {
  readonly fault: Fault;
  readonly index: number;
  readonly step: Step;
}

/** Handlers with more steps are struck at the first ones, and where something becomes durable. */
const MAX_STEPS = 20;
const DURABLE: readonly Step['kind'][] = ['once', 'marker', ...COMMITS];
const MAX_ATTEMPTS = 20;

/**
 * Runs a workflow through crashes and lost answers at every statement of every turn. Throws if an effect happens twice or not at
 * all, if an undo is lost, or if the run ends in another way; the error names the step and the statement.
 * @example
 * let charges = 0;
 * const effect = () => charges;
 * await survivesFaults(checkout, (flow) => flow.step('charge', () => void charges++), order, { effect });
 */
export async function survivesFaults<Input, Signal extends object, Payload, Result>(
  workflow: WorkflowDefinition<Input, Signal, Result, Payload>,
  bodies: TestBodies<Payload, Signal, NoInfer<Result>>,
  input: PayloadOf<Input> | ((run: number) => PayloadOf<Input>),
  options: WorkflowSurvivalOptions<Signal>,
): Promise<SurvivalReport>;
/**
 * Runs a handler through crashes and lost answers at every step, and throws if its effect happens twice or not at all.
 * @example
 * let sent = 0;
 * const handler = async () => void sent++;
 * await survivesFaults(sendReceipt, handler, { orderId: 9182 }, { effect: () => sent });
 */
export async function survivesFaults<Input, Payload, Result>(
  job: JobDefinition<Input, Payload, Result>,
  handler: TestHandler<Payload, NoInfer<Result>>,
  payload: PayloadOf<Input> | ((run: number) => PayloadOf<Input>),
  options: SurvivalOptions,
): Promise<SurvivalReport>;
export async function survivesFaults(
  job: JobDefinition<never, unknown>,
  handler: unknown,
  payload: unknown,
  options: SurvivalOptions | WorkflowSurvivalOptions,
): Promise<SurvivalReport> {
  const nextPayload =
    typeof payload === 'function' ? (payload as (run: number) => unknown) : () => payload;
  if (typeof job === 'object' && job !== null && isWorkflow(job))
    return surveyWorkflow(job, handler, nextPayload, options as WorkflowSurvivalOptions);
  const given = options as SurvivalOptions;
  checkKnown(given, OPTIONS, 'survivesFaults()', 'Nothing was run.');
  const { hf, effect, onceGap = 'allow', ...rest } = given ?? {};
  const trial = new Trial(await target(hf), job, handler as TestHandler<never>);
  checkEffect(effect);
  if (onceGap !== 'allow' && onceGap !== 'fail')
    throw invalid(
      `onceGap is ${JSON.stringify(onceGap)} and must be "allow" or "fail"; nothing was run.`,
    );
  const survey = new Survey(trial, nextPayload, effect, { ...rest, unique: false });
  await survey.undisturbed();
  return survey.faults(onceGap === 'fail');
}

class Survey {
  readonly #trial: Trial;
  readonly #payload: (run: number) => unknown;
  readonly #effect: () => number | Promise<number>;
  readonly #options: Parameters<Trial['begin']>[2];
  #runs = 0;
  /** How often the effect happens in one job. */
  #usual = 0;
  #steps: readonly Step[] = [];

  constructor(
    trial: Trial,
    payload: (run: number) => unknown,
    effect: () => number | Promise<number>,
    options: Parameters<Trial['begin']>[2],
  ) {
    this.#trial = trial;
    this.#payload = payload;
    this.#effect = effect;
    this.#options = options;
  }

  async #count(): Promise<number> {
    const count: unknown = await this.#effect();
    if (typeof count === 'number' && Number.isFinite(count)) return count;
    throw invalid(
      `effect returned ${JSON.stringify(count)} and must return a number: how often the effect has happened so far. ` +
        'Postgres returns counts as text: SELECT count(*)::int.',
    );
  }

  /** A job of its own for each run. */
  async #begin() {
    const worker = this.#trial.worker();
    const payload = this.#payload(++this.#runs);
    return { worker, held: await this.#trial.begin(worker, payload, this.#options) };
  }

  async undisturbed(): Promise<void> {
    const { type } = this.#trial.job;
    const [first, steps] = await this.#plainRun();
    if (first === 0)
      throw invalid(
        `The handler of "${type}" ran to its end, and effect() returned the same as before, so there is nothing to watch over. ` +
          'Let effect count what the handler does: rows that it writes, or the calls of a fake that it is given.',
      );
    this.#usual = first;
    this.#steps = steps;
    const [second] = await this.#plainRun();
    if (second === first) return;
    throw invalid(
      `Undisturbed, the effect of "${type}" happened ${first} × in the first job and ${second} × in a second one with the same payload, so faults cannot be told apart from that. ` +
        'If it happens once for a payload, pass the payload as a function that gives every job its own: (run) => ({ orderId: run }).',
    );
  }

  /** How often the effect happened, and the steps. */
  async #plainRun(): Promise<[number, Step[]]> {
    const before = await this.#count();
    const { worker, held } = await this.#begin();
    const recorder = new Recorder();
    const end = await this.#trial.run(worker, held, recorder);
    const row = await this.#trial.deps.hf.job(held.id, { queue: this.#trial.names.queue });
    const outcome = outcomeOf(end, row);
    if (outcome === 'completed') return [(await this.#count()) - before, recorder.steps];
    throw new HoldfastError(
      'JOB_STATE',
      `Undisturbed, the handler of "${this.#trial.job.type}" should complete its job, but the attempt ended as "${outcome}": ${row?.lastError?.split('\n', 1)[0] ?? 'no error'}. ` +
        'Fix that first; faults come after.',
      { cause: this.#trial.thrown },
    );
  }

  #scenarios(): Scenario[] {
    const all = this.#steps
      .map((step, index) => ({ step, index }))
      .filter(({ step, index }) => index < MAX_STEPS || DURABLE.includes(step.kind));
    const of = (fault: Fault, kinds: (kind: Step['kind']) => boolean) =>
      all.filter(({ step }) => kinds(step.kind)).map((at) => ({ fault, ...at }));
    return [
      ...of('crash', () => true),
      // Inside of a transaction that has the completion in it, nobody can take the job over.
      ...of('lease_lost', (kind) => kind !== 'commit'),
      ...of('delivered_twice', () => true).slice(0, 1),
      ...of(
        'commit_unanswered',
        (kind) => COMMITS.includes(kind) || kind === 'query' || kind === 'marker',
      ),
      ...of('commit_lost', (kind) => COMMITS.includes(kind)),
      ...of('marker_lost', (kind) => kind === 'marker'),
    ];
  }

  async faults(strict: boolean): Promise<SurvivalReport> {
    const tried: string[] = [];
    const missed: string[] = [];
    const found: Finding[] = [];
    let open = false;
    for (const scenario of this.#scenarios()) {
      const { finding, struck } = await this.#try(scenario);
      (struck ? tried : missed).push(titleOf(scenario));
      if (!finding) continue;
      // One repetition is the gap; a job that never ends is not.
      const completed = finding.status === 'completed';
      const inGap = isGap(scenario) && completed && finding.times > this.#usual;
      open ||= inGap;
      if (strict || !inGap) found.push(finding);
    }
    if (found.length > 0) throw failedReport(this.#trial.job.type, found, tried.length);
    const usesOnce = this.#steps.some(({ kind }) => kind === 'marker');
    return { tried, missed, onceGap: usesOnce ? (open ? 'open' : 'closed') : null };
  }

  async #try(scenario: Scenario): Promise<{ finding: Finding | null; struck: boolean }> {
    const story: string[] = [];
    const before = await this.#count();
    let seen = 0;
    const tell = async (sentence: string) => {
      const times = (await this.#count()) - before;
      const news = times === seen ? '' : ` [the effect has happened ${times} × by now]`;
      seen = times;
      story.push(`${sentence}${news}`);
    };
    const trial = this.#trial;
    const { worker: first, held } = await this.#begin();
    const at: Where = (_, index) => index === scenario.index;
    const { step } = await strike(scenario.fault, { trial, first, held, tell }, at);
    const struck = step !== null;
    const status = await this.#finish(held.id, tell);
    const times = (await this.#count()) - before;
    if (times === this.#usual && status === 'completed') return { finding: null, struck };
    const title = titleOf(scenario);
    const finding = { title, story, times, usual: this.#usual, status, inGap: isGap(scenario) };
    return { finding, struck };
  }

  /** Workers go on until the job has ended. */
  async #finish(id: string, tell: (sentence: string) => Promise<void>): Promise<string> {
    const trial = this.#trial;
    for (let attempt = 2; attempt < MAX_ATTEMPTS; attempt++) {
      const worker = trial.worker();
      const held = await trial.aside(() => worker.claimJob(trial.names, id));
      if (!held) break;
      const { result } = await trial.run(worker, held);
      const why = result === 'failed' ? `: ${String((trial.thrown as Error)?.message)}` : '';
      await tell(`Worker ${attempt} claimed the job and ran the handler: ${result}${why}.`);
    }
    const row = await trial.deps.hf.job(id, { queue: trial.names.queue });
    return row?.status ?? 'completed';
  }
}

/** Between an effect of `ctx.once` and its marker. */
const isGap = ({ fault, step }: Scenario) =>
  step.kind === 'marker' && fault !== 'commit_unanswered';

function titleOf({ fault, step }: Scenario): string {
  switch (fault) {
    case 'crash':
      return `the worker crashes ${step.moment}`;
    case 'lease_lost':
      return `the lease is lost ${step.moment}, and another worker runs the job`;
    case 'delivered_twice':
      return 'the job is delivered to two workers at once';
    case 'commit_unanswered':
      return `the connection breaks after ${step.name}, before the answer`;
    case 'commit_lost':
      return `the connection breaks at ${step.name}, which is not carried out`;
    case 'marker_lost':
      return `${step.name} is not written`;
  }
}
