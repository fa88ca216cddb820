/** `holdfast import pg-boss`, from tables that the real pg-boss of each version made and filled. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Fields } from '../../packages/holdfast/src/cli/commands/import/sources/fields.js';
import * as fields from '../../packages/holdfast/src/cli/commands/import/sources/pg-boss-row.js';
import { testDatabase } from '../support/database.js';
import { COLUMNS, declarationsIn, membersOf } from './columns.js';
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

/** What the versions have, all together. */
const seen = { job: new Set<string>(), queue: new Set<string>(), schedule: new Set<string>() };
const OF_TABLE = { job: fields.JOB, queue: fields.QUEUE, schedule: fields.SCHEDULE };
const options = new Set<string>();
const SEND = ['JobOptions', 'ConnectionOptions', 'ScheduleOptions'];
const DECLARED: Record<number, readonly [path: string, types: readonly string[]]> = {
  10: ['pg-boss-10/types.d.ts', [...SEND, 'ExpirationOptions', 'RetentionOptions', 'RetryOptions']],
  11: ['pg-boss-11/types.d.ts', [...SEND, 'QueueOptions']],
  12: ['pg-boss-12/dist/types.d.ts', [...SEND, 'QueueOptions']],
};

/** A value that is not the one which pg-boss gives by itself. */
const UNUSUAL: Record<string, unknown> = {
  priority: 7,
  retry_delay: 30,
  expire_seconds: 60,
  expire_in: '00:01:00',
  deletion_seconds: 60,
  singleton_key: 'k',
  singleton_on: '2026-01-01',
  group_tier: 'gold',
  started_on: '2026-01-01',
  keep_until: '2126-01-01',
  dead_letter: 'other',
  heartbeat_seconds: 10,
  source_name: 'a',
  trace_context: '{"baggage": "x"}',
};

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
    expect(dry).toContain('1 job: the delay between attempts');
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

  test('no column and no option is unknown', async () => {
    for (const [table, known] of Object.entries(OF_TABLE)) {
      const rows = await db.rows<{ name: string }>(COLUMNS, [`pgboss.${table}`]);
      expect(rows.length).toBeGreaterThan(5);
      for (const { name } of rows) seen[table as keyof typeof seen].add(name);
      expect(rows.map(({ name }) => name).filter((name) => !known[name])).toEqual([]);
    }
    const [path, types] = DECLARED[version] ?? ['', []];
    const given = membersOf(declarationsIn(path), types);
    for (const name of given) options.add(name);
    expect(given.filter((name) => !fields.SCHEDULE_OPTIONS[name])).toEqual([]);
  });

  test('what is not moved is said, with how many jobs have it, before and after', async () => {
    await boss.createQueue('other');
    await boss.createQueue('odd', { policy: 'short' });
    const columns = (await db.rows<{ name: string }>(COLUMNS, ['pgboss.job'])).map((c) => c.name);
    const unusual = Object.entries(UNUSUAL).filter(([name]) => columns.includes(name));
    const places = unusual.map((_, n) => `$${n + 1}`).join(', ');
    const names = unusual.map(([name]) => name).join(', ');
    for (const data of ['{"n": 1}', '{"n": 2}'])
      await db.rows(
        `INSERT INTO pgboss.job (name, data, policy, ${names}) VALUES ('odd', '${data}', 'standard', ${places})`,
        unusual.map(([name, value]) => (name === 'singleton_on' ? `2026-01-0${data[6]}` : value)),
      );
    await boss.schedule('odd', '0 3 * * *', {}, { singletonKey: 'k', retryDelay: 30 });
    if (version > 10) await db.rows('UPDATE pgboss.queue SET warning_queued = 5');
    await db.rows(
      `INSERT INTO pgboss.subscription (event, name) VALUES ('happened', 'odd') ON CONFLICT DO NOTHING`,
    );
    const losses = unusual.map(([name]) => fields.JOB[name]?.lost).filter((lost) => lost);
    expect(new Set(losses).size).toBeGreaterThan(6);
    for (const args of [[], ['--yes']]) {
      const said = await done(cli('--only', 'odd', ...args));
      for (const lost of losses) expect(said).toContain(`Warning: 2 jobs: ${lost}.`);
      expect(said).toContain(`2 jobs: ${fields.JOB.created_on?.lost}`);
      expect(said).toContain(`1 queue: ${fields.QUEUE.policy?.lost}`);
      expect(said).toContain('1 subscription: ');
      expect(said).toContain(`1 schedule: ${fields.SCHEDULE_OPTIONS.singletonKey?.lost}`);
      expect(said).toContain(`1 schedule: ${fields.SCHEDULE_OPTIONS.retryDelay?.lost}`);
      if (version > 10) expect(said).toContain(`1 queue: ${fields.QUEUE.warning_queued?.lost}`);
    }
    expect(await db.rows(`SELECT id FROM holdfast.inbox WHERE type = 'odd'`)).toHaveLength(2);
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

test('the tables of fields name nothing that no version has', () => {
  const stale = (known: Fields, there: Set<string>) =>
    Object.keys(known).filter((name) => !there.has(name));
  for (const [table, known] of Object.entries(OF_TABLE))
    expect(stale(known, seen[table as keyof typeof seen])).toEqual([]);
  expect(stale(fields.SCHEDULE_OPTIONS, options)).toEqual([]);
});
