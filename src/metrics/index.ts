export { CATALOGUE } from './catalogue.js';
export { metricsFetch, metricsHandler } from './handler.js';
export {
  collectMetrics,
  type Metrics,
  type MetricsOptions,
  type MetricsSource,
} from './metrics.js';
export type { MetricDefinition, MetricKind } from './registry.js';
