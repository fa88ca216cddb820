/** A worker that may call the functions of the protocol, and nothing else. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { asAdmin } from '../support/empty-database.js';
import { sqlWorkers } from '../support/protocol.js';
import { testRoles } from '../support/roles.js';

const db = testDatabase();
const user = `holdfast_sql_test_${randomBytes(4).toString('hex')}`;
const { role, members } = testRoles(db, { prefix: 'holdfast_protocol' });
let pool: pg.Pool;

beforeAll(async () => {
  await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret' IN ROLE ${role('sql_worker')}`);
  const url = new URL(db.url);
  [url.username, url.password] = [user, 'secret'];
  pool = new pg.Pool({ connectionString: url.toString(), max: 2 });
});
afterAll(async () => {
  await pool.end();
  await db.rows(`DROP OWNED BY ${user}`);
  await asAdmin((client) => client.query(`DROP ROLE ${user}`));
});

const rows = async (text: string, params?: unknown[]) => (await pool.query(text, params)).rows;

test('does all that a worker does, in every queue, also in one that is made later', async () => {
  await db.hf.createQueue('later', { ordering: 'key' });
  const register = sqlWorkers({ rows: rows as never });
  for (const queue of ['inbox', 'later']) {
    const work = job<{ n: number }>('work', { queue, maxAttempts: 1 });
    await db.hf.enqueueMany([1, 2, 3, 4, 5, 6].map((n) => work.item({ n })));
    const worker = await register(['work'], { queues: [queue] });
    const jobs = await worker.claim(10, queue);
    expect(jobs).toHaveLength(6);
    expect(await worker.beat()).toBe('alive');
    expect(await worker.renew(jobs)).toHaveLength(6);
    expect(await worker.complete(jobs[0]!, { ok: true })).toBe('completed');
    expect(await worker.fail(jobs[1]!, 'no')).toBe('dead_letter');
    expect(await worker.settle('worker_dead_letter', jobs[2]!, 'no')).toBe('dead_letter');
    expect(await worker.settle('worker_release', jobs[3]!)).toBe('pending');
    expect(await worker.settle('worker_snooze', jobs[4]!, '1 hour')).toBe('pending');
    expect(await worker.settle('worker_cancel', jobs[5]!, 'no')).toBe('cancelled');
    expect(await rows('SELECT holdfast.worker_hold($1) AS held', [worker.id])).toEqual([
      { held: true },
    ]);
    expect(await worker.leave()).toBe('0');
  }
});

test.each([
  'SELECT FROM holdfast.inbox',
  'SELECT FROM holdfast.workers',
  'SELECT FROM holdfast.queues',
  'DELETE FROM holdfast.inbox_archive',
  `SELECT holdfast.inbox_enqueue('work', '{}')`,
  `SELECT holdfast.inbox_verb_complete('w', '{}', '{}', NULL)`,
  `SELECT holdfast.inbox_work('w', 1, 1000, '{"work": 1}', 0, NULL)`,
  `SELECT holdfast.worker_settle('complete', 'w', holdfast.new_id(), 1, 'inbox', NULL, 0)`,
])('it may not: %s', async (text) => {
  await expect(rows(text)).rejects.toMatchObject({ code: '42501' });
});

test('nobody else may call them: neither a producer, nor a viewer, nor an operator', async () => {
  for (const name of ['producer', 'viewer', 'operator'] as const) {
    const call = members[name].pool.query(`SELECT holdfast.worker_register(ARRAY['work'])`);
    await expect(call, name).rejects.toMatchObject({ code: '42501' });
  }
  const { rows: mine } = await members.worker.pool.query(
    `SELECT holdfast.worker_register(ARRAY['work']) AS id`,
  );
  expect(mine).toHaveLength(1);
});

test('names that the caller puts in the way change nothing', async () => {
  await db.hf.enqueue(job<{ n: number }>('shadowed'), { n: 1 });
  const client = await pool.connect();
  try {
    await client.query('CREATE TEMP TABLE inbox (id uuid); SET search_path = pg_temp, public');
    const register = sqlWorkers({
      rows: async (text, params) => (await client.query(text, params)).rows,
    });
    const worker = await register(['shadowed']);
    const [held] = await worker.claim();
    expect(await worker.complete(held!)).toBe('completed');
  } finally {
    client.release(true);
  }
});
