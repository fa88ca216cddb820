export { guardTable, isStaleFence } from './effects/fence.js';
export type { Enqueued } from './enqueue/enqueue.js';
export {
  type EnqueueCall,
  type Holdfast,
  type HoldfastOptions,
  holdfast,
  type QueueOptions,
} from './holdfast.js';
export type { JobRow } from './inspect/job.js';
export type { Duration } from './job/duration.js';
export {
  Cancel,
  GiveUp,
  HoldfastError,
  type HoldfastErrorCode,
  RetryLater,
  Snooze,
} from './job/errors.js';
export {
  type EnqueueItem,
  type EnqueueOptions,
  type JobDefinition,
  type JobName,
  type JobOptions,
  job,
} from './job/job.js';
export { bucketOf, hash32 } from './job/key.js';
export type { OrderOptions } from './job/order.js';
export type { RetryFunction, RetryOptions } from './job/retry.js';
export { type ShardOptions, shardedKey, shardedKeys } from './job/sharded-key.js';
export type { StandardSchema } from './job/standard-schema.js';
export { type JobState, TRANSITIONS, type Transition, type Verb } from './job/states.js';
export type { Logger, Redact } from './postgres/log.js';
export type { Queryable } from './postgres/queryable.js';
export type { MigrationState } from './schema/migrate.js';
export type { Telemetry } from './tracing/api.js';
export type { EnqueuedEvent, JobEvent, WorkerEvent, WorkerStats } from './worker/events.js';
export type { WorkerOptions } from './worker/options.js';
export type { HandlerContext } from './worker/run/handler-context.js';
export type { Worker } from './worker/worker.js';
