/**
 * Tries a body on a run that production has recorded, without a database and without any effect: the body hears of everything
 * that is recorded, as in a turn, and the first thing that it asks for beyond that ends the trial.
 */
import {
  type Flow,
  HoldfastError,
  type Logger,
  type RunHistory,
  type WorkflowDefinition,
} from 'holdfast';
import {
  flowOf,
  isWorkflow,
  type Kind,
  type Marker,
  notAsked,
  Turn,
  type TurnEnd,
  type TurnPorts,
  workflowRoute,
} from 'holdfast/internal';
import { invalid } from '../deps.js';
import type { TestBodies } from './script.js';

/** What became of a body on a history. */
export interface Replay {
  /**
   * `ended`: the body ended. `waits`: it waits where the run waits. `went_on`: it asked for something that is not recorded, see
   * `next`. `changed`: production would stop the run with WORKFLOW_CHANGED. `threw`: the body threw where the run did not end so.
   */
  readonly outcome: 'ended' | 'waits' | 'went_on' | 'changed' | 'threw';
  /** The run could go on with this body: neither `changed` nor `threw`. */
  readonly ok: boolean;
  /** The names that the body asked for next and that are not recorded. */
  readonly next: readonly string[];
  /** What the body still waits for, of what the run waits for: names. */
  readonly waits: readonly string[];
  /** What the body returned; undefined: it did not return. */
  readonly result: unknown;
  /** What the body threw, or WORKFLOW_CHANGED with both names; null: nothing. */
  readonly error: Error | null;
}

/** Longer waits in the process are those of steps, and no step runs here. */
const LONGEST_MS = 1_000;
const never = <Value>() => new Promise<Value>(() => {});
const QUIET: Logger = {
  ...{ debug: () => undefined, info: () => undefined },
  ...{ warn: () => undefined, error: () => undefined },
};

/**
 * Tries a body on the recorded history of a run, as `hf.history(id)` exports it. Calls none of its steps, and needs no database.
 * A body that is given as a function is tried whatever version the run has.
 * @example
 * const body = async (flow: import('holdfast').Flow) => flow.sleep('cool off', '1h');
 * const { ok, error } = await replayHistory(checkout, body, await hf.history(run.id));
 */
export async function replayHistory<Input, Signal extends object, Result, Payload>(
  workflow: WorkflowDefinition<Input, Signal, Result, Payload>,
  bodies: TestBodies<Payload, Signal, NoInfer<Result>>,
  history: RunHistory,
): Promise<Replay> {
  check(workflow as unknown as WorkflowDefinition<never>, history);
  const body = bodyOf(workflow, bodies, history.version);
  const input = await workflow.read(history.input, history.version);
  return new Trying(workflow as unknown as WorkflowDefinition<never>, history).run((flow) =>
    body(flow, input),
  );
}

class Trying {
  readonly #workflow: WorkflowDefinition<never>;
  readonly #history: RunHistory;
  readonly #turn: Turn;
  #beyond: () => void = () => {};
  /** What the body threw. */
  #thrown: unknown;

  constructor(workflow: WorkflowDefinition<never>, history: RunHistory) {
    this.#workflow = workflow;
    this.#history = history;
    const { id, workflow: type, version, headers, createdAt, steps } = history;
    this.#turn = new Turn(
      {
        ...{ id, type, version, headers, createdAt: new Date(createdAt) },
        ...{ attempt: 1, crashes: 0, maxAttempts: 2, isNew: steps.length === 0 },
        ...{ signal: new AbortController().signal, log: QUIET, maxBytes: Number.MAX_SAFE_INTEGER },
      },
      this.#ports(),
    );
  }

  /** Whatever writes anything goes beyond the history. */
  #ports(): TurnPorts {
    const { undoAsked, steps, children } = this.#history;
    const beyond = () => this.#stop<never>();
    return {
      load: async () => ({ undoAsked, markers: steps.map(markerOf) }),
      outcomes: async (step) =>
        children
          .filter((one) => one.step === step)
          .map(({ n, outcome, value }) => ({ n, outcome, value: JSON.stringify(value) })),
      progress: async () => undefined,
      ...{ record: beyond, suspend: beyond, transact: beyond, spawn: beyond, restart: beyond },
      pause: (ms) =>
        ms > LONGEST_MS ? never() : new Promise((resolve) => setTimeout(resolve, ms)),
      now: () => performance.now(),
      // Tests have a time limit of their own, and nothing is lost here by giving up too soon.
      patienceMs: LONGEST_MS,
    };
  }

  /** Once everything that was asked for at the same time is known. */
  #stop<Value>(): Promise<Value> {
    setImmediate(() => this.#beyond());
    return never();
  }

  /** Its functions are not called: to come to one is to go beyond the history. */
  #flow(): Flow {
    const flow = flowOf(this.#turn, this.#workflow as never) as Flow;
    const idle = (given: unknown) => (typeof given === 'function' ? () => this.#stop() : given);
    const quiet =
      (method: 'step' | 'transaction') => (name: string, does: unknown, given: object) => {
        const undo = (given as { undo?: unknown } | undefined)?.undo;
        const options = undo === undefined ? given : { ...given, undo: idle(undo) };
        return flow[method](name, idle(does) as never, options);
      };
    const own = { step: quiet('step'), transaction: quiet('transaction') };
    return Object.assign(Object.create(flow), own);
  }

  async run(body: (flow: never) => unknown): Promise<Replay> {
    const beyond = new Promise<null>((resolve) => {
      this.#beyond = () => resolve(null);
    });
    const called = async () => {
      try {
        return await body(this.#flow() as never);
      } catch (error) {
        this.#thrown = error;
        throw error;
      }
    };
    const end = await Promise.race([this.#turn.run(called), beyond]);
    this.#turn.stop({ kind: 'asleep', dueInMs: null });
    return end ? this.#ended(end) : this.#gone();
  }

  #gone(): Replay {
    const recorded = new Set(this.#history.steps.map(({ name }) => name));
    const open = [...this.#turn.asks.values()].filter(({ over }) => !over);
    const names = open.map(({ name }) => name);
    const next = names.filter((name) => !recorded.has(name));
    const outcome = next.length > 0 ? 'went_on' : 'waits';
    const waits = names.filter((name) => recorded.has(name));
    return { outcome, ok: true, next, waits, result: undefined, error: null };
  }

  #ended(end: TurnEnd): Replay {
    const none = { next: [], waits: [], result: undefined, error: null };
    const error = errorOf(end) ?? this.#forgotten();
    if (error === null) {
      const result = end.kind === 'returned' ? { result: end.value } : {};
      return { outcome: 'ended', ok: true, ...none, ...result };
    }
    if (error instanceof HoldfastError && error.code === 'WORKFLOW_CHANGED') {
      // A body that threw did not come to the rest, and its error says more.
      if (this.#thrown === undefined) return { outcome: 'changed', ok: false, ...none, error };
      return { outcome: 'threw', ok: false, ...none, error: asError(this.#thrown) };
    }
    const same = end.kind === 'dead' && this.#history.status === 'dead_letter';
    return { outcome: same ? 'ended' : 'threw', ok: same, ...none, error };
  }

  /** A run that undoes what it did goes on although the code has changed; what it forgets is not undone. */
  #forgotten(): Error | null {
    const forgotten = this.#history.steps.find(
      ({ name, kind }) => /^[a-z]$/i.test(kind) && kind !== 'u' && !this.#turn.asks.has(name),
    );
    return forgotten ? notAsked(forgotten.name, forgotten.kind as Kind, null) : null;
  }
}

function errorOf(end: TurnEnd): Error | null {
  if (end.kind === 'dead') return end.error;
  if (end.kind !== 'threw') return null;
  return asError(end.error);
}

const asError = (error: unknown) => (error instanceof Error ? error : new Error(String(error)));

const json = (value: unknown) => (value === null ? null : JSON.stringify(value));

function markerOf({ kind, value, error, ...rest }: RunHistory['steps'][number]): Marker {
  return { ...rest, kind: kind as Kind, value: json(value), error: json(error), dueInMs: null };
}

function check(workflow: WorkflowDefinition<never>, history: RunHistory): void {
  if (typeof workflow !== 'object' || workflow === null || !isWorkflow(workflow))
    throw invalid(
      'The first argument is not a workflow of workflow("name"); nothing was replayed. The arguments are (workflow, body, history).',
    );
  if (history?.format !== 1 || !Array.isArray(history.steps))
    throw invalid(
      'The third argument is no history of hf.history(id); nothing was replayed. If it comes from a file, parse it first.',
    );
  if (history.workflow !== workflow.type)
    throw invalid(
      `The history is that of a run of "${history.workflow}", not of "${workflow.type}"; nothing was replayed.`,
    );
}

type AnyBody = (flow: never, input: unknown) => unknown;

function bodyOf(workflow: { readonly type: string }, bodies: unknown, version: number): AnyBody {
  if (typeof bodies === 'function') return bodies as AnyBody;
  const { bodies: byVersion } = workflowRoute(workflow, bodies);
  const body = byVersion.get(version);
  if (body) return body as AnyBody;
  throw new HoldfastError(
    'VERSION_UNSUPPORTED',
    `The run has version ${version}, and there are bodies for ${[...byVersion.keys()].join(', ')} only; nothing was replayed.`,
  );
}
