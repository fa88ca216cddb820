/** `holdfast import pg-boss`, from tables that the real pg-boss of each version made and filled. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testDatabase } from '../support/database.js';
import { done, importer } from './ground.js';

interface Boss {
  start(): Promise<unknown>;
  stop(options?: object): Promise<void>;
  createQueue(name: string, options?: object): Promise<unknown>;
  send(name: string, data: object | null, options?: object): Promise<string | null>;
  fetch(name: string, options?: object): Promise<{ id: string }[]>;
  fail(name: string, id: string, data?: object): Promise<unknown>;
  schedule(name: string, cron: string, data?: object, options?: object): Promise<unknown>;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

async function bossOf(version: number, url: string): Promise<Boss> {
  const module = await import(`pg-boss-${version}`);
  const Boss = module.PgBoss ?? module.default;
  const boss = new Boss({ connectionString: url, supervise: false, schedule: false }) as Boss;
  boss.on('error', () => undefined);
  await boss.start();
  return boss;
}

describe.each([10, 11, 12])('pg-boss %i', (version) => {
  const db = testDatabase();
  const cli = importer(() => db.url, 'pg-boss');
  let boss: Boss;
  beforeAll(async () => {
    boss = await bossOf(version, db.url);
  });
  afterAll(async () => {
    await boss?.stop({ graceful: false });
  });

  test('every field of a job arrives, a dry run says so before, and a second run moves nothing', async () => {
    await boss.createQueue('receipt');
    const startAfter = new Date(Date.now() + 3_600_000);
    const full = await boss.send(
      'receipt',
      { orderId: 9182, big: '€' },
      { priority: 5, startAfter, singletonKey: 'receipt-9182', retryLimit: 6, retryDelay: 30 },
    );
    await boss.send('receipt', { orderId: 1 }, { retryLimit: 2, priority: 10 });
    const [taken] = await boss.fetch('receipt');
    await boss.fail('receipt', taken?.id as string, { message: 'no paper' });
    await boss.send('receipt', null);
    await boss.createQueue('pdf');
    await boss.send('pdf', { n: 1 }, { retryLimit: 0 });
    const [dead] = await boss.fetch('pdf');
    await boss.fail('pdf', dead?.id as string, { message: 'out of ink' });
    await boss.send('pdf', { n: 2 });
    const [running] = await boss.fetch('pdf');
    await boss.schedule(
      'receipt',
      '5 4 * * 1',
      { weekly: true },
      { tz: 'Europe/Paris', retryLimit: 1 },
    );

    const dry = await done(cli('--map', 'receipt=send_receipt', '--failed'));
    expect(dry).toContain('This would move 4 jobs and 1 schedule');
    expect(dry).toMatch(/pdf +active +1 +- +runs there/);
    expect(dry).toMatch(/receipt +retry +1 +send_receipt/);
    expect(dry).toContain('1 job: the retry delay');
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([]);
    const before = await db.rows('SELECT count(*)::int AS n FROM pgboss.job');
    const said = await done(cli('--map', 'receipt=send_receipt', '--failed', '--yes'));
    expect(said).toContain('4 jobs and 1 schedule moved; 1 job left there');

    const jobs = await db.rows(`
      SELECT type, payload, priority, attempts, max_attempts, status, idempotency_key, last_error,
        available_at, partition_key = id::text AS own_key
      FROM holdfast.inbox ORDER BY position`);
    expect(jobs).toMatchObject([
      {
        type: 'send_receipt',
        payload: { orderId: 1 },
        priority: 1,
        attempts: 1,
        max_attempts: 3,
        status: 'pending',
      },
      {
        ...{ type: 'send_receipt', payload: { orderId: 9182, big: '€' }, priority: 1, attempts: 0 },
        ...{ max_attempts: 7, idempotency_key: 'receipt-9182', own_key: true },
        available_at: startAfter,
      },
      { type: 'send_receipt', payload: {}, priority: 2, max_attempts: 3 },
      { type: 'pdf', status: 'dead_letter', attempts: 1, max_attempts: 1, payload: { n: 1 } },
    ]);
    expect(jobs[0]?.last_error).toContain('no paper');
    expect(jobs[3]?.last_error).toContain('out of ink');
    expect(await db.rows('SELECT id::text, state::text FROM pgboss.job')).toEqual([
      { id: running?.id, state: 'active' },
    ]);
    expect(before).toEqual([{ n: 5 }]);
    expect(
      await db.rows(
        'SELECT name, type, cron, timezone, max_attempts, payload FROM holdfast.schedules',
      ),
    ).toEqual([
      {
        name: 'send_receipt',
        type: 'send_receipt',
        cron: '5 4 * * 1',
        timezone: 'Europe/Paris',
        max_attempts: 2,
        payload: { weekly: true },
      },
    ]);
    expect(await db.rows('SELECT * FROM pgboss.schedule')).toEqual([]);
    expect(
      await db.rows('SELECT key FROM holdfast.inbox_idempotency WHERE key LIKE $1', [
        `import:pg-boss:${full} %`,
      ]),
    ).toHaveLength(1);
    expect(await done(cli('--failed', '--yes'))).toContain('0 jobs and 0 schedules moved');
  });

  test('who enqueues again under the singleton key finds the job that was moved', async () => {
    const { job } = await import('holdfast');
    const receipt = job<{ orderId: number; big: string }>('send_receipt');
    const again = await db.hf.enqueue(
      receipt,
      { orderId: 9182, big: '€' },
      { idempotencyKey: 'receipt-9182' },
    );
    expect(again.deduplicated).toBe(true);
  });
});
