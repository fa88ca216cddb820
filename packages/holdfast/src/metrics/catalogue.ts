/**
 * Every metric that Holdfast has: name, kind, labels and what it means. The reference in the
 * documentation is made from this table, and the dashboard and the alert rules are checked against it.
 *
 * Labels are the queue and the job's type, a reason to wait, a settle's verb, a worker's status, the kind of an error or
 * a table: never a key, an id, a worker's name or anything from a payload.
 */
import type { MetricDefinition } from './registry.js';

const LATENCY_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200];
const DURATION_S = [
  0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
];
const STATEMENT_S = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];

const JOB = ['queue', 'type'] as const;
const QUEUE = ['queue'] as const;

const counter = (name: string, labels: readonly string[], help: string): MetricDefinition => ({
  name: `holdfast_${name}_total`,
  kind: 'counter',
  labels,
  help,
});

const gauge = (name: string, labels: readonly string[], help: string): MetricDefinition => ({
  name: `holdfast_${name}`,
  kind: 'gauge',
  labels,
  help,
});

const histogram = (
  name: string,
  labels: readonly string[],
  buckets: readonly number[],
  help: string,
): MetricDefinition => ({
  name: `holdfast_${name}_seconds`,
  kind: 'histogram',
  labels,
  buckets,
  help,
});

/** Counted in this process, from what its producers and workers do. */
export const JOB_METRICS = {
  enqueued: counter('jobs_enqueued', JOB, 'Jobs written by this process, committed or not.'),
  deduplicated: counter(
    'jobs_deduplicated',
    JOB,
    'Enqueues that found a job under their idempotency key or unique key and wrote no other.',
  ),
  claimed: counter('jobs_claimed', JOB, 'Jobs claimed.'),
  started: counter('jobs_started', JOB, 'Attempts begun.'),
  completed: counter('jobs_completed', JOB, 'Jobs completed.'),
  failed: counter('jobs_failed', JOB, 'Attempts that failed and will be tried again.'),
  dead_letter: counter('jobs_dead_lettered', JOB, 'Jobs that became dead letters.'),
  snoozed: counter(
    'jobs_snoozed',
    JOB,
    'Jobs snoozed by their handler, without spending an attempt.',
  ),
  released: counter('jobs_released', JOB, 'Jobs released without having spent an attempt.'),
  cancelled: counter('jobs_cancelled', JOB, 'Jobs cancelled by their handler.'),
  lost: counter(
    'leases_lost',
    JOB,
    'Jobs that this process held and then found to be no longer its own.',
  ),
  latency: histogram(
    'job_latency',
    JOB,
    LATENCY_S,
    'From the time at which a job was due to the start of its attempt.',
  ),
  duration: histogram(
    'job_duration',
    JOB,
    DURATION_S,
    'Time that a handler took, however it ended.',
  ),
} as const;

export const PROCESS_METRICS = {
  recovered: counter('jobs_recovered', QUEUE, 'Jobs taken back from workers that are gone.'),
  pruned: counter(
    'rows_pruned',
    QUEUE,
    'Rows deleted by maintenance because their retention is over.',
  ),
  statement: histogram(
    'statement_duration',
    ['statement', 'queue'],
    STATEMENT_S,
    'Time until the database answered a claim, or a settle of a batch.',
  ),
  owned: gauge(
    'ring_owned_buckets',
    QUEUE,
    'Buckets, of 1024, for which the workers of this process come first; queues that are read by key only.',
  ),
  heartbeatAge: gauge(
    'heartbeat_age_seconds',
    [],
    'Time since the last heartbeat that the database confirmed to a worker of this process.',
  ),
  scheduled: counter('schedule_ticks', QUEUE, 'Jobs written by schedules.'),
  scheduleSkipped: counter(
    'schedule_ticks_skipped',
    QUEUE,
    'Ticks without a job, because the job of the tick before was not over.',
  ),
  scheduleMissed: counter(
    'schedule_ticks_missed',
    QUEUE,
    'Ticks that nobody was there to write, and that are not caught up; at least so many.',
  ),
  scheduleLag: histogram(
    'schedule_lag',
    QUEUE,
    LATENCY_S,
    'From the time at which a schedule was due until its job was written.',
  ),
  throttled: counter(
    'jobs_throttled',
    JOB,
    'Claims that found jobs of this type which no limit allows to start now.',
  ),
  leaked: gauge(
    'worker_leaked_handlers',
    JOB,
    'Handlers of this process that run on although their job was cancelled, timed out, lost or released.',
  ),
  kept: gauge(
    'settles_kept',
    QUEUE,
    'Jobs that have ended in this process and whose outcome the database refuses to everybody; it is tried again.',
  ),
  errors: counter('worker_errors', [], 'Errors that a worker met and retries after.'),
  reregistrations: counter(
    'worker_reregistrations',
    [],
    'Times that a worker was declared dead and registered again under a new id.',
  ),
  startTime: gauge(
    'start_time_seconds',
    [],
    'When this process began to count, in seconds since 1970.',
  ),
} as const;

/** Read from the database at the scrape. */
export const DATABASE_METRICS = {
  pending: gauge('jobs_pending', QUEUE, 'Jobs that wait, due or not.'),
  due: gauge(
    'jobs_due',
    QUEUE,
    'Jobs that wait and are due; absent when the queue is too large to tell them from the others.',
  ),
  processing: gauge('jobs_processing', QUEUE, 'Jobs that a worker holds.'),
  expired: gauge('jobs_expired', QUEUE, 'Jobs in processing whose lease is over.'),
  deadLetters: gauge('jobs_dead_letter', QUEUE, 'Dead letters.'),
  oldestPending: gauge(
    'oldest_pending_age_seconds',
    QUEUE,
    'How long the job has been due that has waited longest; 0 when none waits.',
  ),
  estimated: gauge(
    'jobs_estimated',
    QUEUE,
    '1 when the queue is large and what waits in it is an estimate; what runs is exact at any size.',
  ),
  waiting: gauge(
    'jobs_waiting',
    ['queue', 'reason'],
    'Jobs that wait, by the reason that `holdfast explain` would give first; where the queue is large at least so many.',
  ),
  unhandled: gauge(
    'jobs_unhandled',
    JOB,
    'Jobs, due for 10 s or longer, of a type or a version that no live worker handles: at least so many.',
  ),
  paused: gauge('queue_paused', QUEUE, '1 when nothing may be claimed from the queue.'),
  maintenanceAge: gauge(
    'maintenance_age_seconds',
    QUEUE,
    'Time since a round of maintenance last began; absent before the first.',
  ),
  scheduleOverdue: gauge(
    'schedule_overdue_seconds',
    QUEUE,
    'How long the schedule has been due that has waited longest; 0 when none is due.',
  ),
  limitPlaces: gauge(
    'limit_places',
    JOB,
    'How many jobs of a limited type may run at once in the fleet; type "*" where the limit is that of the queue.',
  ),
  limitRunning: gauge('limit_running', JOB, 'Jobs that hold a permit of a limit.'),
  limitWaiting: gauge(
    'limit_waiting',
    JOB,
    'Due jobs that wait for a token of a rate, counted up to 100,000.',
  ),
  workers: gauge(
    'workers',
    ['status'],
    'Workers in the registry that are not dead: alive, draining, or silent for longer than their TTL.',
  ),
  workerAge: gauge(
    'worker_heartbeat_age_seconds',
    [],
    'Time since the last heartbeat of the worker that has been silent for longest and is not dead.',
  ),
  up: gauge(
    'database_up',
    [],
    '1 when the database answered this scrape, be it with an error; 0 when it cannot be reached.',
  ),
  scrapeError: gauge(
    'scrape_error',
    ['queue', 'error'],
    '1 when figures are missing in this scrape: of the queue that is named, or of all. The error is `locked`, `timeout`, `permission_denied`, `unreachable`, `no_answer`, … or an SQLSTATE; after `unhandled_` only the due jobs that nobody handles are missing, after `waiting_` only the reasons.',
  ),
  missingGrant: gauge(
    'grant_missing',
    ['table'],
    '1 for a table that the user of this process may not read; what is in it is left out of the scrape.',
  ),
} as const;

export const CATALOGUE: readonly MetricDefinition[] = [
  ...Object.values(JOB_METRICS),
  ...Object.values(PROCESS_METRICS),
  ...Object.values(DATABASE_METRICS),
];
