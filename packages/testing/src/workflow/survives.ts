/**
 * Runs a workflow through everything that can go wrong around it. Undisturbed, it shows its statements, how often its effects
 * happen, how it ends and what it undoes. Then, each time with a run of its own, every fault strikes at every statement of every
 * turn; the run recovers and goes on to its end. All of that must come out as undisturbed.
 */
import { HoldfastError, type JobDefinition } from 'holdfast';
import { checkKnown } from 'holdfast/internal';
import { invalid, type TestDeps } from '../deps.js';
import { COMMITS, Recorder } from '../faults/fault.js';
import type { Step } from '../faults/steps.js';
import { checkEffect, type SurvivalReport } from '../survival.js';
import { target } from '../target.js';
import { type AnyDefinition, Drive, type DriveOptions } from './drive.js';
import { outcomeOf, undoneIn } from './outcome.js';
import { type Came, isSame, type RunFinding, runReport } from './report.js';
import { checkScript } from './script.js';
import { type RunFault, Strike } from './strike.js';
import { OF_WORKFLOW, type WorkflowSurvivalOptions } from './survival-options.js';

/** Runs with more statements are struck at the first ones, and where something is recorded. */
const MAX_STEPS = 30;
const RECORDS: readonly Step['kind'][] = ['record', 'sleep', ...COMMITS];

interface Scenario {
  readonly fault: RunFault;
  readonly index: number;
  readonly step: Step;
}

interface Surveyed {
  readonly deps: TestDeps;
  readonly definition: AnyDefinition;
  readonly bodies: unknown;
  readonly input: (run: number) => unknown;
  readonly options: DriveOptions;
  readonly effect: WorkflowSurvivalOptions['effect'];
}

class WorkflowSurvey {
  readonly #of: Surveyed;
  #runs = 0;

  constructor(of: Surveyed) {
    this.#of = of;
  }

  async #counts(): Promise<Map<string, number>> {
    const counts: unknown = await this.#of.effect();
    const byName = typeof counts === 'object' && counts !== null ? counts : { '': counts };
    const found = new Map<string, number>();
    for (const [name, count] of Object.entries(byName)) {
      if (typeof count !== 'number' || !Number.isFinite(count))
        throw invalid(
          `effect returned ${JSON.stringify(counts)} and must return a number, or an object of numbers by name: how often each effect has happened so far. ` +
            'Postgres returns counts as text: SELECT count(*)::int.',
        );
      found.set(name, count);
    }
    return found;
  }

  /** How often each effect happened since. */
  async #since(before: ReadonlyMap<string, number>): Promise<Map<string, number>> {
    const now = await this.#counts();
    return new Map([...now].map(([name, count]) => [name, count - (before.get(name) ?? 0)]));
  }

  /** A run of its own, to its end. */
  async #run(
    take?: ConstructorParameters<typeof Drive>[4],
    before?: ReadonlyMap<string, number>,
  ): Promise<Came> {
    const { deps, definition, bodies, options, input } = this.#of;
    const from = before ?? (await this.#counts());
    const drive = new Drive(deps, definition, bodies, options, take);
    await drive.begin(input(++this.#runs));
    while (await drive.settle()) if (!(await drive.moveOn())) throw await drive.stuck();
    drive.faking.checkNames();
    const history = await deps.hf.history(drive.id, { queue: drive.trial.names.queue });
    const { status: outcome } = history;
    const error = outcome === 'completed' ? null : (await outcomeOf(drive)).error;
    const { calls } = drive.faking;
    const undone = undoneIn(history);
    return { outcome, error, undone, calls, effects: await this.#since(from) };
  }

  async survey(): Promise<SurvivalReport> {
    const { type } = this.#of.definition;
    const recorder = new Recorder();
    const usual = await this.#run((trial) => (by, held) => trial.run(by, held, recorder));
    if ([...usual.effects.values()].every((count) => count === 0))
      throw invalid(
        `The workflow "${type}" ran to its end (${usual.outcome}${usual.error === null ? '' : `: ${usual.error.split('\n', 1)[0]}`}), and effect() returned the same as before, so there is nothing to watch over. ` +
          'Let effect count what the steps do: rows that they write, or the calls of a fake that they are given.',
      );
    const again = await this.#run();
    if (!isSame(usual, again))
      throw new HoldfastError(
        'JOB_STATE',
        `Undisturbed, two runs of "${type}" came to different ends: ${said(usual)} and ${said(again)}. Faults cannot be told apart from that. ` +
          'If an effect happens once for an input, pass the input as a function that gives every run its own: (run) => ({ id: run }).',
      );
    return this.#faults(usual, recorder.steps);
  }

  async #faults(usual: Came, steps: readonly Step[]): Promise<SurvivalReport> {
    const [tried, missed]: [string[], string[]] = [[], []];
    const found: RunFinding[] = [];
    for (const scenario of scenariosOf(steps)) {
      const title = titleOf(scenario);
      const story: string[] = [];
      const before = await this.#counts();
      let known = '';
      const tell = async (sentence: string) => {
        const news = newsOf(await this.#since(before));
        story.push(news === known ? sentence : `${sentence}${news}`);
        known = news;
      };
      const strike = new Strike(scenario.fault, scenario.index, tell);
      const came = await this.#run((trial) => (by, held) => strike.take(trial, by, held), before);
      (strike.struck ? tried : missed).push(title);
      if (!isSame(usual, came)) found.push({ title, story, came });
    }
    if (found.length > 0)
      throw runReport(this.#of.definition.type, usual, found, tried.length + missed.length);
    return { tried, missed, onceGap: null };
  }
}

const said = ({ outcome, effects, undone }: Came) =>
  `${outcome}, effects ${JSON.stringify([...effects.values()])}, undone ${JSON.stringify(undone)}`;

function newsOf(effects: ReadonlyMap<string, number>): string {
  const happened = [...effects].filter(([, times]) => times !== 0);
  if (happened.length === 0) return '';
  const words = happened.map(([name, times]) =>
    name === '' ? `the effect has happened ${times} ×` : `${JSON.stringify(name)} ${times} ×`,
  );
  return ` [${words.join(', ')} by now]`;
}

function scenariosOf(steps: readonly Step[]): Scenario[] {
  const all = steps
    .map((step, index) => ({ step, index }))
    .filter(({ step, index }) => index < MAX_STEPS || RECORDS.includes(step.kind));
  const of = (fault: RunFault, kinds: (kind: Step['kind']) => boolean) =>
    all.filter(({ step }) => kinds(step.kind)).map((at) => ({ fault, ...at }));
  return [
    ...of('crash', () => true),
    ...of('crash_after', () => true),
    // Inside of a transaction nobody can take the run over.
    ...of('lease_lost', (kind) => kind !== 'commit'),
    ...of('commit_unanswered', (kind) => COMMITS.includes(kind) || kind === 'record'),
    ...of('commit_lost', (kind) => COMMITS.includes(kind)),
  ];
}

function titleOf({ fault, step }: Scenario): string {
  switch (fault) {
    case 'crash':
      return `the worker crashes ${step.moment}`;
    case 'crash_after':
      return `the worker crashes right after ${step.name}`;
    case 'lease_lost':
      return `the lease is lost ${step.moment}, and another worker takes the run`;
    case 'commit_unanswered':
      return `the connection breaks after ${step.name}, before the answer`;
    case 'commit_lost':
      return `the connection breaks at ${step.name}, which is not carried out`;
  }
}

/** Checks what `survivesFaults()` was given for a workflow, and tries it. */
export async function surveyWorkflow(
  definition: JobDefinition<never, unknown>,
  bodies: unknown,
  input: (run: number) => unknown,
  options: WorkflowSurvivalOptions,
): Promise<SurvivalReport> {
  checkKnown(options, OF_WORKFLOW, 'survivesFaults()', 'Nothing was run.');
  const { hf, effect, ...script } = options ?? {};
  checkEffect(effect);
  checkScript(script);
  const of = { deps: await target(hf), definition: definition as never, bodies, input, effect };
  return new WorkflowSurvey({ ...of, options: script }).survey();
}
