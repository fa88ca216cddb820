/**
 * Drives one run to its end: its turns, its children, the signals of the script, and time, which moves forward where nothing is
 * left to do now. The claims, the turns and the waits are those of a worker.
 */
import {
  type Duration,
  type Flow,
  HoldfastError,
  type RunStep,
  type Worker,
  type WorkflowDefinition,
} from 'holdfast';
import {
  durationMs,
  type LeasedJob,
  MAX_DELAY_MS,
  type WorkflowRoute,
  wakeRuns,
  workflowRoute,
} from 'holdfast/internal';
import { advance } from '../clock.js';
import { invalid, type TestDeps } from '../deps.js';
import { type AttemptEnd, TestWorker } from '../test-worker.js';
import { Trial, type TrialOptions } from '../trial.js';
import { type Fakes, Faking } from './fakes.js';
import { type OpenRun, openRuns } from './rows.js';

export type AnyDefinition = WorkflowDefinition<never>;

export interface DriveOptions extends Fakes, Pick<TrialOptions, 'partitionKey' | 'headers'> {
  readonly version?: number | undefined;
  readonly signals?: readonly Scripted[];
  readonly limit?: number;
  readonly worker?: Worker;
}

/** A signal of the script. */
export interface Scripted {
  readonly name: string;
  readonly value?: unknown;
  readonly after?: Duration;
  readonly key?: string;
}

type Row = OpenRun & { readonly queue: string };

/** How a turn is taken; null: it crashed. */
type Take = (by: TestWorker, held: LeasedJob) => Promise<AttemptEnd | null>;

const SECOND = 1_000;
/** Beyond a second, whole seconds: what takes real milliseconds is not counted. */
const rounded = (ms: number) => (ms < SECOND ? ms : Math.ceil(ms / SECOND) * SECOND);
const ZERO_OR_MORE = { max: MAX_DELAY_MS };

export class Drive {
  readonly deps: TestDeps;
  readonly trial: Trial;
  readonly faking: Faking;
  readonly #definition: AnyDefinition;
  readonly #options: DriveOptions;
  readonly #take: Take;
  readonly #script: { readonly afterMs: number; readonly signal: Scripted }[];
  /** The run, and children of it that are runs. */
  readonly #runs: string[] = [];
  /** The run and its children, as they were when all was settled. */
  #known: readonly Row[] = [];
  #held: LeasedJob | null = null;
  #by: TestWorker | null = null;
  #took = 0;
  turns = 0;
  movedMs = 0;

  constructor(
    deps: TestDeps,
    definition: AnyDefinition,
    bodies: unknown,
    options: DriveOptions,
    take?: (trial: Trial) => Take,
  ) {
    this.deps = deps;
    this.#definition = definition;
    this.#options = options;
    this.faking = new Faking(options);
    this.#script = (options.signals ?? [])
      .map((signal) => {
        const { name, after = 0 } = signal;
        return {
          signal,
          afterMs: durationMs(after, `after of the signal "${name}"`, ZERO_OR_MORE),
        };
      })
      .sort((a, b) => a.afterMs - b.afterMs);
    this.trial = trialOf(deps, definition, bodies, this.faking);
    this.#take = take?.(this.trial) ?? ((by, held) => this.trial.run(by, held));
  }

  get id(): string {
    const [id] = this.#runs;
    if (id !== undefined) return id;
    throw new HoldfastError(
      'JOB_STATE',
      'The run has not begun, so it has no id. Wait for it first.',
    );
  }

  get hasBegun(): boolean {
    return this.#runs.length > 0;
  }

  /** Enqueues the run, and sends what the script sends before its first turn. */
  async begin(input: unknown): Promise<void> {
    const { partitionKey, headers, version } = this.#options;
    const options = {
      unique: false as const,
      ...(partitionKey !== undefined && { partitionKey }),
      ...(headers && { headers }),
    };
    this.#by = this.trial.worker();
    const as = version === undefined ? undefined : asVersion(this.#definition, version);
    this.#held = await this.trial.begin(this.#by, input, options, as);
    this.#runs.push(this.#held.id);
    await this.#sendDue();
  }

  /** True: signals were sent. */
  async #sendDue(): Promise<boolean> {
    const before = this.#script.length;
    for (let next = this.#script[0]; next && next.afterMs <= this.movedMs; next = this.#script[0]) {
      this.#script.shift();
      const { name, value, key } = next.signal;
      await this.send(name, value, key);
    }
    return this.#script.length < before;
  }

  send(name: string, value: unknown, key?: string): Promise<boolean> {
    const options = key === undefined ? {} : { key };
    return this.deps.hf.signal(this.#definition, this.id, name, value, options);
  }

  /** Does all that is to be done now. False: the run has ended. */
  async settle(): Promise<boolean> {
    for (;;) {
      if (this.#held) {
        const [by, held] = [this.#by as TestWorker, this.#held];
        this.#held = null;
        await this.#turn(by, held);
        continue;
      }
      this.#known = await this.#open();
      if (!this.#known.some(({ id }) => id === this.id)) return false;
      if (await this.#sendDue()) continue;
      const due = this.#known.find(({ running, dueMs }) => !running && isDue(dueMs));
      if (!due) return true;
      await this.#run(due);
    }
  }

  /** After all is settled, to the next time at which something happens. False: there is none, or it is later than that. */
  async moveOn(withinMs = Number.POSITIVE_INFINITY): Promise<boolean> {
    const waits = this.#known.flatMap(({ dueMs }) => (dueMs === null ? [] : [dueMs]));
    const [next] = this.#script;
    const ms = Math.min(
      ...waits.map((wait) => rounded(Math.max(0, wait))),
      ...(next ? [next.afterMs - this.movedMs] : []),
    );
    if (ms === Number.POSITIVE_INFINITY || ms > withinMs) return false;
    await this.move(ms);
    return true;
  }

  async move(ms: number): Promise<void> {
    if (ms > 0) await advance(this.deps.hf, ms);
    this.movedMs += ms;
  }

  #queues(): string[] {
    const { worker } = this.#options;
    const others = [...(worker?.handlers.routes.values() ?? [])].map(({ job }) => job.queue);
    return [...new Set([this.trial.names.queue, ...this.faking.queues, ...others])];
  }

  async #open(): Promise<readonly Row[]> {
    const found = [];
    for (const queue of this.#queues()) {
      const names = this.deps.names(queue);
      await wakeRuns(this.deps.engine, names, 1_000);
      const rows = await openRuns(this.deps.ownPool, names, this.#runs);
      found.push(...rows.map((row) => ({ ...row, queue })));
    }
    return found;
  }

  async #run(row: Row): Promise<void> {
    const isOwn = row.id === this.id;
    const by = isOwn ? this.trial.worker() : new TestWorker(this.deps, this.#childRoutes(row));
    const held = await by.claimJob(this.deps.names(row.queue), row.id);
    if (held) return isOwn ? this.#turn(by, held) : this.#child(by, held);
    throw new HoldfastError(
      'JOB_STATE',
      `The ${isOwn ? 'run' : 'child'} ${row.id} of type "${row.type}" is due and could not be claimed, so the test stopped. ` +
        `Is the queue "${row.queue}" paused, or does a worker run on this database?`,
    );
  }

  async #turn(by: TestWorker, held: LeasedJob): Promise<void> {
    this.#count();
    this.turns++;
    await this.#take(by, held);
  }

  async #child(by: TestWorker, held: LeasedJob): Promise<void> {
    this.#count();
    await by.run(held);
  }

  #count(): void {
    const { limit = 1_000 } = this.#options;
    if (++this.#took <= limit) return;
    throw new HoldfastError(
      'JOB_STATE',
      `The run of "${this.#definition.type}" has not ended after ${limit} turns and children, so the test stopped. ` +
        'If it restarts for ever, stop it at a wait with untilWaiting(); or allow more with { limit }.',
    );
  }

  #childRoutes({ id, type, parent }: OpenRun) {
    const { r = '', s = '', n = 0 } = parent ?? {};
    // Runs that are children have a body of the worker's, and may be in another turn of it.
    const route = this.faking.childRoute(type, s, n, r === this.id);
    if (!route)
      throw new HoldfastError(
        'HANDLER_MISSING',
        `The children "${s}" are jobs of the type "${type}", and nobody handles them, so the test stopped. ` +
          `Fake them with { children: { ${JSON.stringify(s)}: … } }, or pass { worker: hf.worker().handle(job, handler) }.`,
      );
    if (route.workflow && !this.#runs.includes(id)) this.#runs.push(id);
    return new Map([[type, route]]);
  }

  /** What the run waits for, in the order in which it asked. */
  async waits(): Promise<RunStep<Date>[]> {
    const { steps } = await this.deps.hf.steps(this.id, { queue: this.trial.names.queue });
    return steps.filter(({ state }) => state === 'waiting');
  }

  /** The run waits, and nothing that is known here will happen. */
  async stuck(): Promise<HoldfastError> {
    const waits = (await this.waits()).map(({ name, kind, signals, remaining }) => {
      if (signals)
        return `for the signal ${signals.map((one) => `"${one}"`).join(' or ')} in "${name}"`;
      return `in the ${kind} "${name}"${remaining === null ? '' : `, for ${remaining} children`}`;
    });
    return new HoldfastError(
      'JOB_STATE',
      `The run of "${this.#definition.type}" does not end: it waits ${waits.join(' and ') || 'for something of its own'}, and nobody sends it. ` +
        'Send signals with { signals: [{ name, value, after }] } or run.signal(); stop at the wait with run.untilWaiting(name).',
    );
  }
}

const isDue = (dueMs: number | null) => dueMs !== null && dueMs <= 0;

/** As producers of that version enqueue it: the schema of the newest one does not know its input. */
function asVersion(definition: AnyDefinition, version: number): AnyDefinition {
  if (!Number.isInteger(version) || version < 1 || version > definition.version)
    throw invalid(
      `version is ${String(version)} and must be a whole number from 1 to ${definition.version}; nothing was run.`,
    );
  const old: AnyDefinition = {
    ...definition,
    ...{ version, hasSchema: version === definition.version && definition.hasSchema },
    item: (input, options) => ({ ...definition.item(input, options), job: old }),
  };
  return old;
}

function trialOf(
  deps: TestDeps,
  definition: AnyDefinition,
  bodies: unknown,
  faking: Faking,
): Trial {
  const { bodies: byVersion } = workflowRoute(definition, bodies);
  const wrapped = [...byVersion].map(
    ([version, body]) =>
      [
        version,
        (flow: Flow, input: unknown) =>
          (body as (...given: unknown[]) => unknown)(faking.flow(flow), input),
      ] as const,
  );
  const workflow = { definition, bodies: new Map(wrapped) } as unknown as WorkflowRoute;
  return new Trial(deps, definition, {
    route: () => ({ handler: () => undefined, workflow }),
  });
}
