/**
 * Every metric that Holdfast has: name, kind, labels and what it means. The reference in the
 * documentation is made from this table, and the dashboard and the alert rules are checked against it.
 *
 * Labels are the queue and the job's type, a step of a workflow without its numbers, a state, a reason to wait, a settle's verb, a worker's status, the kind of an error or
 * a table: never a key, an id, a worker's name or anything from a payload.
 */
import type { MetricDefinition, MetricKind } from './registry.js';

const LATENCY_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200];
const DURATION_S = [
  0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
];
const STATEMENT_S = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];

const JOB = { labels: ['queue', 'type'] };
const QUEUE = { labels: ['queue'] };

/** Metrics with the same labels: what each means, by its name without the prefix and the ending of its kind. */
const ofKind =
  <Kind extends MetricKind>(kind: Kind, ending: string) =>
  <Name extends string>(
    facts: Pick<MetricDefinition, 'labels' | 'buckets'>,
    meanings: Readonly<Record<Name, string>>,
  ) =>
    Object.fromEntries(
      Object.entries(meanings).map(([name, help]) => [
        name,
        { name: `holdfast_${name}${ending}`, kind, help, ...facts },
      ]),
    ) as Readonly<Record<Name, MetricDefinition & { readonly kind: Kind }>>;

const counters = ofKind('counter', '_total');
const gauges = ofKind('gauge', '');
const histograms = ofKind('histogram', '_seconds');

/** Counted in this process, from what its producers and workers do. */
export const JOB_METRICS = {
  ...counters(JOB, {
    jobs_enqueued: 'Jobs written by this process, committed or not.',
    jobs_deduplicated:
      'Enqueues that found a job under their idempotency key or unique key and wrote no other.',
    jobs_claimed: 'Jobs claimed.',
    jobs_started: 'Attempts begun.',
    jobs_completed: 'Jobs completed.',
    jobs_failed: 'Attempts that failed and will be tried again.',
    jobs_dead_lettered: 'Jobs that became dead letters.',
    jobs_snoozed: 'Jobs snoozed by their handler, without spending an attempt.',
    jobs_released: 'Jobs released without having spent an attempt.',
    jobs_cancelled: 'Jobs cancelled by their handler.',
    leases_lost: 'Jobs that this process held and then found to be no longer its own.',
  }),
  ...histograms(
    { ...JOB, buckets: LATENCY_S },
    {
      job_latency: 'From the time at which a job was due to the start of its attempt.',
    },
  ),
  ...histograms(
    { ...JOB, buckets: DURATION_S },
    {
      job_duration: 'Time that a handler took, however it ended.',
    },
  ),
};

/** Counted in this process, from the steps that its workers try. */
export const STEP_METRICS = {
  ...histograms(
    { labels: ['queue', 'type', 'step'], buckets: DURATION_S },
    {
      step_duration:
        'Time that a try of a step of a workflow took, however it ended; numbers in its name are #.',
    },
  ),
  ...counters(
    { labels: ['queue', 'type', 'step'] },
    { steps_failed: 'Tries of steps of workflows that failed.' },
  ),
};

export const PROCESS_METRICS = {
  ...counters(QUEUE, {
    jobs_recovered: 'Jobs taken back from workers that are gone.',
    rows_pruned: 'Rows deleted by maintenance because their retention is over.',
    schedule_ticks: 'Jobs written by schedules.',
    schedule_ticks_skipped: 'Ticks without a job, because the job of the tick before was not over.',
    schedule_ticks_missed:
      'Ticks that nobody was there to write, and that are not caught up; at least so many.',
  }),
  ...counters(JOB, {
    jobs_throttled: 'Claims that found jobs of this type which no limit allows to start now.',
  }),
  ...counters(
    { labels: [] },
    {
      worker_errors: 'Errors that a worker met and retries after.',
      worker_reregistrations:
        'Times that a worker was declared dead and registered again under a new id.',
    },
  ),
  ...histograms(
    { labels: ['statement', 'queue'], buckets: STATEMENT_S },
    {
      statement_duration: 'Time until the database answered a claim, or a settle of a batch.',
    },
  ),
  ...histograms(
    { ...QUEUE, buckets: LATENCY_S },
    {
      schedule_lag: 'From the time at which a schedule was due until its job was written.',
    },
  ),
  ...gauges(QUEUE, {
    ring_owned_buckets:
      'Buckets, of 1024, for which the workers of this process come first; queues that are read by key only.',
    settles_kept:
      'Jobs that have ended in this process and whose outcome the database refuses to everybody; it is tried again.',
  }),
  ...gauges(JOB, {
    worker_leaked_handlers:
      'Handlers of this process that run on although their job was cancelled, timed out, lost or released.',
  }),
  ...gauges(
    { labels: [] },
    {
      heartbeat_age_seconds:
        'Time since the last heartbeat that the database confirmed to a worker of this process.',
      start_time_seconds: 'When this process began to count, in seconds since 1970.',
    },
  ),
};

/** Read from the database at the scrape. */
export const DATABASE_METRICS = {
  ...gauges(QUEUE, {
    jobs_pending: 'Jobs that wait, due or not.',
    jobs_due:
      'Jobs that wait and are due; absent when the queue is too large to tell them from the others.',
    jobs_processing: 'Jobs that a worker holds.',
    jobs_expired: 'Jobs in processing whose lease is over.',
    jobs_dead_letter: 'Dead letters.',
    jobs_on_hold:
      'Jobs that wait and that a pause holds back: of the queue, of their type or of their key. Where the queue is large at least so many.',
    queue_stopped_seconds:
      'Due work does not start: how long the oldest job has been due, while nothing of its type has started for a minute; 0 when work starts.',
    oldest_pending_age_seconds:
      'How long the job has been due that has waited longest, without those that a pause holds back; 0 when none waits.',
    jobs_estimated:
      '1 when the queue is large and what waits in it is an estimate; what runs is exact at any size.',
    queue_paused: '1 when nothing may be claimed from the queue.',
    maintenance_age_seconds:
      'Time since a round of maintenance last began; absent before the first.',
    schedule_overdue_seconds:
      'How long the schedule has been due that has waited longest; 0 when none is due.',
  }),
  ...gauges(
    { labels: ['queue', 'reason'] },
    {
      jobs_waiting:
        'Jobs that wait, by the reason that `holdfast explain` would give first; where the queue is large at least so many.',
    },
  ),
  ...gauges(JOB, {
    jobs_unhandled:
      'Jobs, due for 10 s or longer, of a type or a version that no live worker handles: at least so many.',
    limit_places:
      'How many jobs of a limited type may run at once in the fleet; type "*" where the limit is that of the queue.',
    limit_running: 'Jobs that hold a permit of a limit.',
    limit_waiting: 'Due jobs that wait for a token of a rate, counted up to 100,000.',
  }),
  ...gauges(
    { labels: ['queue', 'type', 'state'] },
    {
      runs: 'Runs of a workflow: `waiting`, `undoing`, `running` or `dead_letter`; where very many wait, an estimate.',
    },
  ),
  ...gauges(JOB, {
    oldest_wait_age_seconds: 'How long the run of a workflow has waited that has waited longest.',
  }),
  ...gauges(
    { labels: ['projection', 'version', 'state'] },
    {
      projection_lag_events:
        'Events that a build of a projection has not read: counted up to 100 in a shard, beyond that estimated.',
      projection_lag_seconds:
        'How long ago the oldest of these events was written; 0 when there is none.',
      projection_stopped_keys: 'Keys that stopped at an event which could not be applied.',
    },
  ),
  ...gauges(
    { labels: ['status'] },
    {
      workers:
        'Workers in the registry that are not dead: alive, draining, or silent for longer than their TTL.',
    },
  ),
  ...gauges(
    { labels: [] },
    {
      worker_heartbeat_age_seconds:
        'Time since the last heartbeat of the worker that has been silent for longest and is not dead.',
      database_up:
        '1 when the database answered this scrape, be it with an error; 0 when it cannot be reached.',
    },
  ),
  ...gauges(
    { labels: ['queue', 'error'] },
    {
      scrape_error:
        '1 when figures are missing in this scrape: of the queue that is named, or of all. The error is `locked`, `timeout`, `permission_denied`, `unreachable`, `no_answer`, … or an SQLSTATE; after `unhandled_` only the due jobs that nobody handles are missing, after `waiting_` only the reasons, after `runs_` only the runs of workflows, after `stopped_` only whether due work starts.',
    },
  ),
  ...gauges(
    { labels: ['table'] },
    {
      grant_missing:
        '1 for a table that the user of this process may not read; what is in it is left out of the scrape.',
    },
  ),
};

/** Every metric that Holdfast exports. */
export const CATALOGUE: readonly MetricDefinition[] = [
  ...Object.values(JOB_METRICS),
  ...Object.values(STEP_METRICS),
  ...Object.values(PROCESS_METRICS),
  ...Object.values(DATABASE_METRICS),
];
