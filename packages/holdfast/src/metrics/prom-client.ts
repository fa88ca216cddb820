/**
 * The metrics in a registry of prom-client that an application has: one `/metrics` for all. prom-client is known by its shape
 * and not imported. What the registry adds (default labels) and removes (`clear`) applies.
 */
import { PROCESS_METRICS } from './catalogue.js';
import { collectInto, type MetricsOptions, type MetricsSource } from './metrics.js';
import { type Family, HistogramCell, labelsOf, Registry } from './registry.js';

interface PromValue {
  readonly value: number;
  readonly labels: Record<string, string | number>;
  readonly metricName?: string;
}

interface PromFacts {
  /** An OpenMetrics registry takes its `_total` off, and adds it again itself. */
  name: string;
  readonly help: string;
  readonly type: string;
  readonly aggregator: 'sum' | 'max' | 'min';
}

interface PromMetric extends PromFacts {
  get(): Promise<PromFacts & { values: PromValue[] }>;
  reset(): void;
}

/** The part of prom-client's Registry that is used. */
export interface PromClientRegistry {
  // Declared with prom-client's own classes; its registry calls only their `get` and `reset`.
  registerMetric(metric: never): void;
  removeSingleMetric(name: string): void;
}

/**
 * Adds the metrics to a registry of prom-client until you call `close()`.
 * @example const { close } = registerMetrics(hf, register);
 */
export function registerMetrics(
  source: MetricsSource,
  register: PromClientRegistry,
  options: MetricsOptions = {},
): { close(): void } {
  const registry = new Registry();
  const { refresh, close } = collectInto(registry, source, options);
  // A scrape asks every metric; they share one refresh.
  let refreshing: Promise<void> | null = null;
  const refreshed = () => {
    refreshing ??= refresh().finally(() => {
      refreshing = null;
    });
    return refreshing;
  };
  const metrics = registry.families().map((family) => metricOf(family, refreshed));
  for (const metric of metrics) register.registerMetric(metric as never);
  return {
    close() {
      close();
      for (const { definition } of registry.families())
        register.removeSingleMetric(definition.name);
    },
  };
}

function metricOf(family: Family, refreshed: () => Promise<void>): PromMetric {
  const { name, help, kind: type } = family.definition;
  const aggregator = aggregatorOf(family);
  const metric: PromMetric = {
    ...{ name, help, type, aggregator },
    async get() {
      await refreshed();
      return { name: metric.name, help, type, aggregator, values: valuesOf(family) };
    },
    // Counters that begin again at zero would only look like a restart.
    reset() {},
  };
  return metric;
}

/** How a cluster makes one series of those of its processes. What the database says is the same in all of them. */
function aggregatorOf({ definition }: Family): PromFacts['aggregator'] {
  if (definition.kind !== 'gauge') return 'sum';
  // Each process counts those of its own workers.
  if (definition === PROCESS_METRICS.ring_owned_buckets) return 'sum';
  // Counters that are summed are as old as the oldest of them.
  return definition === PROCESS_METRICS.start_time_seconds ? 'min' : 'max';
}

function valuesOf(family: Family): PromValue[] {
  const { definition } = family;
  return [...family.series()].flatMap(({ values, cell }) => {
    const labels = labelsOf(definition, values);
    if (!(cell instanceof HistogramCell)) return [{ value: cell.value, labels }];
    return histogramValues(definition.name, labels, cell);
  });
}

function histogramValues(
  name: string,
  labels: Record<string, string>,
  { bounds, counts, sum }: HistogramCell,
): PromValue[] {
  let cumulative = 0;
  const buckets = counts.map((count, index) => {
    cumulative += count;
    const le = bounds[index] ?? '+Inf';
    return { value: cumulative, labels: { ...labels, le }, metricName: `${name}_bucket` };
  });
  return [
    ...buckets,
    { value: sum, labels, metricName: `${name}_sum` },
    { value: cumulative, labels, metricName: `${name}_count` },
  ];
}
