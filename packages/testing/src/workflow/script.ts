/** The script of a run: what happens around it, and which of its functions are faked. */
import type { Duration, Signals, WorkflowBody } from 'holdfast';
import { checkInteger, type Known } from 'holdfast/internal';
import { invalid } from '../deps.js';
import type { Target } from '../target.js';
import type { TrialOptions } from '../trial.js';
import type { Fakes } from './fakes.js';

/** A signal that is sent by itself when so much time has passed. */
export type ScriptedSignal<Signal extends object = Signals> = {
  readonly [Name in keyof Signal & string]: {
    /** The name of the signal. */
    readonly name: Name;
    /** When it is sent, in virtual time since the start, such as `'1d'`. Default: before the first turn. */
    readonly after?: Duration;
    /** As for `hf.signal()`: a second signal with this key is dropped. */
    readonly key?: string;
  } & Carried<Signal[Name]>;
}[keyof Signal & string];

/** A value may be left out only if it may be undefined. */
type Carried<Value> = undefined extends Value
  ? {
      /** What it carries. Default: nothing. */
      readonly value?: Value;
    }
  : {
      /** What it carries. */
      readonly value: Value;
    };

/** What happens around a run, and which of its functions are faked. */
export interface WorkflowScript<Signal extends object = Signals>
  extends Fakes,
    Pick<TrialOptions, 'partitionKey' | 'headers'> {
  /** Signals that are sent by themselves. Default: none. */
  readonly signals?: readonly ScriptedSignal<Signal>[];
  /** The version that the run begins with. Default: the newest. */
  readonly version?: number;
  /** After so many turns and children it gives up: something does not end. Default 1,000. */
  readonly limit?: number;
}

/** The run that `testWorkflow()` drives. */
export interface TestWorkflowOptions<Signal extends object = Signals>
  extends Target,
    WorkflowScript<Signal> {}

export const SCRIPT = {
  ...{ hf: true, steps: true, undo: true, children: true, worker: true, signals: true },
  ...{ version: true, limit: true, partitionKey: true, headers: true },
} as const satisfies Known<TestWorkflowOptions>;

/** The body of a workflow, or a body for each version. */
export type TestBodies<Input, Signal extends object, Result> =
  | WorkflowBody<Input, Signal, Result>
  // biome-ignore lint/suspicious/noExplicitAny: an older version began with another input
  | Readonly<Record<number, WorkflowBody<any, Signal, Result>>>;

/** Of the script of a run, whoever drives it. */
export function checkScript(options: WorkflowScript): void {
  const { limit, signals } = options;
  if (limit !== undefined) checkInteger(limit, 'limit', 1, 1_000_000);
  if (signals !== undefined && !Array.isArray(signals))
    throw invalid('signals must be a list such as [{ name, value, after }]; nothing was run.');
}
