/**
 * From events to numbers: what the workers and producers of this process did, as cells of a registry.
 *
 * When a pair of queue and type is first seen, all of its cells are made, at zero: a rate needs a point
 * to start from, and the pairs that are counted together stay together when there are too many of them. What
 * a worker handles is seen when it starts, before its first job. What happens before the first scrape has no
 * zero to rise from, however early the cell is made: the time since which is counted tells that from history.
 */
import type { WorkerEvent } from '../worker/events.js';
import { JOB_METRICS, PROCESS_METRICS } from './catalogue.js';
import {
  type Family,
  type HistogramCell,
  MAX_CELLS,
  type NumberCell,
  OTHER,
  type Registry,
} from './registry.js';

type JobCounter = Exclude<keyof typeof JOB_METRICS, 'latency' | 'duration'>;
type Pair = Record<JobCounter, NumberCell> & { latency: HistogramCell; duration: HistogramCell };

export class Collector {
  readonly #counters: Record<JobCounter, Family<NumberCell>>;
  readonly #latency: Family<HistogramCell>;
  readonly #duration: Family<HistogramCell>;
  readonly #recovered: Family<NumberCell>;
  readonly #pruned: Family<NumberCell>;
  readonly #statement: Family<HistogramCell>;
  readonly #owned: Family<NumberCell>;
  readonly #scheduled: Family<NumberCell>;
  readonly #scheduleSkipped: Family<NumberCell>;
  readonly #scheduleMissed: Family<NumberCell>;
  readonly #scheduleLag: Family<HistogramCell>;
  readonly #throttled: Family<NumberCell>;
  readonly #leaked: Family<NumberCell>;
  readonly #kept: Family<NumberCell>;
  readonly #heartbeatAge: Family<NumberCell>;
  readonly #errors: NumberCell;
  readonly #reregistrations: NumberCell;
  readonly #pairs = new Map<string, Map<string, Pair>>();
  #pairCount = 0;
  /** By worker, when its last heartbeat was confirmed, on this process' steady clock. */
  readonly #beats = new Map<string, number>();
  /** By worker and queue. */
  readonly #shares = new Map<string, Map<string, number>>();

  constructor(registry: Registry) {
    const { latency, duration, ...counters } = JOB_METRICS;
    this.#counters = Object.fromEntries(
      Object.entries(counters).map(([key, definition]) => [key, registry.counter(definition)]),
    ) as Record<JobCounter, Family<NumberCell>>;
    this.#latency = registry.histogram(latency);
    this.#duration = registry.histogram(duration);
    this.#recovered = registry.counter(PROCESS_METRICS.recovered);
    this.#pruned = registry.counter(PROCESS_METRICS.pruned);
    this.#statement = registry.histogram(PROCESS_METRICS.statement);
    this.#owned = registry.gauge(PROCESS_METRICS.owned);
    this.#scheduled = registry.counter(PROCESS_METRICS.scheduled);
    this.#scheduleSkipped = registry.counter(PROCESS_METRICS.scheduleSkipped);
    this.#scheduleMissed = registry.counter(PROCESS_METRICS.scheduleMissed);
    this.#scheduleLag = registry.histogram(PROCESS_METRICS.scheduleLag);
    this.#throttled = registry.counter(PROCESS_METRICS.throttled);
    this.#leaked = registry.gauge(PROCESS_METRICS.leaked);
    this.#kept = registry.gauge(PROCESS_METRICS.kept);
    this.#heartbeatAge = registry.gauge(PROCESS_METRICS.heartbeatAge);
    this.#errors = registry.counter(PROCESS_METRICS.errors).at();
    this.#reregistrations = registry.counter(PROCESS_METRICS.reregistrations).at();
    registry
      .gauge(PROCESS_METRICS.startTime)
      .at()
      .set(Date.now() / 1000);
  }

  /** An arrow, so that it can be passed as a listener. */
  readonly record = (event: WorkerEvent): void => {
    switch (event.kind) {
      case 'enqueued': {
        const pair = this.#pair(event.queue, event.type);
        pair.enqueued.add(event.count - event.deduplicated);
        pair.deduplicated.add(event.deduplicated);
        break;
      }
      case 'claimed': {
        const types = Object.entries(event.types);
        for (const [type, count] of types) this.#pair(event.queue, type).claimed.add(count);
        this.#recovered.at(event.queue).add(event.taken);
        break;
      }
      case 'started-job': {
        const pair = this.#pair(event.queue, event.type);
        pair.started.add();
        if (event.waitedMs !== undefined) pair.latency.observe(event.waitedMs / 1000);
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
        pair[event.kind].add();
        if (event.ranMs !== undefined) pair.duration.observe(event.ranMs / 1000);
        break;
      }
      default:
        this.#recordProcess(event);
    }
  };

  #recordProcess(event: WorkerEvent): void {
    switch (event.kind) {
      case 'started':
        this.#makeSeries(event.handles);
        break;
      case 'statement':
        this.#statement.at(event.statement, event.queue).observe(event.ms / 1000);
        break;
      case 'maintained':
        this.#recovered.at(event.queue).add(event.recovered);
        this.#pruned.at(event.queue).add(event.pruned);
        break;
      case 'ticked': {
        this.#scheduled.at(event.queue).add(event.jobs);
        this.#scheduleSkipped.at(event.queue).add(event.skipped);
        this.#scheduleMissed.at(event.queue).add(event.missed);
        const lag = this.#scheduleLag.at(event.queue);
        for (const ms of event.lagsMs) lag.observe(ms / 1000);
        break;
      }
      case 'throttled':
        this.#throttled.at(event.queue, event.type).add(1);
        break;
      case 'leaked':
        this.#leaked.at(event.queue, event.type).add(1);
        break;
      case 'leak-ended':
        this.#leaked.at(event.queue, event.type).add(-1);
        break;
      case 'settles-kept':
        this.#kept.at(event.queue).add(event.change);
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
        this.#reregistrations.add();
        this.#remove(event.was);
        break;
      case 'stopped':
        this.#remove(event.workerId);
        break;
      case 'error':
        this.#errors.add();
        break;
    }
  }

  /** Brings the gauges that follow from what was recorded up to now. */
  refresh(): void {
    this.#heartbeatAge.clear();
    if (this.#beats.size > 0) {
      const oldest = Math.min(...this.#beats.values());
      this.#heartbeatAge.at().set((performance.now() - oldest) / 1000);
    }
    this.#owned.clear();
    for (const shares of this.#shares.values()) {
      for (const [queue, owned] of shares) this.#owned.at(queue).add(owned);
    }
  }

  /** Everything that a worker may count, at zero. */
  #makeSeries(handles: Readonly<Record<string, readonly string[]>>): void {
    for (const [queue, types] of Object.entries(handles)) {
      for (const type of types) this.#pair(queue, type);
      this.#recovered.at(queue);
      this.#pruned.at(queue);
      this.#scheduled.at(queue);
      this.#scheduleSkipped.at(queue);
      this.#scheduleMissed.at(queue);
    }
  }

  #remove(workerId: string): void {
    this.#beats.delete(workerId);
    this.#shares.delete(workerId);
  }

  #pair(queue: string, type: string): Pair {
    const found = this.#pairs.get(queue)?.get(type);
    if (found) return found;
    // The same folding as in the families: all of them count a pair under the same name.
    if (this.#pairCount >= MAX_CELLS && type !== OTHER) return this.#pair(queue, OTHER);
    if (this.#pairCount >= 2 * MAX_CELLS && queue !== OTHER) return this.#pair(OTHER, OTHER);
    this.#pairCount++;
    const cells = Object.entries(this.#counters).map(([key, family]) => [
      key,
      family.at(queue, type),
    ]);
    const pair: Pair = {
      ...(Object.fromEntries(cells) as Record<JobCounter, NumberCell>),
      latency: this.#latency.at(queue, type),
      duration: this.#duration.at(queue, type),
    };
    const types = this.#pairs.get(queue) ?? new Map<string, Pair>();
    this.#pairs.set(queue, types.set(type, pair));
    return pair;
  }
}
