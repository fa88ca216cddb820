/**
 * From events to numbers: what the workers and producers of this process did, as cells of a registry. When a pair of queue
 * and type is first seen, all of its cells are made, at zero: a rate needs a point to start from, and they stay together
 * when there are too many. What a worker handles is seen when it starts. What happens before the first scrape has no zero
 * to rise from: `start_time_seconds` tells that from history.
 */
import type { WorkerEvent } from '../worker/events.js';
import { JOB_METRICS, PROCESS_METRICS, STEP_METRICS } from './catalogue.js';
import { type Families, MAX_CELLS, OTHER, type Registry } from './registry.js';

type OfJob = Families<typeof JOB_METRICS>;
type Pair = { [Name in keyof OfJob]: ReturnType<OfJob[Name]['at']> };

const ENDINGS = {
  completed: 'jobs_completed',
  failed: 'jobs_failed',
  dead_letter: 'jobs_dead_lettered',
  snoozed: 'jobs_snoozed',
  released: 'jobs_released',
  cancelled: 'jobs_cancelled',
  lost: 'leases_lost',
} as const;

export class Collector {
  readonly #ofJob: OfJob;
  readonly #ofStep: Families<typeof STEP_METRICS>;
  readonly #process: Families<typeof PROCESS_METRICS>;
  readonly #pairs = new Map<string, Pair>();
  /** By worker, when its last heartbeat was confirmed, on this process' steady clock. */
  readonly #beats = new Map<string, number>();
  readonly #shares = new Map<string, Map<string, number>>();

  constructor(registry: Registry) {
    this.#ofJob = registry.all(JOB_METRICS);
    this.#ofStep = registry.all(STEP_METRICS);
    this.#process = registry.all(PROCESS_METRICS);
    const { worker_errors, worker_reregistrations, start_time_seconds } = this.#process;
    for (const family of [worker_errors, worker_reregistrations]) family.at();
    start_time_seconds.at().set(Date.now() / 1000);
  }

  /** An arrow, so that it can be passed as a listener. */
  readonly record = (event: WorkerEvent): void => {
    switch (event.kind) {
      case 'enqueued': {
        const pair = this.#pair(event.queue, event.type);
        pair.jobs_enqueued.add(event.count - event.deduplicated);
        pair.jobs_deduplicated.add(event.deduplicated);
        break;
      }
      case 'claimed': {
        for (const [type, count] of Object.entries(event.types))
          this.#pair(event.queue, type).jobs_claimed.add(count);
        this.#process.jobs_recovered.at(event.queue).add(event.taken);
        break;
      }
      case 'started-job': {
        const pair = this.#pair(event.queue, event.type);
        pair.jobs_started.add();
        if (event.waitedMs !== undefined) pair.job_latency.observe(event.waitedMs / 1000);
        break;
      }
      case 'completed':
      case 'failed':
      case 'dead_letter':
      case 'snoozed':
      case 'released':
      case 'cancelled':
      case 'lost': {
        const pair = this.#pair(event.queue, event.type);
        pair[ENDINGS[event.kind]].add();
        if (event.ranMs !== undefined) pair.job_duration.observe(event.ranMs / 1000);
        break;
      }
      default:
        this.#recordProcess(event);
    }
  };

  #recordProcess(event: WorkerEvent): void {
    const families = this.#process;
    switch (event.kind) {
      case 'started':
        this.#makeSeries(event.handles);
        break;
      case 'step': {
        const { step_duration, steps_failed } = this.#ofStep;
        // A step in a loop has its number in its name.
        const of = [event.queue, event.type, event.step.replace(/\d+/g, '#')] as const;
        step_duration.at(...of).observe(event.ms / 1000);
        steps_failed.at(...of).add(event.failed ? 1 : 0);
        break;
      }
      case 'statement':
        families.statement_duration.at(event.statement, event.queue).observe(event.ms / 1000);
        break;
      case 'maintained':
        families.jobs_recovered.at(event.queue).add(event.recovered);
        families.rows_pruned.at(event.queue).add(event.pruned);
        break;
      case 'ticked': {
        families.schedule_ticks.at(event.queue).add(event.jobs);
        families.schedule_ticks_skipped.at(event.queue).add(event.skipped);
        families.schedule_ticks_missed.at(event.queue).add(event.missed);
        const lag = families.schedule_lag.at(event.queue);
        for (const ms of event.lagsMs) lag.observe(ms / 1000);
        break;
      }
      case 'throttled':
        families.jobs_throttled.at(event.queue, event.type).add(1);
        break;
      case 'leaked':
        families.worker_leaked_handlers.at(event.queue, event.type).add(1);
        break;
      case 'leak-ended':
        families.worker_leaked_handlers.at(event.queue, event.type).add(-1);
        break;
      case 'settles-kept':
        families.settles_kept.at(event.queue).add(event.change);
        break;
      case 'heartbeat':
        this.#beats.set(event.workerId, performance.now());
        break;
      case 'ring': {
        const shares = this.#shares.get(event.workerId) ?? new Map<string, number>();
        this.#shares.set(event.workerId, shares.set(event.queue, event.owned));
        break;
      }
      case 'reregistered':
        families.worker_reregistrations.at().add();
        this.#remove(event.was);
        break;
      case 'stopped':
        this.#remove(event.workerId);
        break;
      case 'error':
        families.worker_errors.at().add();
        break;
    }
  }

  /** Brings the gauges that follow from what was recorded up to now. */
  refresh(): void {
    const { heartbeat_age_seconds: age, ring_owned_buckets: owned } = this.#process;
    age.clear();
    if (this.#beats.size > 0)
      age.at().set((performance.now() - Math.min(...this.#beats.values())) / 1000);
    owned.clear();
    for (const shares of this.#shares.values())
      for (const [queue, buckets] of shares) owned.at(queue).add(buckets);
  }

  /** Everything that a worker may count, at zero. */
  #makeSeries(handles: Readonly<Record<string, readonly string[]>>): void {
    const { jobs_recovered, rows_pruned, ...families } = this.#process;
    const { schedule_ticks, schedule_ticks_skipped, schedule_ticks_missed } = families;
    const ticks = [schedule_ticks, schedule_ticks_skipped, schedule_ticks_missed];
    for (const [queue, types] of Object.entries(handles)) {
      for (const type of types) this.#pair(queue, type);
      for (const family of [jobs_recovered, rows_pruned, ...ticks]) family.at(queue);
    }
  }

  #remove(workerId: string): void {
    this.#beats.delete(workerId);
    this.#shares.delete(workerId);
  }

  #pair(queue: string, type: string): Pair {
    const key = `${queue}\0${type}`;
    const found = this.#pairs.get(key);
    if (found) return found;
    // The same folding as in the families: all of them count a pair under the same name.
    if (this.#pairs.size >= MAX_CELLS && type !== OTHER) return this.#pair(queue, OTHER);
    if (this.#pairs.size >= 2 * MAX_CELLS && queue !== OTHER) return this.#pair(OTHER, OTHER);
    const cells = Object.entries(this.#ofJob).map(([name, family]) => [
      name,
      family.at(queue, type),
    ]);
    const pair = Object.fromEntries(cells) as Pair;
    this.#pairs.set(key, pair);
    return pair;
  }
}
