/** A worker's options, with defaults. A setting that would make the worker lose leases by itself is refused. */
import { HoldfastError, shown } from '../job/errors/holdfast-error.js';
import { checkInteger } from '../job/job.js';
import { type Duration, durationMs, UNIT_MS } from '../job/options/duration.js';
import { checkFlag, checkKnown, type Known } from '../job/options/known-options.js';
import type { QueueName } from '../job/queue-name.js';
import { checkQueueName } from '../postgres/names.js';
import type { WorkerEvent } from './events.js';
import { ANSWER_MS } from './time.js';

/**
 * Options of `hf.worker()`.
 * @example const mailer = hf.worker({ queues: ['inbox'], concurrency: 20, grace: '60s' });
 */
export interface WorkerOptions {
  /** The queues to work on. Default: those of the jobs you handle. */
  readonly queues?: readonly QueueName[];
  /** How many handlers run at once, for each queue. Default 10. */
  readonly concurrency?: number;
  /** At most so many jobs in one claim. Default 500. */
  readonly batchSize?: number;
  /** At most so many jobs claimed ahead of free handlers; fewer if handlers are slow. Default 1,000. */
  readonly prefetch?: number;
  /** How long a claim lasts unless it is renewed. Default 90 s. */
  readonly lease?: Duration;
  /** How often the leases of running jobs are renewed. Default: a third of the lease. */
  readonly renewEvery?: Duration;
  /** How often the worker reports that it is alive. Default 10 s. */
  readonly heartbeat?: Duration;
  /** After so long without a heartbeat a worker is dead. Default 30 s. */
  readonly ttl?: Duration;
  /** How often an idle worker looks for jobs. Default 1 s. */
  readonly poll?: Duration;
  /** How often it prunes and recovers jobs of dead workers. Default 10 s. */
  readonly maintenance?: Duration;
  /** If the event loop is blocked this long, the worker stops its heartbeat and its renewals. Default: the lease. */
  readonly stallLimit?: Duration;
  /** Time limit of handlers whose definition sets none. Default: none. */
  readonly timeout?: Duration;
  /** How long `stop` waits for running handlers. Default 30 s. */
  readonly grace?: Duration;
  /** How long a handler whose job is gone may run on before it frees its place and counts as leaked. Default 10 s. */
  readonly leakGrace?: Duration;
  /** With so many leaked handlers the worker drains, so that you can restart it. Default: it goes on. */
  readonly maxLeaked?: number;
  /** Hold a lock on an own connection, so that others notice at once when it dies. Default true. */
  readonly livenessLock?: boolean;
  /** Be notified of new jobs, and poll less. Default true. */
  readonly notify?: boolean;
  /** Stop on SIGTERM and SIGINT; a second signal exits at once. Default true. */
  readonly handleSignals?: boolean;
  /** Called for every event of this worker. Default: nothing. */
  readonly onEvent?: (event: WorkerEvent) => void;
  /** Facts about this worker for `hf.workers()`, such as a version. Default: none. */
  readonly metadata?: Readonly<Record<string, string | number | boolean>>;
}

const WORKER_OPTIONS = {
  ...{ queues: true, concurrency: true, batchSize: true, prefetch: true, lease: true },
  ...{ renewEvery: true, heartbeat: true, ttl: true, poll: true, maintenance: true },
  ...{ stallLimit: true, timeout: true, grace: true, leakGrace: true, maxLeaked: true },
  ...{ livenessLock: true, notify: true, handleSignals: true, onEvent: true, metadata: true },
} as const satisfies Known<WorkerOptions>;

const UNMADE = 'The worker was not made.';

/** The options as the worker uses them, in milliseconds and with all defaults. */
export type Settings = Readonly<ReturnType<typeof resolveOptions>>;

function rule(holds: boolean, text: string): void {
  if (!holds) throw new HoldfastError('OPTION_INVALID', `${text} The worker was not started.`);
}

/** Of a worker, or of one stop. */
export const graceMs = (value: Duration | undefined): number | undefined =>
  value === undefined ? undefined : durationMs(value, 'grace', { min: 0, max: UNIT_MS.d });

function queueList(queues: unknown): readonly string[] | null {
  if (queues === undefined) return null;
  rule(
    Array.isArray(queues),
    `queues must be a list of names, not ${shown(queues)}: write queues: ['mail'].`,
  );
  return [...new Set((queues as unknown[]).map((queue) => checkQueueName(queue as string)))];
}

export function resolveOptions(options: WorkerOptions) {
  checkKnown(options, WORKER_OPTIONS, 'worker()', UNMADE);
  /** On unless it is turned off. */
  const flag = (what: 'livenessLock' | 'notify' | 'handleSignals') =>
    checkFlag(options[what], what, UNMADE) ?? true;
  const time = (value: Duration | undefined, what: string, fallback: number, min = 10) =>
    value === undefined ? fallback : durationMs(value, what, { min, max: UNIT_MS.d });
  const leaseMs = time(options.lease, 'lease', 90_000, 100);
  const settings = {
    queues: queueList(options.queues),
    concurrency: checkInteger(options.concurrency ?? 10, 'concurrency', 1, 10_000),
    batchSize: checkInteger(options.batchSize ?? 500, 'batchSize', 1, 5_000),
    prefetch: checkInteger(options.prefetch ?? 1_000, 'prefetch', 0, 10_000),
    leaseMs,
    queryTimeoutMs: Math.max(ANSWER_MS, Math.floor(leaseMs / 3)),
    renewMs: time(options.renewEvery, 'renewEvery', Math.floor(leaseMs / 3)),
    heartbeatMs: time(options.heartbeat, 'heartbeat', 10_000, 50),
    ttlMs: time(options.ttl, 'ttl', 30_000, 150),
    pollMs: time(options.poll, 'poll', 1_000),
    maintenanceMs: time(options.maintenance, 'maintenance', 10_000, 50),
    stallMs: time(options.stallLimit, 'stallLimit', leaseMs, 50),
    timeoutMs: options.timeout === undefined ? null : time(options.timeout, 'timeout', 0, 1),
    graceMs: graceMs(options.grace) ?? 30_000,
    leakGraceMs: time(options.leakGrace, 'leakGrace', 10_000, 0),
    maxLeaked:
      options.maxLeaked === undefined
        ? null
        : checkInteger(options.maxLeaked, 'maxLeaked', 1, 1_000_000),
    livenessLock: flag('livenessLock'),
    notify: flag('notify'),
    handleSignals: flag('handleSignals'),
    metadata: options.metadata ?? {},
    onEvent: options.onEvent ?? null,
  };
  rule(
    settings.renewMs * 2 <= settings.leaseMs,
    `renewEvery (${settings.renewMs} ms) must be at most half of lease (${settings.leaseMs} ms), or one missed renewal loses the job.`,
  );
  rule(
    settings.ttlMs >= settings.heartbeatMs * 3,
    `ttl (${settings.ttlMs} ms) must be at least three times heartbeat (${settings.heartbeatMs} ms), or a busy moment declares this worker dead.`,
  );
  rule(
    settings.queues === null || settings.queues.length > 0,
    'queues is empty: name at least one queue, or leave it out.',
  );
  return settings;
}
