export { CATALOGUE } from './catalogue.js';
export { metricsFetch, metricsHandler } from './handler.js';
export { type MetricsApi, meterMetrics } from './meter.js';
export {
  collectMetrics,
  type Metrics,
  type MetricsOptions,
  type MetricsSource,
} from './metrics.js';
export { type PromClientRegistry, registerMetrics } from './prom-client.js';
export type { MetricDefinition, MetricKind } from './registry.js';
