/** Metrics of one Holdfast. Nothing is counted before somebody makes one, so a process without metrics pays nothing for them. */
import type { Gauges } from '../inspect/queue/gauges.js';
import { type Duration, durationMs } from '../job/options/duration.js';
import { checkKnown, type Known } from '../job/options/known-options.js';
import type { WorkerEvent } from '../worker/events.js';
import { Collector } from './collect.js';
import { DatabaseGauges } from './database.js';
import { exposition } from './exposition.js';
import { Registry } from './registry.js';

/** What metrics need of a Holdfast. */
export interface MetricsSource {
  /** Calls the listener for every event of every worker and for every enqueue; returns how to stop. */
  onEvent(listener: (event: WorkerEvent) => void): () => void;
  /** As `hf.gauges()`. */
  gauges(): Promise<Gauges>;
  /** As `hf.migrationStates()`. Asked when the gauges take too long: it tells a slow database from one that is away. */
  migrationStates?(): Promise<unknown>;
}

/** What a metrics endpoint reads. */
export interface MetricsOptions {
  /** Read the queues' figures from the database at a scrape. Default true; one process is enough. */
  readonly database?: boolean;
  /** How long a reading of the database serves further scrapes. Default 5 s. */
  readonly freshFor?: Duration;
  /** How long a scrape waits for the database. Default 5 s. */
  readonly timeout?: Duration;
}

const OPTIONS = {
  database: true,
  freshFor: true,
  timeout: true,
} as const satisfies Known<MetricsOptions>;

/** The metrics of one process. */
export interface Metrics {
  /** Prometheus' exposition format 0.0.4. */
  text(): Promise<string>;
  /** Counts one event; for those who want to feed it themselves. */
  readonly record: (event: WorkerEvent) => void;
  /** Stops listening. */
  close(): void;
}

/** Fills a registry from everything that happens through this Holdfast. */
export function collectInto(registry: Registry, source: MetricsSource, options: MetricsOptions) {
  checkKnown(options, OPTIONS, 'Metrics', 'Nothing is collected.');
  const collector = new Collector(registry);
  const database =
    options.database === false
      ? null
      : new DatabaseGauges(registry, {
          read: () => source.gauges(),
          answers: async () => source.migrationStates?.() ?? Promise.reject(new Error('unknown')),
          freshMs: durationMs(options.freshFor ?? '5s', 'freshFor'),
          timeoutMs: durationMs(options.timeout ?? '5s', 'timeout', { min: 1 }),
        });
  const close = source.onEvent(collector.record);
  return {
    record: collector.record,
    async refresh() {
      await database?.refresh();
      collector.refresh();
    },
    close,
  };
}

/**
 * Collects the metrics of this process, to serve them as you like.
 * @example
 * const metrics = collectMetrics(hf);
 * console.log(await metrics.text());
 */
export function collectMetrics(source: MetricsSource, options: MetricsOptions = {}): Metrics {
  const registry = new Registry();
  const { record, refresh, close } = collectInto(registry, source, options);
  return {
    async text() {
      await refresh();
      return exposition(registry);
    },
    record,
    close,
  };
}
