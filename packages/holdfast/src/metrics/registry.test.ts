import { expect, test } from 'vitest';
import { readScrape } from '../../../../test/support/prometheus.js';
import { Collector } from './collect.js';
import { exposition } from './exposition.js';
import { MAX_CELLS, type MetricDefinition, Registry } from './registry.js';

const define = (labels: string[], more: Partial<MetricDefinition> = {}): MetricDefinition => ({
  name: 'things_total',
  kind: 'counter',
  help: 'Things.',
  labels,
  ...more,
});

test('any text is a label value: backslashes, quotes and line ends come back as they were', () => {
  const registry = new Registry();
  const values = ['plain', 'a "quoted" \\ one', 'two\nlines', '', 'naïve ☃ 𝒳', '{}=,', '\\n'];
  const family = registry.add(define(['what'], { help: 'One\nof two lines, with a \\.' }));
  for (const [index, value] of values.entries()) family.at(value).add(index);
  const scrape = readScrape(exposition(registry));
  expect(scrape.help.get('things_total')).toBe('One\\nof two lines, with a \\\\.');
  expect(values.map((what) => scrape.value('things_total', { what }))).toEqual([
    0, 1, 2, 3, 4, 5, 6,
  ]);
});

test('a histogram counts each value in the bucket whose bound it does not exceed', () => {
  const registry = new Registry();
  const definition = define(['what'], {
    name: 'wait_seconds',
    kind: 'histogram',
    buckets: [0.1, 1],
  });
  const cell = registry.add({ ...definition, kind: 'histogram' } as const).at('x');
  for (const seconds of [0, 0.1, 0.2, 1, 1.5, 600, -3]) cell.observe(seconds);
  const scrape = readScrape(exposition(registry));
  const bucket = (le: string) => scrape.value('wait_seconds_bucket', { what: 'x', le });
  expect([bucket('0.1'), bucket('1'), bucket('+Inf')]).toEqual([3, 5, 7]);
  expect(scrape.value('wait_seconds_sum', { what: 'x' })).toBeCloseTo(602.8);
});

test('a metric that has nothing to say yet is left out', () => {
  const registry = new Registry();
  registry.add(define(['what']));
  expect(exposition(registry)).toBe('');
});

test('however many queues and types there are, the series are bounded and nothing goes uncounted', () => {
  const registry = new Registry();
  const collector = new Collector(registry);
  const started = (queue: string, type: string) =>
    collector.record({ kind: 'started-job', queue, type, id: 'x', generation: 1, waitedMs: 5 });
  for (let type = 0; type < 10_000; type++) started('inbox', `type_${type}`);
  for (let queue = 0; queue < 1_000; queue++) started(`queue_${queue}`, 'one_more');
  started('inbox', 'type_0');

  const scrape = readScrape(exposition(registry));
  const series = scrape.samples.filter(({ name }) => name === 'holdfast_jobs_started_total');
  expect(series.length).toBeLessThanOrEqual(2 * MAX_CELLS + 1);
  expect(series.reduce((sum, { value }) => sum + value, 0)).toBe(11_001);
  expect(scrape.value('holdfast_jobs_started_total', { queue: 'inbox', type: 'type_0' })).toBe(2);
  expect(scrape.value('holdfast_jobs_started_total', { queue: 'inbox', type: 'other' })).toBe(
    10_000 - MAX_CELLS,
  );
  const other = scrape.value('holdfast_jobs_started_total', { queue: 'other', type: 'other' });
  expect(other).toBeGreaterThan(800);
  // The pair is folded alike in every metric.
  const labels = (name: string) =>
    scrape.samples.filter((one) => one.name === name).map((one) => one.labels);
  expect(labels('holdfast_job_latency_seconds_count')).toEqual(
    labels('holdfast_jobs_started_total'),
  );
  expect(scrape.samples.length).toBeLessThan(15_000);
});
