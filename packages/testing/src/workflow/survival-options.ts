/** Options of `survivesFaults()` for workflows. */
import type { Signals } from 'holdfast';
import type { Known } from 'holdfast/internal';
import type { Target } from '../target.js';
import { SCRIPT, type WorkflowScript } from './script.js';

/** How often effects happened: a number, or several by name. */
export type EffectCounts = number | Readonly<Record<string, number>>;

/** Options of `survivesFaults()` for a workflow: what happens around the run, as for `testWorkflow()`. */
export interface WorkflowSurvivalOptions<Signal extends object = Signals>
  extends Target,
    WorkflowScript<Signal> {
  /** How often the effect has happened so far, or an object of such numbers by name: count rows, or the calls of fakes. */
  readonly effect: () => EffectCounts | Promise<EffectCounts>;
}

export const OF_WORKFLOW = {
  ...SCRIPT,
  effect: true,
} as const satisfies Known<WorkflowSurvivalOptions>;
