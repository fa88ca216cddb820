/**
 * The metrics as instruments of an OpenTelemetry meter; `@opentelemetry/api` is handed in and not imported. Counters and
 * gauges are observed when the reader of the SDK collects; times are recorded as they happen, because OpenTelemetry cannot
 * observe a histogram. A name has a dot after `holdfast` and neither `_total` nor a unit: an exporter for Prometheus adds
 * both, and the dashboard and the alerts find the names that they know.
 */
import { VERSION } from '../job/options/version.js';
import { collectInto, type MetricsOptions, type MetricsSource } from './metrics.js';
import {
  type Family,
  HistogramCell,
  labelsOf,
  type MetricDefinition,
  type NumberCell,
  Registry,
} from './registry.js';

type Attributes = Record<string, string>;
/** Opaque: made by the meter, and only handed back to it. */
type Observable = object;
type Observe = (result: ObservableResult) => Promise<void>;

interface ObservableResult {
  observe(instrument: Observable, value: number, attributes?: Attributes): void;
}

interface InstrumentOptions {
  readonly description: string;
  readonly unit?: string;
  readonly advice?: { explicitBucketBoundaries?: number[] };
}

interface Meter {
  createHistogram(
    name: string,
    options?: InstrumentOptions,
  ): { record(value: number, attributes?: Attributes): void };
  createObservableCounter(name: string, options?: InstrumentOptions): Observable;
  createObservableGauge(name: string, options?: InstrumentOptions): Observable;
  addBatchObservableCallback(observe: Observe, instruments: Observable[]): void;
  removeBatchObservableCallback(observe: Observe, instruments: Observable[]): void;
}

/** The part of `@opentelemetry/api` that is used. */
export interface MetricsApi {
  /** `metrics` of `@opentelemetry/api`. */
  readonly metrics: { getMeter(name: string, version?: string): unknown };
}

/**
 * Reports the metrics through OpenTelemetry until you call `close()`.
 * @example const { close } = meterMetrics(hf, await import('@opentelemetry/api'));
 */
export function meterMetrics(
  source: MetricsSource,
  telemetry: MetricsApi,
  options: MetricsOptions = {},
): { close(): void } {
  const meter = telemetry.metrics.getMeter('holdfast', VERSION) as Meter;
  const registry = new Registry(recordingHistograms(meter));
  const { refresh, close } = collectInto(registry, source, options);
  const observed = registry
    .families()
    .filter(({ definition }) => definition.kind !== 'histogram')
    .map((family) => ({ family: family as Family<NumberCell>, instrument: make(meter, family) }));
  const instruments = observed.map(({ instrument }) => instrument);
  const observe: Observe = async (result) => {
    await refresh();
    for (const { family, instrument } of observed) {
      for (const { values, cell } of family.series())
        result.observe(instrument, cell.value, labelsOf(family.definition, values));
    }
  };
  meter.addBatchObservableCallback(observe, instruments);
  return {
    close() {
      close();
      meter.removeBatchObservableCallback(observe, instruments);
    },
  };
}

function make(meter: Meter, { definition }: Family): Observable {
  const { name, options } = instrumentOf(definition);
  return definition.kind === 'counter'
    ? meter.createObservableCounter(name, options)
    : meter.createObservableGauge(name, options);
}

function instrumentOf({ name, help, buckets }: MetricDefinition) {
  const options: InstrumentOptions = {
    description: help,
    ...(name.endsWith('_seconds') && { unit: 's' }),
    ...(buckets && { advice: { explicitBucketBoundaries: [...buckets] } }),
  };
  return { name: name.replace('holdfast_', 'holdfast.').replace(/_(total|seconds)$/, ''), options };
}

/** One instrument for a metric, however many series it has. */
function recordingHistograms(meter: Meter) {
  const instruments = new Map<string, ReturnType<Meter['createHistogram']>>();
  return (definition: MetricDefinition, values: readonly string[]): HistogramCell => {
    const { name, options } = instrumentOf(definition);
    const instrument = instruments.get(name) ?? meter.createHistogram(name, options);
    instruments.set(name, instrument);
    const attributes = labelsOf(definition, values);
    return new RecordingCell((seconds) => instrument.record(seconds, attributes));
  };
}

/** Keeps nothing: the SDK does. */
class RecordingCell extends HistogramCell {
  readonly #record: (seconds: number) => void;

  constructor(record: (seconds: number) => void) {
    super([]);
    this.#record = record;
  }

  override observe(seconds: number): void {
    this.#record(Math.max(seconds, 0));
  }
}
