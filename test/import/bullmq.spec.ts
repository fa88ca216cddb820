/** `holdfast import bullmq`, from queues that the real BullMQ of each version filled. It is found where a user has it. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { META } from '../../packages/holdfast/src/cli/commands/import/sources/bullmq.js';
import * as fields from '../../packages/holdfast/src/cli/commands/import/sources/bullmq-job.js';
import type { Fields } from '../../packages/holdfast/src/cli/commands/import/sources/fields.js';
import { type Ran, run } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import type { BullMQ, Queue } from './bullmq.js';
import { declarationsIn, membersOf } from './columns.js';
import { done } from './ground.js';
import { freePort, hasRedis, type Redis, startRedis } from './redis.js';

const MODULES = fileURLToPath(new URL('node_modules', import.meta.url));

describe.skipIf(!hasRedis).each([5, 6])('BullMQ %i', (version) => {
  const db = testDatabase();
  let redis: Redis;
  let folder: string;
  let bull: BullMQ;
  let mail: Queue;
  const options = () => ({ connection: { url: redis.url, maxRetriesPerRequest: null } });
  const cli = (...args: string[]): Promise<Ran> =>
    run(['import', 'bullmq', '--url', db.url, '--from', redis.url, ...args], { cwd: folder });

  beforeAll(async () => {
    redis = await startRedis(await freePort());
    bull = await import(`bullmq-${version}`);
    folder = mkdtempSync(join(tmpdir(), 'holdfast-bullmq-'));
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(join(MODULES, `bullmq-${version}`), join(folder, 'node_modules/bullmq'));
    mail = new bull.Queue('mail', options());
  });
  beforeEach(async () => {
    await mail.obliterate({ force: true });
    await db.rows(
      'TRUNCATE holdfast.inbox, holdfast.inbox_idempotency, holdfast.inbox_unique, holdfast.schedules',
    );
  });
  afterAll(async () => {
    await mail?.close();
    await redis?.stop();
    if (folder) rmSync(folder, { recursive: true, force: true });
  });

  test('every field of a job arrives, and it leaves Redis', async () => {
    const failing = { attempts: 1 };
    await mail.add('failing', { n: 0 }, failing);
    const worker = new bull.Worker('mail', null, options());
    const dead = await worker.getNextJob('t');
    await dead.moveToFailed(new Error('no paper'), 't');
    await mail.add('active', { n: 1 });
    await worker.getNextJob('t');
    await worker.close(true);
    const before = Date.now();
    await mail.add(
      'receipt',
      { orderId: 9182 },
      { jobId: 'receipt-9182', attempts: 5, backoff: 1000 },
    );
    await mail.add('receipt', { orderId: 1 }, { delay: 3_600_000, deduplication: { id: 'one' } });
    await mail.add('receipt', { orderId: 2 }, { priority: 7 });
    await mail.upsertJobScheduler(
      'nightly',
      { pattern: '0 3 * * *', tz: 'Europe/Paris' },
      { name: 'report', data: { all: true }, opts: { attempts: 3 } },
    );
    await mail.upsertJobScheduler('often', { every: 60_000 }, { name: 'tick', data: {} });
    await mail.upsertJobScheduler(
      'thrice',
      { every: 3_600_000, limit: 3 },
      { name: 'limited', data: {} },
    );
    const flows = new bull.FlowProducer(options());
    await flows.add({
      name: 'parent',
      queueName: 'mail',
      data: {},
      children: [{ name: 'child', queueName: 'mail', data: {} }],
    });
    await flows.close();

    const dry = await done(cli('--map', 'mail/receipt=send_receipt', '--failed'));
    expect(dry).toMatch(/mail\/receipt +waiting +1 +send_receipt/);
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([]);
    const said = await done(cli('--map', 'mail/receipt=send_receipt', '--failed', '--yes'));
    expect(said).toContain('and 2 schedules moved');
    expect(said).toMatch(/mail +active +1 +- +runs there/);
    expect(said).toMatch(/mail +waiting-children +1 +- +waits for the children/);
    expect(said).toMatch(/mail\/child +waiting +1 +- +is a child of a flow/);
    expect(said).toMatch(/mail\/limited +schedule +1 +- +has a limit of runs/);
    const jobs = await db.rows<{ type: string; available_at: Date }>(`
      SELECT type, payload, priority, attempts, max_attempts, status, idempotency_key, last_error, available_at
      FROM holdfast.inbox WHERE type NOT IN ('tick') ORDER BY payload ->> 'orderId', type`);
    expect(jobs).toMatchObject([
      { type: 'send_receipt', payload: { orderId: 1 }, priority: 2 },
      { type: 'send_receipt', payload: { orderId: 2 }, priority: 3, max_attempts: 1 },
      {
        type: 'send_receipt',
        payload: { orderId: 9182 },
        idempotency_key: 'receipt-9182',
        max_attempts: 5,
        attempts: 0,
      },
      {
        type: 'failing',
        status: 'dead_letter',
        attempts: 1,
        last_error: expect.stringContaining('no paper'),
      },
    ]);
    expect(jobs[0]?.available_at.getTime()).toBeGreaterThanOrEqual(before + 3_600_000);
    expect(await db.rows('SELECT type, key FROM holdfast.inbox_unique')).toEqual([
      { type: 'send_receipt', key: 'one' },
    ]);
    expect(
      await db.rows(
        'SELECT name, type, cron, timezone, payload, max_attempts, extract(epoch FROM every)::int AS every FROM holdfast.schedules ORDER BY 1',
      ),
    ).toMatchObject([
      {
        name: 'report:nightly',
        type: 'report',
        cron: '0 3 * * *',
        timezone: 'Europe/Paris',
        payload: { all: true },
        max_attempts: 3,
      },
      { name: 'tick:often', type: 'tick', cron: null, every: 60 },
    ]);
    expect(await mail.getJobSchedulers()).toHaveLength(1);
    expect(await mail.getJobCounts()).toMatchObject({
      active: 1,
      failed: 0,
      prioritized: 0,
      'waiting-children': 1,
    });
  });

  test('no field and no option is unknown', async () => {
    const at = (path: string) => `bullmq-${version}/dist/esm/${path}.d.ts`;
    const declared = declarationsIn(
      ...[at('interfaces/base-job-options'), at('types/job-options'), at('interfaces/job-json')],
      ...[at('interfaces/job-scheduler-json'), at('types/job-json-sandbox')],
      at('interfaces/queue-meta'),
    );
    const unknown = (known: Fields, names: string[]) => {
      expect(names.length).toBeGreaterThan(3);
      return names.filter((name) => !known[name]);
    };
    const options = ['DefaultJobOptions', 'BaseJobOptions', 'CompressableJobOptions'];
    expect(unknown(fields.JOB_OPTIONS, membersOf(declared, options))).toEqual([]);
    const ofJob = membersOf(declared, ['JobJson', 'JobJsonSandbox']);
    expect(unknown(fields.JOB, ofJob)).toEqual([]);
    const ofScheduler = membersOf(declared, ['JobSchedulerJson']);
    expect(unknown(fields.SCHEDULER, ofScheduler)).toEqual([]);
    expect(unknown(META, membersOf(declared, ['QueueMeta']))).toEqual([]);
    await mail.add('a', {}, { jobId: 'mine', deduplication: { id: 'k', ttl: 60_000 } });
    const [found] = await mail.getJobs(['waiting'], 0, 9, true);
    expect(unknown(fields.JOB, Object.keys(found ?? {}))).toEqual([]);
    expect(unknown(fields.JOB, Object.keys(found?.asJSON() ?? {}))).toEqual([]);
  });

  test('what is not moved is said, with how many jobs have it, before and after', async () => {
    const metadata = JSON.stringify({ traceparent: '00-1-2-01', baggage: 'x' });
    const odd = {
      ...{ backoff: 1_000, removeOnComplete: true, removeOnFail: 10, keepLogs: 3, lifo: true },
      ...{ stackTraceLimit: 3, sizeLimit: 1_000, telemetry: { metadata } },
    };
    await mail.add('odd', { n: 1 }, { ...odd, deduplication: { id: 'k', ttl: 60_000 } });
    await mail.add('odd', { n: 2 }, odd);
    await mail.upsertJobScheduler(
      'often',
      { pattern: '0 3 * * *' },
      { name: 'tick', data: {}, opts: { backoff: 1_000, priority: 7 } },
    );
    await mail.setGlobalConcurrency(3);
    const { JOB, JOB_OPTIONS, TEMPLATE_OPTIONS } = fields;
    for (const args of [[], ['--yes']]) {
      const said = await done(cli('--only', 'mail', ...args));
      for (const name of Object.keys(odd)) {
        const { lost } = JOB_OPTIONS[name] ?? {};
        if (lost) expect(said).toContain(`Warning: 2 jobs: ${lost}.`);
      }
      expect(said).toContain(`2 jobs: ${JOB.timestamp?.lost}`);
      expect(said).toContain(`1 job: ${JOB_OPTIONS.deduplication?.lost}`);
      expect(said).toContain(`1 schedule: ${TEMPLATE_OPTIONS.backoff?.lost}`);
      expect(said).toContain(`1 schedule: ${TEMPLATE_OPTIONS.priority?.lost}`);
      expect(said).toContain(`1 queue: ${META.concurrency?.lost}`);
      expect(said).not.toContain('does not know the field');
    }
    // Those with lifo come in the order in which BullMQ would run them: the newest first.
    const jobs = `SELECT payload ->> 'n' AS n, headers FROM holdfast.inbox ORDER BY position`;
    const headers = { traceparent: '00-1-2-01' };
    expect(await db.rows(jobs)).toEqual([
      { n: '2', headers },
      { n: '1', headers },
    ]);
  });

  test('a parent whose children have ended stays: their results are in Redis', async () => {
    const flows = new bull.FlowProducer(options());
    const child = { name: 'child', queueName: 'mail', data: {} };
    await flows.add({ name: 'parent', queueName: 'mail', data: {}, children: [child] });
    await flows.close();
    const worker = new bull.Worker('mail', null, options());
    const job = await worker.getNextJob('t');
    await job.moveToCompleted('result', 't', false);
    await worker.close(true);
    const said = await done(cli('--yes'));
    expect(said).toMatch(/mail\/parent +waiting +1 +- +is the parent of a flow/);
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([]);
  });

  test('a run that died before it removed them doubles nothing', async () => {
    for (let n = 0; n < 25; n++) await mail.add('a', { n });
    expect(await done(cli('--yes', '--keep', '--batch', '10'))).toContain(
      '25 jobs and 0 schedules copied',
    );
    const again = await done(cli('--yes', '--batch', '10'));
    expect(again).toMatch(/a +waiting +25 +a +moved by an earlier import/);
    expect(await db.rows('SELECT count(*)::int AS n FROM holdfast.inbox')).toEqual([{ n: 25 }]);
    expect(await mail.getJobCounts()).toMatchObject({ waiting: 0 });
    const order = await db.rows<{ n: string }>(
      `SELECT payload ->> 'n' AS n FROM holdfast.inbox ORDER BY position`,
    );
    expect(order.map(({ n }) => Number(n))).toEqual([...Array(25).keys()]);
  });

  test('workers that could take a job in between are refused, unless their queue is paused', async () => {
    await mail.add('a', {});
    await mail.pause();
    const worker = new bull.Worker('mail', null, { ...options(), autorun: false });
    await worker.waitUntilReady();
    void worker.run().catch(() => undefined);
    await expect
      .poll(async () => (await cli()).err, { timeout: 20_000 })
      .toContain('is paused there');
    await mail.resume();
    expect(await cli('--yes')).toMatchObject({
      code: 1,
      err: expect.stringContaining('Workers of BullMQ are connected'),
    });
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([]);
    await worker.close(true);
  });

  test('no Redis, no BullMQ, no address: each is said', async () => {
    const base = ['import', 'bullmq', '--url', db.url];
    expect((await run(base, { cwd: folder })).err).toContain('Say where its Redis is');
    const port = await freePort();
    const none = await run([...base, '--from', `redis://127.0.0.1:${port}`], { cwd: folder });
    expect(none).toMatchObject({ code: 1, err: expect.stringContaining('Redis cannot be read') });
    const elsewhere = await run([...base, '--from', redis.url], { cwd: tmpdir() });
    expect(elsewhere).toMatchObject({
      code: 1,
      err: expect.stringContaining('npm install bullmq'),
    });
  });
});
