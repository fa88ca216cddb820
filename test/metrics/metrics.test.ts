/** A scrape as Prometheus makes it, against a real queue: what it says is what is there. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { DeadLetter, holdfast, job } from '../../packages/holdfast/src/index.js';
import {
  CATALOGUE,
  collectMetrics,
  type Metrics,
  type MetricsOptions,
  metricsFetch,
  metricsHandler,
} from '../../packages/holdfast/src/metrics/index.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { readScrape, type Scrape } from '../support/prometheus.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const source = { onEvent: () => () => undefined, gauges: () => db.hf.gauges() };
const metricsOf = (options: MetricsOptions = {}) =>
  collectMetrics(source, { freshFor: 0, ...options });
const scrapeOf = async (metrics: Metrics): Promise<Scrape> => readScrape(await metrics.text());
const inbox = { queue: 'inbox' };

describe('the gauges of a queue with jobs in every state', () => {
  beforeAll(async () => {
    const receipt = job('send_receipt');
    await db.hf.enqueueMany(
      ['a', 'b', 'c', 'd', 'e'].map((key) => receipt.item({}, { partitionKey: key })),
    );
    const [one, two, three, four] = await claimAs(db.engine, 'w1', {
      types: ['send_receipt'],
      limit: 4,
    });
    const dead = [one!, two!].map((row) => ({ ...heldOf(row), error: 'no', summary: 'no' }));
    await deadLetter(db.engine, INBOX, 'w1', dead);
    await db.rows(
      `UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 minute' WHERE id = $1`,
      [three!.id],
    );
    expect(four).toBeDefined();
    await db.rows(`UPDATE holdfast.inbox SET available_at = now() - interval '90 seconds'
      WHERE status = 'pending'`);
    await db.hf.enqueue(receipt, {}, { delay: '1h' });
    await db.hf.createQueue('outbox');
    await db.hf.pause('outbox');
    await db.rows(`INSERT INTO holdfast.workers (id, status, last_seen_at) VALUES
      ('w1', 'alive', now() - interval '7 seconds'), ('w2', 'alive', now()),
      ('w3', 'draining', now()), ('w4', 'dead', now() - interval '1 hour')`);
  });

  test('are exact', async () => {
    const scrape = await scrapeOf(metricsOf());
    const counts = ['pending', 'due', 'processing', 'expired', 'dead_letter', 'estimated'].map(
      (name) => scrape.value(`holdfast_jobs_${name}`, inbox),
    );
    expect(counts).toEqual([2, 1, 2, 1, 2, 0]);
    const age = scrape.value('holdfast_oldest_pending_age_seconds', inbox);
    expect(age).toBeGreaterThanOrEqual(90);
    expect(age).toBeLessThan(150);
    expect(scrape.value('holdfast_queue_paused', inbox)).toBe(0);
    expect(scrape.value('holdfast_queue_paused', { queue: 'outbox' })).toBe(1);
    expect(scrape.value('holdfast_oldest_pending_age_seconds', { queue: 'outbox' })).toBe(0);
    expect(
      ['alive', 'draining', 'silent'].map((status) => scrape.value('holdfast_workers', { status })),
    ).toEqual([2, 1, 0]);
    expect(scrape.value('holdfast_worker_heartbeat_age_seconds')).toBeGreaterThanOrEqual(7);
    expect(scrape.value('holdfast_worker_heartbeat_age_seconds')).toBeLessThan(60);
    expect(scrape.value('holdfast_database_up')).toBe(1);
  });

  test('a worker counts as silent, and not as alive, beyond its own TTL', async () => {
    const beat = (ago: string) =>
      db.rows(`UPDATE holdfast.workers SET last_seen_at = now() - interval '${ago}',
        metadata = CASE id WHEN 'w2' THEN '{"ttlMs": 7200000}' ELSE '{}' END::jsonb`);
    onTestFinished(async () => void (await beat('7 seconds')));
    await beat('1 hour');
    const scrape = await scrapeOf(metricsOf());
    expect(
      ['alive', 'draining', 'silent'].map((status) => scrape.value('holdfast_workers', { status })),
    ).toEqual([1, 0, 2]);
  });

  test('due jobs that nobody handles are counted by type, until somebody does', async () => {
    const unhandled = async () =>
      (await scrapeOf(metricsOf())).samples
        .filter(({ name }) => name === 'holdfast_jobs_unhandled')
        .map(({ labels, value }) => ({ ...labels, value }));
    expect(await unhandled()).toEqual([{ ...inbox, type: 'send_receipt', value: 1 }]);
    await db.rows(
      `UPDATE holdfast.workers SET handles = '{"inbox": {"send_receipt": 1}}' WHERE id = 'w2'`,
    );
    expect(await unhandled()).toEqual([]);
  });

  test('that they could not be found out is said, and the other figures are there', async () => {
    await db.rows(
      `UPDATE holdfast.workers SET handles = '{"inbox": {"x": "one"}}' WHERE id = 'w2'`,
    );
    const scrape = await scrapeOf(metricsOf());
    expect(scrape.value('holdfast_scrape_error', { ...inbox, error: 'unhandled_22P02' })).toBe(1);
    expect(scrape.value('holdfast_jobs_pending', inbox)).toBe(2);
    expect(scrape.value('holdfast_database_up')).toBe(1);
  });

  test('are read once for all scrapes that come together, and not at all where nobody wants them', async () => {
    let readings = 0;
    const counted = {
      ...source,
      gauges: () => {
        readings++;
        return source.gauges();
      },
    };
    const shared = collectMetrics(counted, { freshFor: '1m' });
    await Promise.all([shared.text(), shared.text(), shared.text()]);
    await shared.text();
    expect(readings).toBe(1);
    const own = collectMetrics(counted, { database: false });
    expect(readScrape(await own.text()).value('holdfast_database_up')).toBeUndefined();
    expect(readings).toBe(1);
  });
});

test('of a large queue what waits is estimated, and it says so; what runs is exact', async () => {
  await db.hf.createQueue('large');
  await db.rows(`
    INSERT INTO holdfast.large (partition_bucket, type, partition_key, payload, available_at, parked)
    SELECT n % 1024, 'bulk', 'k' || n, '{}', now() - CASE n WHEN 31000 THEN interval '3 hours'
      ELSE interval '1 minute' END, false
    FROM generate_series(1, 60000) AS n;
    -- Counted now, and not by chance after the ANALYZE, which would double it.
    SELECT pg_stat_force_next_flush()`);
  await db.rows('ANALYZE holdfast.large');
  // Deep in the queue, behind due jobs that nobody handles.
  await db.rows(`UPDATE holdfast.large SET type = 'rare' WHERE position > 59950`);
  const names = { schema: 'holdfast', queue: 'large' };
  await claimAs(db.engine, 'w1', { types: ['rare'], limit: 50, names });
  await db.rows(`UPDATE holdfast.large SET lease_expires_at = now() - interval '1 s'
    WHERE position > 59980`);
  const scrape = await scrapeOf(metricsOf());
  const large = (name: string) => scrape.value(`holdfast_${name}`, { queue: 'large' });
  expect(large('jobs_estimated')).toBe(1);
  expect(large('jobs_pending')).toBeGreaterThan(54_000);
  expect(large('jobs_pending')).toBeLessThan(66_000);
  expect(large('jobs_due')).toBe(large('jobs_pending'));
  expect(large('jobs_processing')).toBe(50);
  expect(large('jobs_expired')).toBe(20);
  expect(large('oldest_pending_age_seconds')).toBeGreaterThanOrEqual(3 * 3_600);
  expect(large('oldest_pending_age_seconds')).toBeLessThan(3 * 3_600 + 120);
  await db.rows('TRUNCATE holdfast.large, holdfast.large_claims');
});

test('a database that is away is shown as such, beside what the process counted itself', async () => {
  const away = holdfast({ connectionString: 'postgres://x@127.0.0.1:1/x', logger: quietLogger });
  onTestFinished(() => away.close());
  const metrics = collectMetrics(away, { freshFor: 0 });
  metrics.record({ kind: 'enqueued', queue: 'inbox', type: 't', count: 3, deduplicated: 1 });
  const scrape = await scrapeOf(metrics);
  expect(scrape.value('holdfast_database_up')).toBe(0);
  expect(scrape.value('holdfast_jobs_pending', inbox)).toBeUndefined();
  expect(scrape.value('holdfast_jobs_enqueued_total', { queue: 'inbox', type: 't' })).toBe(2);
  expect(scrape.value('holdfast_jobs_deduplicated_total', { queue: 'inbox', type: 't' })).toBe(1);
});

test('a database that does not answer keeps a scrape for its time limit only', async () => {
  let asked = 0;
  const slow = {
    ...source,
    gauges: () => {
      asked++;
      return new Promise<never>(() => undefined);
    },
  };
  const metrics = collectMetrics(slow, { freshFor: 0, timeout: '50ms' });
  expect((await scrapeOf(metrics)).value('holdfast_database_up')).toBe(0);
  expect((await scrapeOf(metrics)).value('holdfast_database_up')).toBe(0);
  // What is under way is not asked again: a slow database does not collect questions.
  expect(asked).toBe(1);
});

describe('what a worker does', () => {
  test('is counted by queue and type, from the claim to the end', async () => {
    const good = job('metrics_good');
    const bad = job('metrics_bad', { maxAttempts: 1 });
    const idle = job('metrics_idle');
    const metrics = collectMetrics(db.hf, { freshFor: 0 });
    onTestFinished(() => metrics.close());
    await db.hf.enqueueMany([good.item({}), good.item({}), bad.item({})]);
    start(
      db.hf,
      (worker) =>
        worker
          .handle(good, () => undefined)
          .handle(idle, () => undefined)
          .handle(bad, () => {
            throw new DeadLetter('no');
          }),
      { heartbeat: '50ms', ttl: '10s' },
    );
    const of = (type: string) => ({ queue: 'inbox', type });
    const scrape = await until('the three jobs are counted as settled', async () => {
      const seen = await scrapeOf(metrics);
      const completed = seen.value('holdfast_jobs_completed_total', of('metrics_good'));
      const deadLetters = seen.value('holdfast_jobs_dead_lettered_total', of('metrics_bad'));
      const beat = seen.value('holdfast_heartbeat_age_seconds');
      return completed === 2 && deadLetters === 1 && beat !== undefined ? seen : null;
    });
    expect(scrape.value('holdfast_jobs_started_total', of('metrics_good'))).toBe(2);
    expect(scrape.value('holdfast_jobs_started_total', of('metrics_bad'))).toBe(1);
    // A type that was seen, or that is handled, has all of its series, at zero, for rates to start from.
    expect(scrape.value('holdfast_jobs_dead_lettered_total', of('metrics_idle'))).toBe(0);
    expect(scrape.value('holdfast_job_duration_seconds_count', of('metrics_idle'))).toBe(0);
    expect(scrape.value('holdfast_rows_pruned_total', inbox)).toBeDefined();
    const age = Date.now() / 1000 - (scrape.value('holdfast_start_time_seconds') as number);
    expect([age >= 0, age < 120]).toEqual([true, true]);
    expect(scrape.value('holdfast_jobs_failed_total', of('metrics_good'))).toBe(0);
    expect(scrape.value('holdfast_leases_lost_total', of('metrics_bad'))).toBe(0);
    expect(scrape.value('holdfast_jobs_enqueued_total', of('metrics_good'))).toBe(2);
    expect(scrape.value('holdfast_jobs_claimed_total', of('metrics_good'))).toBe(2);
    expect(scrape.value('holdfast_job_latency_seconds_count', of('metrics_good'))).toBe(2);
    expect(scrape.value('holdfast_job_duration_seconds_count', of('metrics_bad'))).toBe(1);
    for (const statement of ['claim', 'complete', 'dead_letter']) {
      const labels = { statement, queue: 'inbox' };
      expect(scrape.value('holdfast_statement_duration_seconds_count', labels)).toBeGreaterThan(0);
    }
    // A queue that is read by time has no ring.
    expect(scrape.value('holdfast_ring_owned_buckets', inbox)).toBeUndefined();
  });

  test('counts the jobs that it takes over from workers that are gone', async () => {
    const orphan = job('metrics_orphan');
    const metrics = collectMetrics(db.hf, { database: false });
    onTestFinished(() => metrics.close());
    await db.hf.enqueueMany([orphan.item({}), orphan.item({})]);
    await claimAs(db.engine, 'gone', { types: ['metrics_orphan'], limit: 1 });
    await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second'
      WHERE type = 'metrics_orphan' AND status = 'processing'`);
    start(db.hf, (worker) => worker.handle(orphan, () => undefined), { maintenance: '1h' });
    const labels = { queue: 'inbox', type: 'metrics_orphan' };
    const scrape = await until('both are completed', async () => {
      const seen = await scrapeOf(metrics);
      return seen.value('holdfast_jobs_completed_total', labels) === 2 ? seen : null;
    });
    expect(scrape.value('holdfast_jobs_recovered_total', inbox)).toBe(1);
  });

  test('its times become histograms, its heartbeats and its share of the ring gauges', async () => {
    const metrics = metricsOf({ database: false });
    const one = { queue: 'inbox', type: 't', id: 'x', generation: 1 };
    metrics.record({ kind: 'claimed', queue: 'inbox', count: 3, types: { t: 2, u: 1 }, taken: 1 });
    metrics.record({ kind: 'started-job', ...one, waitedMs: 40 });
    metrics.record({ kind: 'completed', ...one, ranMs: 1_500 });
    metrics.record({ kind: 'released', ...one });
    metrics.record({ kind: 'statement', queue: 'inbox', statement: 'claim', ms: 3 });
    metrics.record({ kind: 'maintained', queue: 'inbox', recovered: 2, pruned: 5 });
    metrics.record({ kind: 'heartbeat', workerId: 'w1' });
    metrics.record({ kind: 'ring', workerId: 'w1', queue: 'inbox', owned: 300 });
    metrics.record({ kind: 'ring', workerId: 'w2', queue: 'inbox', owned: 200 });
    metrics.record({ kind: 'ring', workerId: 'w1', queue: 'inbox', owned: 340 });
    metrics.record({ kind: 'error', what: 'x', error: new Error('x') });
    const scrape = await scrapeOf(metrics);
    const job = { queue: 'inbox', type: 't' };
    expect(scrape.value('holdfast_jobs_claimed_total', job)).toBe(2);
    expect(scrape.value('holdfast_job_latency_seconds_bucket', { ...job, le: '0.025' })).toBe(0);
    expect(scrape.value('holdfast_job_latency_seconds_bucket', { ...job, le: '0.05' })).toBe(1);
    expect(scrape.value('holdfast_job_duration_seconds_sum', job)).toBe(1.5);
    // What never ran has no duration.
    expect(scrape.value('holdfast_job_duration_seconds_count', job)).toBe(1);
    const claim = { statement: 'claim', queue: 'inbox' };
    expect(scrape.value('holdfast_statement_duration_seconds_count', claim)).toBe(1);
    expect(scrape.value('holdfast_jobs_recovered_total', inbox)).toBe(3);
    expect(scrape.value('holdfast_ring_owned_buckets', inbox)).toBe(540);
    expect(scrape.value('holdfast_heartbeat_age_seconds')).toBeLessThan(30);
    expect(scrape.value('holdfast_worker_errors_total')).toBe(1);

    metrics.record({ kind: 'reregistered', workerId: 'w1b', was: 'w1' });
    metrics.record({ kind: 'stopped', workerId: 'w2' });
    const after = await scrapeOf(metrics);
    expect(after.value('holdfast_worker_reregistrations_total')).toBe(1);
    expect(after.value('holdfast_ring_owned_buckets', inbox)).toBeUndefined();
    expect(after.value('holdfast_heartbeat_age_seconds')).toBeUndefined();
  });
});

describe('the handlers to mount', () => {
  const read = async (response: Response) => ({
    status: response.status,
    type: response.headers.get('content-type'),
    text: await response.text(),
  });

  test('one for node:http answers GET and HEAD, and nothing else', async () => {
    const server = createServer(metricsHandler(source));
    onTestFinished(() => void server.close());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`;
    const got = await read(await fetch(url));
    expect(got).toMatchObject({ status: 200, type: 'text/plain; version=0.0.4; charset=utf-8' });
    expect(readScrape(got.text).value('holdfast_database_up')).toBe(1);
    const head = await read(await fetch(url, { method: 'HEAD' }));
    expect(head).toEqual({ status: 200, type: got.type, text: '' });
    const post = await fetch(url, { method: 'POST', body: 'x' });
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });

  test('one for fetch says the same, and both may share what was collected', async () => {
    const metrics = metricsOf();
    metrics.record({ kind: 'enqueued', queue: 'inbox', type: 'shared', count: 1, deduplicated: 0 });
    const handle = metricsFetch(metrics);
    const got = await read(await handle(new Request('http://x/metrics')));
    expect(got.status).toBe(200);
    const labels = { queue: 'inbox', type: 'shared' };
    expect(readScrape(got.text).value('holdfast_jobs_enqueued_total', labels)).toBe(1);
    expect((await handle(new Request('http://x/', { method: 'DELETE' }))).status).toBe(405);
  });
});

test('names follow the rules of Prometheus: prefix, unit, _total for counters only', () => {
  expect(new Set(CATALOGUE.map(({ name }) => name)).size).toBe(CATALOGUE.length);
  for (const { name, kind, help, labels } of CATALOGUE) {
    expect(name).toMatch(/^holdfast_[a-z]+(_[a-z]+)*$/);
    expect([name, name.endsWith('_total')]).toEqual([name, kind === 'counter']);
    if (kind === 'histogram' || name.includes('_age')) expect(name).toMatch(/_seconds$/);
    expect(help).toMatch(/\.$/);
    const allowed = [
      'queue',
      'type',
      'step',
      'projection',
      'version',
      'state',
      'reason',
      'statement',
      'status',
      'error',
      'table',
    ];
    expect(labels.filter((label) => !allowed.includes(label))).toEqual([]);
  }
});

test('queues beyond the first hundred share a series: their jobs are added, their worst age is shown', async () => {
  const gauges = async () => {
    const { queues, ...rest } = await db.hf.gauges();
    const many = Array.from({ length: 103 }, (_, n) => ({
      ...queues[0]!,
      ...{ queue: `q${n}`, deadLetters: 2, oldestPendingMs: n === 101 ? 5_000 : 0 },
    }));
    return { ...rest, queues: many };
  };
  const metrics = collectMetrics({ ...source, gauges }, { freshFor: 0 });
  for (const scrape of [await scrapeOf(metrics), await scrapeOf(metrics)]) {
    expect(scrape.value('holdfast_jobs_dead_letter', { queue: 'q99' })).toBe(2);
    expect(scrape.value('holdfast_jobs_dead_letter', { queue: 'other' })).toBe(6);
    expect(scrape.value('holdfast_oldest_pending_age_seconds', { queue: 'other' })).toBe(5);
  }
});
