/** What metrics, traces, the doctor and explain say of runs. */
import * as api from '@opentelemetry/api';
import { beforeEach, expect, test } from 'vitest';
import { holdfast, workflow } from '../../packages/holdfast/src/index.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { clearAll, plantJob, plantWorker } from '../support/cli-plant.js';
import { testDatabase } from '../support/database.js';
import { examine } from '../support/doctor.js';
import { quietLogger } from '../support/logger.js';
import { plantWaiting } from '../support/plant-runs.js';
import { readScrape } from '../support/prometheus.js';
import { telemetryInMemory } from '../support/telemetry.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const spans = telemetryInMemory();
const DAY_MS = 24 * 3_600_000;

const billing = workflow<{ months: number }, { paid: string }>('billing', { maxAttempts: 1 });

beforeEach(async () => {
  await clearAll(db);
  await db.rows('TRUNCATE holdfast.inbox_steps, holdfast.inbox_signals');
});

test('each try of a step is a span in the trace of the enqueue, and a figure by its name', async () => {
  const hf = holdfast({ pool: db.pool, telemetry: api, logger: quietLogger });
  const metrics = collectMetrics(hf, { freshFor: 0 });
  let tries = 0;
  start(hf, (worker) =>
    worker.workflow(billing, async (flow, { months }) => {
      for (let n = 1; n <= months; n++) {
        await flow.step(
          `month ${n}`,
          () => {
            tries++;
            if (tries === 1) throw new Error('secret-4711');
            return n;
          },
          { retry: { base: 1, cap: 1 } },
        );
        await flow.wait(`payment ${n}`, 'paid');
      }
    }),
  );
  const { id } = await hf.enqueue(billing, { months: 2 });
  const waits = (name: string) =>
    until(`it waits for ${name}`, async () =>
      (await hf.runs({ state: 'waiting' })).runs.some((run) => run.waits[0]?.name === name),
    );
  await waits('payment 1');
  await hf.signal(billing, id, 'paid', 'visa');
  await waits('payment 2');

  const { traceId } = spans.only('send inbox').spanContext();
  const steps = spans.all().filter(({ name }) => name === 'step billing');
  expect(steps.map(({ attributes }) => attributes['messaging.holdfast.step.name'])).toEqual([
    ...['month 1', 'month 1', 'month 2'],
  ]);
  const turns = spans.all().filter(({ name }) => name === 'process inbox');
  expect(turns.length).toBeGreaterThanOrEqual(2);
  for (const span of [...steps, ...turns]) expect(span.spanContext().traceId).toBe(traceId);
  const [failed, done, later] = steps;
  const turnIds = turns.map((turn) => turn.spanContext().spanId);
  const parents = [failed, done, later].map((step) => step?.parentSpanContext?.spanId ?? '');
  expect(turnIds).toEqual(expect.arrayContaining(parents));
  expect(parents[2]).not.toBe(parents[0]);
  expect(failed?.attributes['error.type']).toBe('Error');
  expect(done?.attributes).toMatchObject({ 'messaging.holdfast.step.attempt': 2 });
  expect(JSON.stringify(steps.map(({ attributes }) => attributes))).not.toContain('4711');

  const scrape = readScrape(await metrics.text());
  const of = { queue: 'inbox', type: 'billing' };
  const step = { ...of, step: 'month #' };
  expect(scrape.value('holdfast_step_duration_seconds_count', step)).toBe(3);
  expect(scrape.value('holdfast_steps_failed_total', step)).toBe(1);
  expect(scrape.value('holdfast_runs', { ...of, state: 'waiting' })).toBe(1);
  expect(scrape.value('holdfast_runs', { ...of, state: 'running' })).toBeUndefined();
  expect(scrape.value('holdfast_oldest_wait_age_seconds', of)).toBeLessThan(30);
  metrics.close();
  await hf.close();
});

test('runs of a version nobody has a body for are a problem that names the version and the fix', async () => {
  const worker = await plantWorker(db, { handles: { inbox: { checkout: 3, mail: 2 } } });
  await db.rows(`UPDATE holdfast.workers SET workflows = '{"inbox": {"checkout": [2, 3]}}'`);
  const id = await plantJob(db, { type: 'checkout', version: 1, dueInMs: -600_000 });
  await plantJob(db, { type: 'checkout', version: 2, dueInMs: -1_000 });
  await plantJob(db, { type: 'mail', version: 1, dueInMs: -600_000 });
  const versions = async () =>
    (await examine(db.url, { compared: false })).filter(
      ({ check, level }) =>
        check === 'workflow versions' || (check === 'unhandled' && level !== 'ok'),
    );
  expect(await versions()).toEqual([
    expect.objectContaining({
      level: 'problem',
      text: expect.stringContaining('a body that no live worker has: checkout version 1 (10 min'),
      fix: expect.stringContaining('worker.workflow(checkout, { 1: body, … })'),
    }),
  ]);
  const { code, text, fix } = await db.hf.explain(id);
  expect({ code, text, fix }).toEqual({
    code: 'no_body',
    text: 'It is a run of version 1 of the workflow "checkout" and keeps it; the live workers have bodies of 2, 3.',
    fix: 'Start a worker with that body too: worker.workflow(checkout, { 1: body, … })',
  });
  await db.rows(`UPDATE holdfast.workers SET workflows = '{"inbox": {"checkout": [1, 2, 3]}}'`);
  expect(await versions()).toEqual([]);
  // By key workers claim it, and put it off again and again: it is never due for long.
  await db.hf.createQueue('lines', { ordering: 'key' });
  await db.rows(
    `UPDATE holdfast.workers SET handles = handles || '{"lines": {"checkout": 2}}', workflows = workflows || '{"lines": {"checkout": [2]}}'`,
  );
  await plantJob(db, { queue: 'lines', type: 'checkout', ageMs: 600_000, dueInMs: 20_000 });
  expect((await versions()).map(({ check }) => check)).toEqual(['workflow versions']);
  expect((await db.hf.workers())[0]).toMatchObject({
    id: worker,
    workflows: { inbox: { checkout: [1, 2, 3] }, lines: { checkout: [2] } },
  });
});

test('a run that waits for months without a time-out is a note, and one with a time-out is nothing', async () => {
  await plantWorker(db, { handles: { inbox: { checkout: 1 } } });
  await plantWaiting(db, { count: 2, sinceMs: 40 * DAY_MS, forMs: DAY_MS });
  await plantWaiting(db, { count: 2, sinceMs: 20 * DAY_MS });
  const notes = async () =>
    (await examine(db.url, { compared: false })).filter(({ check }) => check === 'waiting runs');
  expect(await notes()).toEqual([]);
  const [id] = await plantWaiting(db, { count: 1, sinceMs: 45 * DAY_MS });
  expect(await notes()).toEqual([
    expect.objectContaining({
      level: 'note',
      text: '1 run of "inbox" has waited for a signal for more than 30 days, the longest for 45 d, without a time-out.',
      fix: expect.stringContaining(`holdfast explain ${id} says what it waits for`),
    }),
  ]);
});

test('explain says what else a run may wait for: a time, its children, the next try of a step', async () => {
  await plantWorker(db, { handles: { inbox: { checkout: 1 } } });
  const [id] = await plantWaiting(db, { count: 1, sinceMs: 60_000, forMs: 3_600_000 });
  const set = (columns: string) => db.rows(`UPDATE holdfast.inbox_steps SET ${columns}`);
  const says = async () => (await db.hf.explain(id as string)).text.replace(/20\S+ \S+Z/g, 'T');
  expect(await says()).toMatch(
    /^It waits, and holds no worker: for the signal "approved" in step "approval", since T \(1 min.*\), until T \(in (1 h|59 min).*\)\.$/,
  );
  await set(`kind = 'z', value = NULL`);
  expect(await says()).toMatch(/: in step "approval", since T \(1 min.*\), until T \(in .*\)\.$/);
  await set(`kind = 'c', remaining = 3, value = '{"count": 10}'`);
  expect(await says()).toMatch(/: for 3 of 10 children of step "approval", since T \(1 min.*\)\.$/);
  await set(
    `kind = 's', remaining = NULL, value = NULL, attempt = 2, error = '{"message": "no card"}'`,
  );
  expect(await says()).toMatch(
    /: for the next try of step "approval", which failed 2 times \(no card\), at T \(in .*\)\.$/,
  );
  await set(`kind = 'u', name = chr(1) || 'charge'`);
  await db.rows(`UPDATE holdfast.inbox SET undo_asked = 'withdrawn'`);
  expect(await says()).toMatch(/^It undoes what it did\. It waits.* try of the undo of "charge"/);
});
