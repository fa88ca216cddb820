/** The part of docs/metrics.md that is made from the catalogue. */
import {
  DATABASE_METRICS,
  JOB_METRICS,
  PROCESS_METRICS,
  STEP_METRICS,
} from '../../packages/holdfast/src/metrics/catalogue.js';
import type { MetricDefinition } from '../../packages/holdfast/src/metrics/registry.js';

function line(metric: MetricDefinition, origin: string): string {
  const labels = metric.labels.map((label) => `\`${label}\``).join(', ');
  const buckets = metric.buckets
    ? ` Buckets: ${metric.buckets.map((bound) => `${bound}`).join(', ')} s.`
    : '';
  return `| \`${metric.name}\` | ${metric.kind} | ${labels} | ${origin} | ${metric.help}${buckets} |`;
}

export function metricsPart(): string {
  const counted = [JOB_METRICS, STEP_METRICS, PROCESS_METRICS].flatMap((part) =>
    Object.values<MetricDefinition>(part),
  );
  return [
    '| Metric | Kind | Labels | | Meaning |',
    '|---|---|---|---|---|',
    ...counted.map((metric) => line(metric, 'counted')),
    ...Object.values(DATABASE_METRICS).map((metric) => line(metric, 'read')),
  ].join('\n');
}
