/**
 * What the other packages of Holdfast take from this one, beside what everybody may. It may change with every version; the
 * packages have one version, and refuse to work with another.
 */
export type { Access } from './api/access.js';
export {
  actOnSchedule,
  cancelFor,
  discardJobs,
  drain,
  type MoveJobs,
  moveJobs,
  recordOf,
  retryAndHint,
  together,
} from './api/act/acts.js';
export { deadLetters } from './api/act/dead-letters.js';
export { schedules } from './api/act/schedules.js';
export { signalRun } from './api/act/workflows.js';
export { jobsFilter } from './api/look/filter.js';
export { gaugesReader, unhandledJobs } from './api/look/gauges.js';
export { looking } from './api/look/look.js';
export { membersOf, ringOwner } from './api/look/ring.js';
export { runs } from './api/look/runs.js';
export { lockedView, queueView, workerView } from './api/look/views.js';
export { claimKeyed, type KeyStretch } from './claim/key/claim.js';
export { claimSuspects } from './claim/suspects.js';
export type { ClaimedJob } from './claim/take.js';
export { claimTime, type LineRequest } from './claim/time/claim.js';
export { frontLines } from './claim/time/lines.js';
export { claimRateKeys } from './claim/time/rated.js';
export { claimTurns } from './claim/turns/claim.js';
export { findEffect, recordEffect } from './effects/once.js';
export { insert, insertWithKeys, type NewJob } from './enqueue/insert.js';
export { childId } from './enqueue/insert-children.js';
export { KnownQueues } from './fleet/known-queues.js';
export { findGone } from './fleet/liveness.js';
export { fleetView, leave, lockKeyOf, register } from './fleet/registry.js';
export { movedBuckets, positionOf, ringOwners } from './fleet/ring.js';
export { type HoldfastParts, partsOf } from './holdfast.js';
export { describeStopped } from './inspect/doctor/stopped.js';
export type { Reason } from './inspect/explain/reasons.js';
export { markStopped, type Stopped } from './inspect/explain/stopped.js';
export { recentAttempts } from './inspect/fleet/reports.js';
export { listWorkers, saysOf, ttlOf, type WorkerRow } from './inspect/fleet/workers.js';
export { countFinished } from './inspect/job/archive.js';
export { foldError } from './inspect/job/failures.js';
export { countJobs } from './inspect/job/list.js';
export { type RunStep, stepsOf } from './inspect/job/steps.js';
export {
  lagOf as projectionLags,
  listStopped as projectionStops,
  type ProjectionGauges,
  type ProjectionStop,
} from './inspect/projections/lag.js';
export type { UnhandledJobs } from './inspect/queue/gauges.js';
export {
  type DueLine,
  declaredIn,
  dueOf,
  dueUnder,
  inForce,
  jobsOf,
  type LimitRow,
  limitStates,
  readLimits,
} from './inspect/queue/limits.js';
export {
  type Overview,
  openOverview,
  overview,
  type PartialOverview,
  type QueueOverview,
  type Read,
  readableOverview,
} from './inspect/queue/overview.js';
export { listQueues, type QueueRow } from './inspect/queue/queues.js';
export { databaseNow, reading } from './inspect/reading/reading.js';
export { many, span } from './inspect/reading/words.js';
export { failedChildrenOf, linksOf, type RunLinks, runValue } from './inspect/run/facts.js';
export { workflowTypes } from './inspect/run/types.js';
export { runNow } from './inspect/run/waits.js';
export { brand, shown } from './job/errors/holdfast-error.js';
export { TAG_HEADER } from './job/headers.js';
export { checkId, isId } from './job/id.js';
export { checkInteger } from './job/job.js';
export { BUCKETS, checkKey } from './job/key.js';
export { durationMs, MAX_DELAY_MS } from './job/options/duration.js';
export { checkKnown, type Known, unknownOption } from './job/options/known-options.js';
export { nearest } from './job/options/nearest.js';
export { VERSION } from './job/options/version.js';
export { encodePayload } from './job/payload.js';
export { DEFAULT_RETRY, retryDelayMs } from './job/retry.js';
export { markStarted } from './lease/marks.js';
export { renew } from './lease/renew.js';
export { recover } from './maintenance/recover.js';
export { sweepDeadWorkers } from './maintenance/sweep.js';
export { declareHooks } from './operate/dead-letter-hooks.js';
export { discard } from './operate/dead-letters.js';
export { pruneArchiveOlder } from './operate/prune.js';
export { clientBehind } from './postgres/connect/lent-client.js';
export {
  closePool,
  enginePool,
  plainPool,
  withClient,
  withTransaction,
} from './postgres/connect/pool.js';
export { isOutage, isTransient } from './postgres/connect/transient.js';
export { inQueue } from './postgres/in-queue.js';
export { type BoundedLogger, boundedLogger } from './postgres/log/bounded-log.js';
export { defaultLogger } from './postgres/log/logger-of.js';
export { checkQueueName, loadText, type Names, quoteName } from './postgres/names.js';
export { type Executor, engineExecutor, executor } from './postgres/queryable.js';
export { ENGINE_SETTINGS } from './postgres/settings.js';
export {
  allStatements,
  bool,
  type Column,
  type ColumnKind,
  type Columns,
  int4,
  int8,
  load,
  type Param,
  type Row,
  type Statement,
  statement,
  text,
} from './postgres/statement.js';
export { checkSameVersion } from './same-version.js';
export { delayOf, upcoming } from './schedule/instants.js';
export { FUNCTIONS } from './schema/functions.js';
export { migrate } from './schema/migrate.js';
export { MIGRATIONS, PROGRAM } from './schema/migrations.js';
export { createQueue } from './schema/queue.js';
export { complete } from './settle/complete.js';
export { fail } from './settle/fail.js';
export {
  type AttemptRow as WebhookAttemptRow,
  attempts as webhookAttempts,
} from './shapes/webhooks/rows/attempts.js';
export { count as webhookCount } from './shapes/webhooks/rows/deliveries.js';
export {
  type EndpointRow as WebhookEndpointRow,
  list as webhookEndpoints,
  queuesOf as webhookQueues,
  show as webhookEndpoint,
} from './shapes/webhooks/rows/endpoints.js';
export type { SettleResult } from './worker/events.js';
export { startKeeper } from './worker/lease/keeper-work.js';
export type { FromKeeper, KeeperSetup, ToKeeper } from './worker/lease/protocol.js';
export { resolveOptions } from './worker/options.js';
export { workflowRoute } from './worker/routes.js';
export { type Outcome, runJob } from './worker/run/attempt.js';
export type { Handler, Route, WorkflowRoute } from './worker/run/handler-context.js';
export { leaseLost } from './worker/run/handler-context.js';
export { LeasedJob } from './worker/run/leased-job.js';
export { settleOutcome } from './worker/settle/outcome.js';
export { newSettler, type Settler } from './worker/settle/settler.js';
export { systemTime, type Time } from './worker/time.js';
export { Worker } from './worker/worker.js';
export { newRunsIo } from './worker/workflow/runs-io.js';
export { isWorkflow } from './workflow/definition.js';
export { notAsked } from './workflow/errors.js';
export { type Kind, type Marker, ROUND, UNDOING } from './workflow/marker.js';
export { send as sendSignal, wakeRuns } from './workflow/rows/signal.js';
export type { TurnEnd } from './workflow/turn/end.js';
export { flowOf } from './workflow/turn/flow-of.js';
export type { TurnPorts } from './workflow/turn/ports.js';
export { Turn } from './workflow/turn/turn.js';
