export type { ReplayChoice, WhichFinished } from './api/act/archive.js';
export type {
  BulkChoice,
  BulkResult,
  DeadLettersRequest,
  WhichLetters,
} from './api/act/dead-letters.js';
export type { LimitOf, LimitView } from './api/act/limits.js';
export type { PauseOptions } from './api/act/pause.js';
export type { CreateQueueOptions, QueueOptions } from './api/act/queue-settings.js';
export type { ReplayStep } from './api/act/replay.js';
export type {
  Schedule,
  ScheduleAct,
  ScheduleCall,
  ScheduleSet,
  SchedulesPage,
  SchedulesRequest,
} from './api/act/schedules.js';
export type { JobChanges, UpdateChoice } from './api/act/update.js';
export type { SignalArguments, SignalOptions, StepsOptions } from './api/act/workflows.js';
export type { AuditEntry, AuditPage, AuditRequest } from './api/look/audit.js';
export type { DeadLetterFilter, JobsFilter } from './api/look/filter.js';
export type { JobsPage, JobsRequest } from './api/look/look.js';
export type { Run, RunWait } from './api/look/run-views.js';
export type { RunsPage, RunsRequest, WaitingRuns } from './api/look/runs.js';
export type {
  DeadLetterGroup,
  Explanation,
  HistoryEntry,
  Job,
  JobFacts,
  JobSummary,
  QueueInfo,
  ReadableQueue,
  UnreadableQueue,
  WorkerInfo,
} from './api/look/views.js';
export type { JobOutcome, Wait, WaitChoice } from './api/look/wait.js';
export type { EnqueueCall, HoldfastOptions } from './api/options.js';
export { guardTable, isStaleFence } from './effects/fence.js';
export type { OnceOptions } from './effects/value.js';
export type { Enqueued } from './enqueue/enqueue.js';
export { type Holdfast, holdfast } from './holdfast.js';
export type { Finding } from './inspect/doctor/doctor.js';
export type { RecordedChild, RecordedStep, RunHistory } from './inspect/job/history.js';
export type { RunSignal, RunStep, RunSteps } from './inspect/job/steps.js';
export type { RunState } from './inspect/run/state.js';
export type { DeadJob } from './job/dead-job.js';
export { Cancel, DeadLetter, HoldfastError, RetryLater, Snooze } from './job/errors/errors.js';
export type { HoldfastErrorCode } from './job/errors/holdfast-error.js';
export {
  type EnqueueItem,
  type EnqueueOptions,
  type JobDefinition,
  type JobName,
  type JobOptions,
  job,
  type PayloadOf,
  type Priority,
} from './job/job.js';
export { bucketOf, hash32 } from './job/key.js';
export type {
  JobLimit,
  JobRate,
  Limit,
  LimitOptions,
  Rate,
  RateOptions,
} from './job/limit.js';
export type { Duration } from './job/options/duration.js';
export type { Kept, Stored } from './job/options/stored.js';
export type { OrderOptions } from './job/order.js';
export type { QueueName, Register } from './job/queue-name.js';
export type { RetryFunction, RetryOptions } from './job/retry.js';
export { type ShardOptions, shardedKey, shardedKeys } from './job/sharded-key.js';
export type { StandardSchema } from './job/standard-schema.js';
export {
  type JobState,
  type RowState,
  TRANSITIONS,
  type Transition,
  type Verb,
} from './job/states.js';
export type { TurnOptions } from './job/turns.js';
export type { UniqueBy, UniqueOptions } from './job/unique.js';
export type { ActName } from './operate/audit.js';
export type { ActOptions } from './operate/options.js';
export type { Logger, Redact } from './postgres/log/log.js';
export type { LogLevel } from './postgres/log/logger-of.js';
export type { Queryable } from './postgres/queryable.js';
export type { CatchUp } from './schedule/due.js';
export type { RanNow } from './schedule/operate.js';
export type { Overlap, ScheduleOptions } from './schedule/options.js';
export type { WrittenSchedules } from './schedule/write.js';
export type { MigrationState } from './schema/migrate.js';
export type { Telemetry } from './tracing/api.js';
export type {
  EnqueuedEvent,
  JobEvent,
  ThrottledEvent,
  WorkerEvent,
  WorkerStats,
} from './worker/events.js';
export type { WorkerOptions } from './worker/options.js';
export type {
  BatchContext,
  BatchJob,
  BatchOptions,
  HandlerContext,
  JobHandler,
  Settled,
} from './worker/run/handler-context.js';
export type { Worker } from './worker/worker.js';
export {
  type Signals,
  type WorkflowDefinition,
  type WorkflowOptions,
  workflow,
} from './workflow/definition.js';
export { StepFailed } from './workflow/errors.js';
export type {
  ChildResult,
  ChildrenOptions,
  Flow,
  KeptError,
  RestartOptions,
  StepAbout,
  StepOptions,
  Taken,
  TransactionOptions,
  TryOptions,
  UndoAbout,
  WaitOptions,
  WorkflowBody,
} from './workflow/flow.js';
