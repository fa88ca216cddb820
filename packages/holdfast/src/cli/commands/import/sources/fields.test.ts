/**
 * Every field of a row of pg-boss, graphile-worker and BullMQ: it arrives, or the report says that it does not, or it
 * means nothing after the move. Which fields there are is looked up in the real tables by `npm run test:import`.
 */
import { describe, expect, test } from 'vitest';
import * as bull from './bullmq-job.js';
import { CRONTAB_OPTIONS, crontabOf } from './crontab.js';
import type { Fields } from './fields.js';
import * as graphile from './graphile-worker-row.js';
import * as boss from './pg-boss-row.js';

/** What a job becomes where the field has this value; for a lost or a moot one only its value. */
type Cases = Record<string, readonly [value: unknown, arrives?: object, beside?: object]>;

interface Mapped {
  readonly warnings: readonly string[];
}

/** Each field by itself, in a row that is otherwise empty: no other field may speak for it. */
function eachField<Row extends object, Result extends Mapped>(
  fields: Fields,
  base: Row,
  map: (row: Row) => Result,
  cases: Cases,
) {
  test('has a case for every field of the table, and no other', () => {
    expect(Object.keys(cases).sort()).toEqual(Object.keys(fields).sort());
  });
  test.each(Object.entries(cases))('%s', (name, [value, arrives, beside]) => {
    const { to, lost, moot } = fields[name] ?? {};
    expect([to ?? lost, moot].filter(Boolean), 'carried or lost, or moot').toHaveLength(1);
    const before = map({ ...base, ...beside });
    const { warnings, ...after } = map({ ...base, ...beside, [name]: value });
    const { warnings: earlier, ...rest } = before;
    if (arrives) {
      expect(to, 'where it goes').toBeDefined();
      expect(after).toMatchObject(arrives);
      expect(rest).not.toMatchObject(arrives);
    } else expect(to === undefined || lost !== undefined, 'a case without its arrival').toBe(true);
    if (lost) {
      expect(earlier).not.toContain(lost);
      expect(warnings).toContain(lost);
    }
    if (moot) expect(warnings).toEqual(earlier);
  });
  test('a field that the table does not name is said', () => {
    expect(map({ ...base, brand_new: 1 }).warnings.join()).toContain('brand_new" is not moved');
  });
}

/** The cases of the fields that mean nothing after the move. */
const moot = (fields: Fields) =>
  Object.fromEntries(
    Object.keys(fields)
      .filter((name) => fields[name]?.moot)
      .map((name) => [name, [name === 'opts' ? {} : 'x'] as const]),
  );

const TRACE = { traceparent: '00-1-2-01', tracestate: 'a=1' };

describe('a job of pg-boss', () => {
  const ID = '6f3c1c52-0f6e-4f6c-9f39-0d3c5d1a0001';
  const base = {
    ...{ name: 'a', state: 'created', policy: 'standard', priority: 0, retry_limit: 2 },
    ...{ retry_count: 0, start_after: '2026-01-01T00:00:00Z' },
  };
  const map = (job: Record<string, unknown>) => {
    const { id = 'none', data = {}, keep_until } = job;
    return boss.toJob({
      ...{ id: `${id} ${job.name}`, job: JSON.stringify(job), data: JSON.stringify(data) },
      lapsed: `${Date.parse(`${keep_until}`) < Date.now()}`,
    });
  };
  const keyed = { singleton_key: 'k' };
  eachField(boss.JOB, base, map, {
    id: [ID, { id: `${ID} a` }],
    name: ['b', { from: 'b', names: ['b'] }],
    priority: [7, { priority: 1 }],
    data: [{ n: 1 }, { payload: '{"n":1}' }],
    state: ['failed', { state: 'failed', dead: true }],
    retry_limit: [6, { maxAttempts: 7 }],
    retry_count: [2, { attempts: 3 }, { state: 'retry' }],
    retry_delay: [30],
    retry_backoff: [true],
    retry_delay_max: [300],
    expire_seconds: [60],
    expire_in: ['00:01:00'],
    deletion_seconds: [60],
    singleton_key: ['k', { once: { key: 'k', as: 'idempotency' } }],
    singleton_on: ['2026-01-01T00:00:00', { once: { key: 'k', as: 'pending' } }, keyed],
    group_id: ['tenant', { partitionKey: 'tenant' }],
    group_tier: ['gold'],
    start_after: ['2027-01-01T00:00:00Z', { runAt: '2027-01-01T00:00:00Z' }],
    created_on: ['2026-01-01T00:00:00Z'],
    started_on: ['2026-01-01T00:00:00Z'],
    completed_on: ['2026-01-01T00:00:00Z'],
    keep_until: ['2126-01-01T00:00:00Z'],
    output: [{ message: 'no paper' }, { error: 'no paper' }],
    dead_letter: ['other'],
    policy: ['brand_new'],
    heartbeat_on: ['2026-01-01T00:00:00Z'],
    heartbeat_seconds: [10],
    blocked: [true],
    blocking: [true],
    pending_dependencies: [1],
    source_name: ['a'],
    source_id: [ID],
    source_created_on: ['2026-01-01T00:00:00Z'],
    source_retry_count: [1],
    source_output: [{ message: 'x' }],
    source_root_id: [ID],
    trace_context: [{ ...TRACE, baggage: 'x' }, { headers: TRACE }],
    upsert_by_key: [true, { once: { key: 'k', as: 'pending' } }, keyed],
  });

  test.each([
    ['standard', 'k', null, { key: 'k', as: 'idempotency' }],
    ['standard', null, null, null],
    ['short', 'k', null, { key: 'k', as: 'pending' }],
    ['short', null, null, { key: 'a', as: 'pending' }],
    ['exclusive', 'k', null, { key: 'k', as: 'running' }],
    ['exclusive', null, null, { key: 'a', as: 'running' }],
    ['singleton', 'k', 'k', null],
    ['singleton', null, 'a', null],
    ['stately', 'k', 'k', { key: 'k', as: 'pending' }],
    ['stately', '', 'a', { key: 'a', as: 'pending' }],
    ['key_strict_fifo', 'k', 'k', null],
  ])('the policy %s with the key %s', (policy, singleton_key, partitionKey, once) => {
    expect(map({ ...base, policy, singleton_key })).toMatchObject({ partitionKey, once });
    if (policy !== 'exclusive' && policy !== 'standard')
      expect(map({ ...base, policy, singleton_key, state: 'retry' }).once).toBeNull();
  });

  test.each([
    [{ blocked: true }, 'waits for other jobs of a flow'],
    [{ blocking: true }, 'other jobs of a flow wait for it'],
    [{ keep_until: '2001-01-01T00:00:00Z' }, 'pg-boss deletes it unrun: its keep_until is over'],
    [{}, null],
  ])('one with %o stays', (more, stays) => {
    expect(map({ ...base, ...more }).stays).toBe(stays);
  });

  test('the values that pg-boss gives by itself lose nothing', () => {
    const usual = {
      ...{ expire_seconds: 900, expire_in: '00:15:00', deletion_seconds: 604_800 },
      ...{ keep_until: '2026-01-15T00:00:00Z', retry_delay: 0, retry_backoff: false },
      trace_context: TRACE,
    };
    expect(map({ ...base, ...usual }).warnings).toEqual([]);
  });
});

describe('a schedule of pg-boss', () => {
  const base = { name: 'a', cron: '0 3 * * *', timezone: 'UTC', key: '', options: null };
  const map = (schedule: object) =>
    boss.toSchedule({ schedule: JSON.stringify(schedule), retry_limit: '2' });
  eachField(boss.SCHEDULE, base, map, {
    name: ['b', { from: 'b' }],
    key: ['k', { suffix: 'k' }],
    kind: ['rrule'],
    cron: ['0 4 * * *', { cron: '0 4 * * *' }],
    timezone: ['Europe/Paris', { timezone: 'Europe/Paris' }],
    data: [{ n: 1 }, { payload: { n: 1 } }],
    options: [{ retryLimit: 6 }, { maxAttempts: 7 }],
    created_on: ['2026-01-01T00:00:00Z'],
    updated_on: ['2026-01-01T00:00:00Z'],
    last_job_id: ['6f3c1c52-0f6e-4f6c-9f39-0d3c5d1a0001'],
  });
  const lost = Object.keys(boss.SCHEDULE_OPTIONS).filter(
    (name) => !boss.SCHEDULE_OPTIONS[name]?.to,
  );
  describe('with an option', () => {
    eachField(boss.SCHEDULE_OPTIONS, {}, (options) => map({ ...base, options }), {
      ...Object.fromEntries(lost.map((name) => [name, [1] as const])),
      missed: ['once', { catchUp: 'last' }],
      priority: [-7, { priority: 3 }],
      retryLimit: [6, { maxAttempts: 7 }],
      group: [{ id: 'tenant', tier: 'gold' }, { partitionKey: 'tenant' }],
    });
  });
  test('without a retryLimit its queue has one, and an RRULE stays', () => {
    expect(map(base)).toMatchObject({ maxAttempts: 3, stays: null });
    expect(map({ ...base, kind: 'rrule' }).stays).toContain('RRULE');
  });
});

describe('a job of graphile-worker', () => {
  const base = { priority: 0, attempts: 0, max_attempts: 25, run_at: '2026-01-01T00:00:00Z' };
  const map = (job: Record<string, unknown>) =>
    graphile.toJob({
      ...{ id: `${job.id ?? 1}`, identifier: `task ${job.task_id}`, job: JSON.stringify(job) },
      data: JSON.stringify(job.payload ?? {}),
      queue_name: job.job_queue_id === undefined ? null : `queue ${job.job_queue_id}`,
      queue_locked: null,
    });
  eachField(graphile.JOB, base, map, {
    id: [7, { id: '7' }],
    job_queue_id: [7, { partitionKey: 'queue 7' }],
    task_id: [7, { from: 'task 7', names: ['task 7'] }],
    payload: [{ n: 1 }, { payload: '{"n":1}' }],
    priority: [-7, { priority: 1 }],
    run_at: ['2027-01-01T00:00:00Z', { runAt: '2027-01-01T00:00:00Z' }],
    attempts: [3, { attempts: 3, state: 'retry' }],
    max_attempts: [7, { maxAttempts: 7 }],
    last_error: ['no paper', { error: 'no paper' }],
    created_at: ['2026-01-01T00:00:00Z'],
    updated_at: ['2026-01-01T00:00:00Z'],
    key: ['k', { once: { key: 'k', as: 'pending' } }],
    locked_at: ['2026-01-01T00:00:00Z'],
    locked_by: ['w'],
    revision: [3],
    flags: [{ slow: true }],
    is_available: [true],
  });
});

describe('a line of a crontab', () => {
  const map = (options: object) => {
    const given = new URLSearchParams(options as Record<string, string>);
    const [one] = crontabOf(`0 4 * * * task ${given.size > 0 ? `?${given}` : ''}`);
    return one as NonNullable<typeof one>;
  };
  eachField(CRONTAB_OPTIONS, {}, map, {
    id: ['k', { suffix: 'k' }],
    fill: ['1d', { catchUp: 'all' }],
    max: ['3', { maxAttempts: 3 }],
    queue: ['q', { partitionKey: 'q' }],
    priority: ['-7', { priority: 1 }],
    jobKey: ['k'],
    jobKeyMode: ['replace'],
  });
});

describe('a job of BullMQ', () => {
  const base = {
    ...{ id: '1', name: 'a', data: {}, opts: {}, timestamp: 0, delay: 0, priority: 0 },
    attemptsMade: 0,
  };
  const map = (job: object, state = 'waiting') =>
    bull.toJob(
      { queue: 'q', state, job: job as unknown as bull.BullJob, children: 0 },
      1_000,
      new Set(),
    );
  eachField(bull.JOB, base, map, {
    ...moot(bull.JOB),
    id: ['mine', { id: 'q:mine', once: { key: 'mine', as: 'idempotency' } }],
    name: ['b', { from: 'q/b', names: ['q/b', 'b'] }],
    data: [{ n: 1 }, { payload: '{"n":1}' }],
    timestamp: [86_400_000, { runAt: '1970-01-02T00:00:00.000Z' }],
    delay: [86_400_000, { runAt: '1970-01-02T00:00:00.000Z' }],
    priority: [7, { priority: 3 }],
    attemptsMade: [3, { attempts: 3 }],
    attemptsStarted: [3],
    stalledCounter: [1],
    failedReason: ['no paper', { error: 'no paper' }],
    stacktrace: [['no paper\n at x'], { error: 'no paper\n at x' }],
    progress: [50],
    processedOn: [1],
    finishedOn: [1],
    processedBy: ['w'],
    deduplicationId: ['k', { once: { key: 'k', as: 'running' } }],
  });
  describe('with an option', () => {
    const withOption = (opts: object) => map({ ...base, opts });
    const metadata = JSON.stringify({ ...TRACE, baggage: 'x' });
    eachField(bull.JOB_OPTIONS, {}, withOption, {
      ...moot(bull.JOB_OPTIONS),
      attempts: [7, { maxAttempts: 7 }],
      backoff: [{ type: 'fixed', delay: 1 }],
      removeOnComplete: [false],
      removeOnFail: [10],
      keepLogs: [3],
      stackTraceLimit: [3],
      sizeLimit: [3],
      telemetry: [{ metadata }, { headers: TRACE }],
      deduplication: [{ id: 'k', ttl: 1 }, { once: { key: 'k', as: 'running' } }],
      debounce: [{ id: 'k', ttl: 1 }],
    });
  });

  test.each([
    [{ parentKey: 'bull:q:1' }, 'is a child of a flow'],
    [{ deferredFailure: 'x' }, 'BullMQ is about to fail it: a job of its flow failed'],
    [{ repeatJobKey: 'nightly' }, null],
  ])('one with %o stays', (more, stays) => {
    expect(map({ ...base, ...more }).stays).toBe(stays);
    if (stays === null) expect(map({ ...base, ...more }, 'delayed').stays).toContain('scheduler');
  });
});

describe('a scheduler of BullMQ', () => {
  const base = { key: 'k', name: 'a', pattern: '0 3 * * *' };
  const every = { pattern: undefined };
  eachField(bull.SCHEDULER, base, (one) => bull.toSchedule('q', one), {
    key: ['other', { suffix: 'other' }],
    id: ['k'],
    name: ['b', { from: 'q/b', names: ['q/b', 'b'] }],
    pattern: ['0 4 * * *', { cron: '0 4 * * *' }],
    every: [60_000, { everyMs: 60_000 }, every],
    tz: ['Europe/Paris', { timezone: 'Europe/Paris' }],
    limit: [3],
    startDate: [4_102_444_800_000],
    endDate: [4_102_444_800_000],
    iterationCount: [3],
    next: [1],
    offset: [1],
    template: [{ data: '{}' }],
  });
  const inTemplate = (opts: object) => bull.toSchedule('q', { ...base, template: { opts } });
  describe('with an option of its template', () => {
    eachField(bull.TEMPLATE_OPTIONS, {}, inTemplate, {
      ...moot(bull.TEMPLATE_OPTIONS),
      attempts: [7, { maxAttempts: 7 }],
      priority: [7, { priority: 3 }],
      backoff: [1],
      removeOnComplete: [true],
      removeOnFail: [true],
      keepLogs: [3],
      stackTraceLimit: [3],
      sizeLimit: [3],
      telemetry: [{ metadata: '{}' }],
      deduplication: [{ id: 'k' }],
      debounce: [{ id: 'k' }],
    });
  });
  test.each(['limit', 'startDate', 'endDate'])('one with %s stays', (name) => {
    expect(bull.toSchedule('q', { ...base, [name]: 4_102_444_800_000 }).stays).not.toBeNull();
  });
});
