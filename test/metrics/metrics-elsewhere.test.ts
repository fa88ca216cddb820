/** The metrics where an application has its own already: a registry of prom-client, a meter of OpenTelemetry. */
import {
  type HistogramMetricData,
  MeterProvider,
  type MetricData,
  MetricReader,
} from '@opentelemetry/sdk-metrics';
import { Counter, type OpenMetricsContentType, Registry } from 'prom-client';
import { expect, onTestFinished, test } from 'vitest';
import { DeadLetter, job } from '../../packages/holdfast/src/index.js';
import {
  CATALOGUE,
  collectMetrics,
  meterMetrics,
  registerMetrics,
} from '../../packages/holdfast/src/metrics/index.js';
import { testDatabase } from '../support/database.js';
import { readScrape } from '../support/prometheus.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const inbox = { queue: 'inbox' };

/** Two jobs that succeed and one that does not, all counted. */
async function live(name: string): Promise<{ queue: string; type: string }> {
  const good = job(`${name}_good`);
  const bad = job(`${name}_bad`);
  const { worker } = start(db.hf, (one) =>
    one
      .handle(good, () => undefined)
      .handle(job(`${name}_idle`), () => undefined)
      .handle(bad, () => {
        throw new DeadLetter('no');
      }),
  );
  await db.hf.enqueueMany([good.item({}), good.item({}), bad.item({})]);
  const { stats } = worker;
  await until('all have ended', () => stats.completed === 2 && stats.dead_letter === 1);
  return { queue: 'inbox', type: `${name}_good` };
}

test('prom-client: one scrape has theirs and ours, and says the same as our own page', async () => {
  const register = new Registry();
  register.setDefaultLabels({ app: 'shop' });
  new Counter({ name: 'requests_total', help: 'Theirs.', registers: [register] }).inc(7);
  const ours = collectMetrics(db.hf, { freshFor: '1m' });
  const registered = registerMetrics(db.hf, register, { freshFor: '1m' });
  onTestFinished(() => ours.close());
  const good = await live('prom');

  // It puts an empty line between metrics.
  const theirs = readScrape((await register.metrics()).replaceAll('\n\n', '\n'));
  expect(theirs.value('requests_total', { app: 'shop' })).toBe(7);
  const page = readScrape(await ours.text());
  const app = { app: 'shop' };
  expect(theirs.value('holdfast_jobs_completed_total', { ...good, ...app })).toBe(2);
  expect(theirs.value('holdfast_database_up', app)).toBe(1);
  // What is handled and has not run yet begins at 0.
  const idle = { ...inbox, type: 'prom_idle', ...app };
  expect(theirs.value('holdfast_jobs_dead_lettered_total', idle)).toBe(0);
  expect(theirs.value('holdfast_jobs_dead_letter', { ...inbox, ...app })).toBe(1);
  const bucket = { ...good, le: '+Inf' };
  expect(theirs.value('holdfast_job_duration_seconds_bucket', { ...bucket, ...app })).toBe(2);
  for (const { name, labels, value } of page.samples) {
    // Ages and the times of statements go on between two readings.
    if (!/^holdfast_jobs_|_(bucket|count)$/.test(name) || /statement/.test(name)) continue;
    expect([name, labels, theirs.value(name, { ...labels, ...app })]).toEqual([
      name,
      labels,
      value,
    ]);
  }
  // These have series only when something is wrong.
  const quiet = ['holdfast_jobs_unhandled', 'holdfast_grant_missing'];
  for (const { name, kind, help } of CATALOGUE.filter(({ name }) => !quiet.includes(name))) {
    expect([theirs.types.get(name), theirs.help.get(name)]).toEqual([kind, help]);
  }

  registered.close();
  expect(await register.metrics()).not.toContain('holdfast_');
});

test('prom-client: an OpenMetrics registry and a cluster get what they ask for', async () => {
  const register = new Registry<OpenMetricsContentType>();
  register.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  const source = { onEvent: () => () => undefined, gauges: () => db.hf.gauges() };
  const registered = registerMetrics(source, register);
  onTestFinished(() => registered.close());
  const text = await register.metrics();
  expect(text).toMatch(/^# TYPE holdfast_worker_errors counter\nholdfast_worker_errors_total 0$/m);
  register.resetMetrics();
  const [up] = (await register.getMetricsAsJSON()).filter(
    ({ name }) => name === 'holdfast_database_up',
  );
  expect(up).toMatchObject({ aggregator: 'max', values: [{ value: 1 }] });
  // Each process of a cluster counts its own.
  const own = await register.getSingleMetric('holdfast_ring_owned_buckets')?.get();
  expect(own).toMatchObject({ aggregator: 'sum' });
});

class Collecting extends MetricReader {
  protected async onForceFlush() {}
  protected async onShutdown() {}
  async byName(): Promise<Map<string, MetricData>> {
    const { resourceMetrics } = await this.collect();
    const all = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
    return new Map(all.map((metric) => [metric.descriptor.name, metric]));
  }
}

test('OpenTelemetry: instruments of every metric, with the labels as attributes', async () => {
  const reader = new Collecting();
  const provider = new MeterProvider({ readers: [reader] });
  onTestFinished(() => provider.shutdown());
  const metered = meterMetrics(db.hf, { metrics: provider }, { freshFor: 0 });
  const good = await live('otel');

  const metrics = await reader.byName();
  const valueIn = (all: typeof metrics, name: string, attributes: object) =>
    all
      .get(name)
      ?.dataPoints.find((point) => JSON.stringify(point.attributes) === JSON.stringify(attributes))
      ?.value;
  const value = (name: string, attributes: object) => valueIn(metrics, name, attributes);
  expect(value('holdfast.jobs_completed', good)).toBe(2);
  expect(value('holdfast.jobs_dead_letter', inbox)).toBeGreaterThanOrEqual(1);
  expect(value('holdfast.database_up', {})).toBe(1);
  expect(value('holdfast.jobs_dead_lettered', { ...inbox, type: 'otel_idle' })).toBe(0);
  const duration = metrics.get('holdfast.job_duration') as HistogramMetricData;
  expect(duration.descriptor).toMatchObject({ unit: 's' });
  const wanted = CATALOGUE.find(({ name }) => name === 'holdfast_job_duration_seconds');
  const point = duration.dataPoints.find(({ attributes }) => attributes.type === good.type);
  expect(point?.value).toMatchObject({ count: 2, buckets: { boundaries: wanted?.buckets } });
  // As an exporter for Prometheus writes the names, they are those of the catalogue.
  const exported = [...metrics.values()].map((metric) => {
    const { name, unit } = metric.descriptor;
    const total = 'isMonotonic' in metric && metric.isMonotonic ? '_total' : '';
    return `${name.replace('.', '_')}${unit === 's' ? '_seconds' : ''}${total}`;
  });
  const known = CATALOGUE.map(({ name }) => name);
  expect(exported.filter((name) => !known.includes(name))).toEqual([]);
  expect(exported.length).toBeGreaterThan(25);

  metered.close();
  await db.hf.enqueue(job('otel_good'), {});
  expect(valueIn(await reader.byName(), 'holdfast.jobs_enqueued', good)).toBe(2);
});
