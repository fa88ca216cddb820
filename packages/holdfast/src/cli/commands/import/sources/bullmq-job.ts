/** Jobs and schedulers of BullMQ 5 and 6 as its own package gives them, and what becomes of every field. */
import {
  type Fields,
  hasOtherTrace,
  isFine,
  isSet,
  LOST,
  LOST_TRACE,
  lossesOf,
  traceHeaders,
  type Values,
} from './fields.js';
import type { SourceJob, SourceSchedule } from './source.js';

/** What is used of a job. */
export interface BullJob {
  readonly id?: string;
  readonly name: string;
  readonly data: unknown;
  readonly timestamp: number;
  readonly delay: number;
  readonly priority: number;
  readonly attemptsMade: number;
  readonly failedReason?: string;
  readonly deferredFailure?: string;
  readonly stacktrace?: readonly string[] | null;
  readonly parentKey?: string;
  readonly repeatJobKey?: string;
  readonly deduplicationId?: string;
  readonly opts: {
    readonly attempts?: number;
    readonly deduplication?: { readonly id?: string };
    readonly telemetry?: { readonly metadata?: string };
  };
  /** Version 5 and 6 count the children that have ended. */
  getDependenciesCount?(opts: {
    readonly processed: true;
  }): Promise<{ readonly processed?: number }>;
  remove(): Promise<void>;
}

export interface Scheduler {
  readonly key: string;
  readonly name: string;
  readonly pattern?: string | null;
  readonly every?: number | string | null;
  readonly tz?: string | null;
  readonly limit?: number;
  readonly startDate?: number | null;
  readonly endDate?: number | null;
  readonly template?: {
    readonly data?: unknown;
    readonly opts?: { readonly priority?: number; readonly attempts?: number };
  };
}

const INSIDE = 'the object in memory';
const STAYS = 'jobs of flows stay';
const OF_SCHEDULER = 'its scheduler moves, or stays with its jobs';
const LOGS = 'its log lines are not moved';
const COPY = 'the job has it itself';
const KEY_OF_SCHEDULE =
  'the deduplication of its jobs is not moved: a schedule here gives them no key';
const STALLED = 'how often it stalled is not moved';
const REMOVAL =
  'removeOnComplete and removeOnFail are not moved: set `archiveRetention` of the queue';
const WINDOW =
  'the window and the mode of its deduplication are not moved: its key is held until it ends';

/** What a job has in memory, and what `job.toJSON()` says of it. */
export const JOB: Fields = {
  id: { to: 'the import key, and the idempotency key if you chose it' },
  name: { to: 'the type' },
  data: { to: 'the payload' },
  opts: { moot: 'each by itself' },
  timestamp: { to: 'runAt, with the delay', lost: LOST.created },
  delay: { to: 'runAt' },
  priority: { to: 'the priority', lost: LOST.priority, when: isFine },
  attemptsMade: { to: 'the attempts' },
  attemptsStarted: { lost: LOGS },
  stalledCounter: { lost: STALLED },
  failedReason: { to: 'the last error' },
  stacktrace: { to: 'the last error' },
  deferredFailure: { moot: 'a job that BullMQ is to fail stays' },
  progress: { lost: 'its progress is not moved', when: (value) => isSet(value) && value !== '0' },
  returnvalue: { moot: 'only jobs that completed have it, and they stay' },
  processedOn: { lost: LOST.times },
  finishedOn: { lost: LOST.times },
  processedBy: { lost: LOST.times },
  parent: { moot: STAYS },
  parentKey: { moot: STAYS },
  repeatJobKey: { moot: OF_SCHEDULER },
  nextRepeatableJobId: { moot: OF_SCHEDULER },
  nextRepeatableJobKey: { moot: OF_SCHEDULER },
  deduplicationId: { to: 'a unique key' },
  debounceId: { moot: 'the older name of deduplicationId' },
  queue: { moot: INSIDE },
  backend: { moot: INSIDE },
  queueQualifiedName: { moot: INSIDE },
  queueName: { moot: INSIDE },
  prefix: { moot: INSIDE },
  scripts: { moot: INSIDE },
  token: { moot: INSIDE },
  toKey: { moot: INSIDE },
  discarded: { moot: INSIDE },
};

export const JOB_OPTIONS: Fields = {
  attempts: { to: 'maxAttempts' },
  jobId: { moot: COPY },
  delay: { moot: COPY },
  timestamp: { moot: COPY },
  priority: { moot: COPY },
  lifo: { moot: 'jobs are read in the order in which BullMQ would run them' },
  backoff: { lost: LOST.retry },
  removeOnComplete: { lost: REMOVAL, when: (value) => value !== undefined && value !== null },
  removeOnFail: { lost: REMOVAL, when: (value) => value !== undefined && value !== null },
  keepLogs: { lost: 'keepLogs is not moved: there are no log lines of jobs here' },
  stackTraceLimit: { lost: 'stackTraceLimit is not moved: here the last error is kept' },
  sizeLimit: { lost: 'sizeLimit is not moved: set `maxPayloadBytes` of the queue' },
  parent: { moot: STAYS },
  failParentOnFailure: { moot: STAYS },
  continueParentOnFailure: { moot: STAYS },
  ignoreDependencyOnFailure: { moot: STAYS },
  removeDependencyOnFailure: { moot: STAYS },
  repeat: { moot: OF_SCHEDULER },
  repeatJobKey: { moot: OF_SCHEDULER },
  prevMillis: { moot: OF_SCHEDULER },
  telemetry: {
    to: 'the headers',
    lost: LOST_TRACE,
    when: (value) => hasOtherTrace(carrierOf(value)),
  },
  deduplication: {
    to: 'a unique key',
    lost: WINDOW,
    when: (value) =>
      Object.entries((value ?? {}) as Values).some(([name, one]) => name !== 'id' && isSet(one)),
  },
  debounce: {
    to: 'a unique key',
    lost: WINDOW,
    when: (value) => isSet((value as { ttl?: unknown } | null)?.ttl),
  },
};

/** Those of the template of a scheduler. */
export const TEMPLATE_OPTIONS: Fields = {
  ...JOB_OPTIONS,
  priority: { to: 'the priority', lost: LOST.priority, when: isFine },
  deduplication: { lost: KEY_OF_SCHEDULE },
  debounce: { lost: KEY_OF_SCHEDULE },
  telemetry: { lost: 'the trace context of its jobs is not moved' },
};

export const SCHEDULER: Fields = {
  key: { to: 'the name' },
  id: { moot: 'the same as its key' },
  name: { to: 'the type' },
  pattern: { to: 'cron' },
  every: { to: 'every', lost: 'the interval begins with 1970, and not with the first run' },
  tz: { to: 'timezone' },
  limit: { moot: 'one with a limit of runs stays' },
  startDate: { moot: 'one that has not begun stays' },
  endDate: { moot: 'one with an end date stays' },
  iterationCount: { lost: 'how often it has run is not moved' },
  next: { moot: 'the job for its next run moves with the schedule' },
  offset: {
    lost: 'its offset is not moved',
    when: (value, { every }) => isSet(value) && !isSet(every),
  },
  template: { moot: 'each by itself' },
};

/** 0 is none and comes first; 1 to 2,097,152 come after it. */
const priorityOf = (priority: number | undefined) => (priority ? 3 : 2);

/** What a tracer put in, as JSON. */
function carrierOf(telemetry: unknown): unknown {
  const { metadata } = (telemetry ?? {}) as { metadata?: unknown };
  if (typeof metadata !== 'string') return metadata;
  try {
    return JSON.parse(metadata);
  } catch {
    return { metadata };
  }
}

/** The schedulers that are still there. */
export type Held = ReadonlySet<string>;

export const idOf = (queue: string, key: string) => JSON.stringify([queue, key]);

/** Why a job of a flow or of a scheduler stays. */
function staysOf(queue: string, state: string, job: BullJob, held: Held): string | null {
  if (job.parentKey) return 'is a child of a flow';
  if (job.deferredFailure) return 'BullMQ is about to fail it: a job of its flow failed';
  if (!job.repeatJobKey) return null;
  if (held.has(idOf(queue, job.repeatJobKey))) return 'belongs to a scheduler that stays';
  return state === 'delayed' ? 'moves with its scheduler' : null;
}

export interface Found {
  readonly queue: string;
  readonly state: string;
  readonly job: BullJob;
  /** How many of its children have ended. */
  readonly children: number;
}

export function toJob({ queue, state, job, children }: Found, maxBytes: number, held: Held) {
  const text = JSON.stringify(job.data ?? {});
  const dedup = job.opts.deduplication?.id ?? job.deduplicationId;
  const custom = job.id !== undefined && !/^\d+$/.test(job.id) && !job.repeatJobKey;
  const stays = staysOf(queue, state, job, held);
  return {
    id: `${queue}:${job.id}`,
    ...{ from: `${queue}/${job.name}`, names: [`${queue}/${job.name}`, job.name], state },
    payload: Buffer.byteLength(text) <= maxBytes ? text : null,
    ...{ partitionKey: null, group: null, priority: priorityOf(job.priority) },
    runAt: new Date(job.timestamp + job.delay).toISOString(),
    attempts: job.attemptsMade,
    maxAttempts: job.opts.attempts ?? 1,
    error: job.stacktrace?.[0] ?? job.failedReason ?? null,
    dead: state === 'failed',
    once: dedup
      ? { key: dedup, as: 'running' }
      : custom
        ? { key: job.id as string, as: 'idempotency' }
        : null,
    headers: traceHeaders(carrierOf(job.opts.telemetry)),
    stays: stays ?? (children > 0 ? 'is the parent of a flow: its children left results' : null),
    warnings: [
      ...lossesOf(JOB, job as unknown as Values),
      ...lossesOf(JOB_OPTIONS, job.opts, 'opts.'),
    ],
  } satisfies SourceJob;
}

function stayingOf({ limit, endDate, startDate }: Scheduler): string | null {
  if (limit) return 'has a limit of runs';
  if (endDate) return 'has an end date';
  return startDate && startDate > Date.now() ? 'has not begun' : null;
}

export function toSchedule(queue: string, one: Scheduler): SourceSchedule {
  const { pattern, every, tz, template } = one;
  return {
    ...{ id: idOf(queue, one.key), from: `${queue}/${one.name}` },
    names: [`${queue}/${one.name}`, one.name],
    suffix: one.key === one.name ? '' : one.key,
    ...{ cron: pattern ?? null, everyMs: pattern ? null : Number(every), timezone: tz ?? null },
    payload:
      typeof template?.data === 'string' ? JSON.parse(template.data) : (template?.data ?? {}),
    ...{ partitionKey: null, priority: priorityOf(template?.opts?.priority) },
    ...{ maxAttempts: template?.opts?.attempts ?? 1, catchUp: 'none', stays: stayingOf(one) },
    warnings: [
      ...lossesOf(SCHEDULER, one as unknown as Values),
      ...lossesOf(TEMPLATE_OPTIONS, template?.opts ?? {}, 'opts.'),
    ],
  };
}
