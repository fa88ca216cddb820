/** What a call reads: index entries and never the backlog, on a connection with nobody's settings. */
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { type RegisterOptions, sqlWorkers } from '../support/protocol.js';

const db = testDatabase();
const BACKLOG = long(10_000, 500_000);
const SMALL = BACKLOG / 20;
const MOST_BUFFERS = 900;
let session: pg.Client;

beforeAll(async () => {
  session = new pg.Client({ connectionString: db.url });
  await session.connect();
});
afterEach(() => session.query('ROLLBACK'));
afterAll(() => session.end());

async function explained(text: string, params: unknown[]): Promise<number> {
  const { rows } = await session.query(
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM holdfast.${text}`,
    params,
  );
  const plan = rows[0]['QUERY PLAN'][0].Plan;
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
}

const fill = (queue: string, count: number) =>
  session.query(
    `INSERT INTO holdfast.${queue} (type, partition_key, partition_bucket, payload, parked, available_at)
     SELECT 'noop', 'k' || n % 5000, n % 5000 % 1024, '{"n": 1}', false, now() - interval '1 hour'
     FROM generate_series(1, $1::int) AS n`,
    [count],
  );

const scans = async (queue: string) =>
  (
    await session.query(
      'SELECT seq_scan::int AS n FROM pg_stat_xact_user_tables WHERE relid = $1::regclass',
      [`holdfast.${queue}`],
    )
  ).rows[0]?.n ?? 0;

test.each([
  ['by time', 'inbox', {}],
  ['by key', 'orders', { ordering: 'key' } as const],
  ['in turns', 'fair', { perKey: 2, fair: true } as const],
])(
  'a claim of 25 %s costs as much at a backlog of some hundred as of twenty times that',
  async (_, queue, order) => {
    if (queue !== 'inbox') await db.hf.createQueue(queue, order);
    await session.query(`ALTER TABLE holdfast.${queue} SET (autovacuum_enabled = off)`);
    const options: RegisterOptions = { queues: [queue] };
    const sql = sqlWorkers({
      rows: async (text, params) => (await session.query(text, params)).rows,
    });
    const worker = await sql(['noop'], options);
    const cost = async () => {
      const read: number[] = [];
      // What a session reads of the catalogues is read once.
      for (let claims = 0; claims < 3; claims++) {
        await session.query('BEGIN');
        const before = await scans(queue);
        read.push(await explained('worker_claim($1, $2, 25)', [worker.id, queue]));
        expect((await scans(queue)) - before).toBe(0);
        const { rows } = await session.query(
          `SELECT count(*)::int AS n FROM holdfast.${queue} WHERE status = 'processing'`,
        );
        expect(rows[0].n).toBe(25);
        await session.query('ROLLBACK');
      }
      return Math.min(...read);
    };
    await fill(queue, SMALL);
    const small = await cost();
    await fill(queue, BACKLOG - SMALL);
    const large = await cost();
    expect(small).toBeLessThanOrEqual(MOST_BUFFERS);
    expect(large).toBeLessThanOrEqual(MOST_BUFFERS);
  },
);

test('a renewal, a completion and a failure read the row of their job', async () => {
  const sql = sqlWorkers({
    rows: async (text, params) => (await session.query(text, params)).rows,
  });
  const worker = await sql(['noop']);
  const jobs = await worker.claim(3);
  expect(jobs).toHaveLength(3);
  await session.query('BEGIN');
  const before = await scans('inbox');
  for (const one of jobs) {
    await explained('worker_renew($1, ARRAY[$2::uuid], ARRAY[1])', [worker.id, one.id]);
    expect(await explained('worker_complete($1, $2, 1)', [worker.id, one.id])).toBeLessThanOrEqual(
      MOST_BUFFERS,
    );
  }
  expect((await scans('inbox')) - before).toBe(0);
  await session.query('ROLLBACK');
});
