import './version.js';

export { advance, clearJobs } from './clock.js';
export { type DrainCounts, type DrainOptions, drain } from './drain.js';
export {
  allEnqueued,
  type DeepPartial,
  type EnqueuedMatch,
  type ExpectOptions,
  expectEnqueued,
  expectNotEnqueued,
} from './expect-enqueued.js';
export type { Fault } from './faults/fault.js';
export { type MadeJob, type MadeState, type MakeJobOptions, makeJob } from './make-job.js';
export { type PgliteHoldfast, type PgliteOptions, startPglite } from './pglite/pglite.js';
export type { PgliteLike } from './pglite/session.js';
export type { EnqueuedJob } from './rows.js';
export type { SurvivalReport } from './survival.js';
export { type SurvivalOptions, survivesFaults } from './survives-faults.js';
export { type Target, useHoldfast } from './target.js';
export { cloneDatabase, dropDatabase, makeTemplate, type TestDatabase } from './template.js';
export {
  type TestJobOptions,
  type TestJobResult,
  type TestOutcome,
  testJob,
} from './test-job.js';
export type { Fakes } from './workflow/fakes.js';
export { type Replay, replayHistory } from './workflow/replay.js';
export type {
  ScriptedSignal,
  TestBodies,
  TestWorkflowOptions,
  WorkflowScript,
} from './workflow/script.js';
export type { EffectCounts, WorkflowSurvivalOptions } from './workflow/survival-options.js';
export {
  TestRun,
  type TestRunResult,
  type TestStep,
  testWorkflow,
} from './workflow/test-workflow.js';
