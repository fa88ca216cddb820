/** Rows of pg-boss 10 to 12, as JSON: columns that a version lacks are not there. What becomes of every column. */
import {
  type Fields,
  hasOtherTrace,
  isFine,
  isSet,
  LOST,
  LOST_TRACE,
  lossesOf,
  traceHeaders,
} from './fields.js';
import type { SourceJob, SourceSchedule } from './source.js';

const SOURCE = 'which job it is a dead letter of is not moved';
const FLOW = 'jobs of flows stay';
const COUNTED = 'a count that pg-boss keeps for itself';
const TIMED = 'when pg-boss did something with the row';
const COPIED = 'every job has a copy of it';
const MINUTE = 60_000;
const KEPT_MS = 14 * 24 * 60 * MINUTE;
const HEARTBEAT = 'the heartbeat is not moved: a worker here renews its leases by itself';
const KEEP =
  'how long it may wait is not moved: a job here waits until it runs or somebody cancels it';
const DELETION = 'how long it is kept afterwards is not moved: set `archiveRetention` of the queue';
const DEAD_LETTER =
  'the dead-letter queue is not moved: here dead letters stay in their queue, and `onDeadLetter` writes a job for each';
const TIER = 'the group tier is not moved';

/** A policy that holds for jobs without a key holds for all of the queue. */
const POLICIES = ['standard', 'short', 'singleton', 'stately', 'exclusive', 'key_strict_fifo'];
const ONE_AT_A_TIME = ['singleton', 'stately', 'key_strict_fifo'];

export const JOB: Fields = {
  id: { to: 'the import key' },
  name: { to: 'the type' },
  priority: { to: 'the priority', lost: LOST.priority, when: isFine },
  data: { to: 'the payload' },
  state: { to: 'the status' },
  retry_limit: { to: 'maxAttempts, one more' },
  retry_count: { to: 'the attempts' },
  retry_delay: { lost: LOST.retry },
  retry_backoff: { lost: LOST.retry },
  retry_delay_max: { lost: LOST.retry },
  expire_seconds: { lost: LOST.timeout, when: (value) => isSet(value) && value !== 900 },
  /** Of version 10. */
  expire_in: { lost: LOST.timeout, when: (value) => isSet(value) && value !== '00:15:00' },
  deletion_seconds: { lost: DELETION, when: (value) => isSet(value) && value !== 604_800 },
  singleton_key: { to: 'the partition key, a unique key or the idempotency key' },
  singleton_on: {
    to: 'a unique key',
    lost: 'the window of its throttle is not moved: its key is held while the job waits',
  },
  group_id: { to: 'the partition key, or the group' },
  group_tier: { lost: TIER },
  start_after: { to: 'runAt' },
  created_on: { lost: LOST.created },
  started_on: { lost: LOST.times },
  completed_on: { lost: LOST.times },
  keep_until: {
    lost: KEEP,
    when: (value, { start_after }) =>
      isSet(value) &&
      !(Math.abs(Date.parse(`${value}`) - Date.parse(`${start_after}`) - KEPT_MS) < MINUTE),
  },
  output: { to: 'the last error' },
  dead_letter: { lost: DEAD_LETTER },
  policy: {
    to: 'what the singleton key becomes',
    lost: 'its policy is unknown here and not moved',
    when: (value) => isSet(value) && !POLICIES.includes(`${value}`),
  },
  heartbeat_on: { moot: 'only active jobs have it, and they stay' },
  heartbeat_seconds: { lost: HEARTBEAT },
  blocked: { moot: FLOW },
  blocking: { moot: FLOW },
  pending_dependencies: { moot: FLOW },
  source_name: { lost: SOURCE },
  source_id: { lost: SOURCE },
  source_created_on: { lost: SOURCE },
  source_retry_count: { lost: SOURCE },
  source_output: { lost: SOURCE },
  source_root_id: { lost: SOURCE },
  trace_context: { to: 'the headers', lost: LOST_TRACE, when: hasOtherTrace },
  upsert_by_key: { to: 'a unique key' },
};

/** A queue is not made here; what its jobs do not have themselves is said. */
export const QUEUE: Fields = {
  name: { to: 'the type' },
  policy: {
    lost: 'the policy of the queue is not moved: its waiting jobs keep their keys, and new jobs need `unique` or a partition key',
    when: (value) => isSet(value) && value !== 'standard',
  },
  retry_limit: { moot: COPIED },
  retry_delay: { moot: COPIED },
  retry_backoff: { moot: COPIED },
  retry_delay_max: { moot: COPIED },
  expire_seconds: { moot: COPIED },
  retention_seconds: { moot: COPIED },
  /** Of version 10, as partition_name. */
  retention_minutes: { moot: COPIED },
  deletion_seconds: { moot: COPIED },
  dead_letter: { moot: COPIED },
  heartbeat_seconds: { moot: COPIED },
  partition: { moot: 'which table pg-boss keeps the jobs in' },
  partition_name: { moot: 'which table pg-boss keeps the jobs in' },
  table_name: { moot: 'which table pg-boss keeps the jobs in' },
  notify: { moot: 'workers are always notified here' },
  warning_queued: {
    lost: 'warningQueueSize is not moved: set `maxPending` of the queue, or an alert',
  },
  ...Object.fromEntries(
    [
      ...['deferred_count', 'blocked_count', 'queued_count', 'ready_count', 'active_count'],
      ...['failed_count', 'total_count', 'retained_count', 'created_delta', 'completed_delta'],
      ...['failed_delta', 'delta_seconds', 'wait_bins', 'run_bins', 'ready_oldest_seconds'],
      ...['ready_history', 'singletons_active'],
    ].map((name) => [name, { moot: COUNTED }]),
  ),
  ...Object.fromEntries(
    [
      ...['retained_on', 'delta_on', 'monitor_claim_on', 'monitor_on', 'maintain_on'],
      ...['created_on', 'updated_on'],
    ].map((name) => [name, { moot: TIMED }]),
  ),
};

export const SCHEDULE: Fields = {
  name: { to: 'the type' },
  key: { to: 'the name' },
  kind: { moot: 'an RRULE stays' },
  cron: { to: 'cron' },
  timezone: { to: 'timezone' },
  data: { to: 'the payload' },
  options: { to: 'each by itself' },
  created_on: { moot: TIMED },
  updated_on: { moot: TIMED },
  last_job_id: { moot: 'pg-boss knows by it what it sent last' },
};

const KEEP_OF_SCHEDULE = 'how long its jobs may wait is not moved';
const KEY_OF_SCHEDULE = 'the singleton key of its jobs is not moved: a schedule here gives none';
const IGNORED = 'the schedule says it';

/** What `boss.schedule` is given. */
export const SCHEDULE_OPTIONS: Fields = {
  tz: { moot: IGNORED },
  key: { moot: IGNORED },
  db: { moot: 'a connection' },
  missed: { to: 'catchUp' },
  priority: { to: 'the priority', lost: LOST.priority, when: isFine },
  retryLimit: { to: 'maxAttempts, one more' },
  group: {
    to: 'the partition key',
    lost: TIER,
    when: (value) => isSet((value as { tier?: unknown } | null)?.tier),
  },
  id: { lost: 'the id of its jobs is not moved' },
  startAfter: { lost: 'the delay of its jobs is not moved: they are due at once' },
  retryDelay: { lost: LOST.retry },
  retryBackoff: { lost: LOST.retry },
  retryDelayMax: { lost: LOST.retry },
  ...Object.fromEntries(
    ['expireInSeconds', 'expireInMinutes', 'expireInHours'].map((name) => [
      name,
      { lost: LOST.timeout },
    ]),
  ),
  ...Object.fromEntries(
    ['retentionSeconds', 'retentionMinutes', 'retentionHours', 'retentionDays'].map((name) => [
      name,
      { lost: KEEP_OF_SCHEDULE },
    ]),
  ),
  deleteAfterSeconds: { lost: DELETION },
  heartbeatSeconds: { lost: HEARTBEAT },
  deadLetter: { lost: DEAD_LETTER },
  ...Object.fromEntries(
    [
      ...['singletonKey', 'singletonSeconds', 'singletonMinutes', 'singletonHours'],
      ...['singletonNextSlot'],
    ].map((name) => [name, { lost: KEY_OF_SCHEDULE }]),
  ),
};

export type Row = Record<string, string | null>;
type Job = Record<string, string | number | boolean | null>;

/** Higher is first there. */
const priorityOf = (priority: number) => (priority > 0 ? 1 : priority === 0 ? 2 : 3);

/** Null: no policy holds it. A policy without a key holds for the whole queue. */
function singletonOf({ singleton_key: key, singleton_on: slot, policy, name }: Job) {
  if (typeof key === 'string' && key !== '') return key;
  const holds = isSet(slot) || ['short', 'exclusive', ...ONE_AT_A_TIME].includes(`${policy}`);
  return holds ? String(name) : null;
}

function onceOf(job: Job, key: string | null): SourceJob['once'] {
  const { policy, state, singleton_on: slot } = job;
  if (key === null) return null;
  if (policy === 'exclusive') return { key, as: 'running' };
  if (policy === 'short' || policy === 'stately' || isSet(slot) || job.upsert_by_key === true)
    return state === 'created' ? { key, as: 'pending' } : null;
  return policy === 'singleton' || policy === 'key_strict_fifo' ? null : { key, as: 'idempotency' };
}

/** The error of the last attempt, which pg-boss keeps as `output`. */
function errorOf(output: unknown): string | null {
  if (output === null || output === undefined) return null;
  const { stack, message } = output as { stack?: unknown; message?: unknown };
  return String(stack ?? message ?? JSON.stringify(output));
}

export function toJob(row: Row): SourceJob {
  const job = JSON.parse(row.job as string) as Job;
  const once = singletonOf(job);
  const key = ONE_AT_A_TIME.includes(`${job.policy}`) ? once : null;
  const group = isSet(job.group_id) ? String(job.group_id) : null;
  const dead = job.state === 'failed';
  const stays =
    job.blocked === true
      ? 'waits for other jobs of a flow'
      : job.blocking === true
        ? 'other jobs of a flow wait for it'
        : row.lapsed === 'true' && !dead
          ? 'pg-boss deletes it unrun: its keep_until is over'
          : null;
  return {
    id: row.id as string,
    ...{ from: String(job.name), names: [String(job.name)], state: String(job.state) },
    ...{ payload: row.data as string, partitionKey: key ?? group },
    group: key ? group : null,
    priority: priorityOf(Number(job.priority)),
    runAt: String(job.start_after),
    attempts: job.state === 'created' ? 0 : Number(job.retry_count) + 1,
    maxAttempts: Number(job.retry_limit) + 1,
    ...{ error: errorOf(job.output), dead, once: onceOf(job, once), stays },
    headers: traceHeaders(job.trace_context),
    warnings: lossesOf(JOB, job),
  };
}

export function toSchedule(row: Row): SourceSchedule {
  const schedule = JSON.parse(row.schedule as string);
  const { name, cron, timezone, key = '', kind = 'cron' } = schedule as Record<string, string>;
  const options = schedule.options ?? {};
  const retryLimit = options.retryLimit ?? (row.retry_limit === null ? null : +row.retry_limit!);
  return {
    ...{ id: JSON.stringify([name, key]), from: name as string, names: [name as string] },
    suffix: key,
    ...{ cron: cron as string, everyMs: null, timezone: timezone || null },
    payload: schedule.data ?? {},
    partitionKey: options.group?.id ?? null,
    priority: priorityOf(options.priority ?? 0),
    maxAttempts: typeof retryLimit === 'number' ? retryLimit + 1 : null,
    catchUp: options.missed === 'once' ? 'last' : 'none',
    stays: kind === 'cron' ? null : 'is an RRULE; write it as a cron line',
    warnings: [...lossesOf(SCHEDULE, schedule), ...lossesOf(SCHEDULE_OPTIONS, options)],
  };
}
