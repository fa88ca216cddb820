/**
 * One lock order: bulk enqueues under unique keys beside cancels, retries and discards never wait for each other in a
 * circle. And where somebody else's transaction makes a circle, what has no caller's transaction is done again.
 */
import { expect, onTestFinished, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { plainPool } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';

const db = testDatabase();
const KEYS = 400;
const MIX_MS = 4_000;
const note = job<{ n: number }>('note');
const shuffled = <Value>(list: readonly Value[]) =>
  list
    .map((value) => ({ value, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value);
const numbers = Array.from({ length: KEYS }, (_, n) => n);

/** A backend reports its deadlocks when it ends at the latest. */
async function deadlocks(): Promise<number> {
  await until('the others have left', async () => {
    const [row] = await db.rows<{
      others: number;
    }>(`SELECT count(*)::int AS others FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'mix'`);
    return row?.others === 0;
  });
  const [row] = await db.rows<{
    count: number;
  }>(`SELECT deadlocks::int AS count FROM pg_stat_database
    WHERE datname = current_database()`);
  return row?.count as number;
}

async function withPool(
  deadlockTimeout: string,
  work: (hf: ReturnType<typeof holdfast>) => Promise<unknown>,
) {
  const settings = { options: `-c deadlock_timeout=${deadlockTimeout}` };
  const options = { connectionString: db.url, applicationName: 'mix', settings };
  const pool = plainPool(options, 12, quietLogger);
  const hf = holdfast({ pool, connectionString: db.url, logger: quietLogger });
  try {
    await work(hf);
  } finally {
    await hf.close();
    await pool.end();
  }
}

test('bulk enqueues under unique keys beside cancels, retries and discards: no deadlock', async () => {
  const before = await deadlocks();
  await withPool('50ms', async (hf) => {
    const end = Date.now() + MIX_MS;
    const repeat = async (work: () => Promise<unknown>) => {
      while (Date.now() < end) await work();
    };
    const ids = async (status: string) =>
      (
        await db.rows<{ id: string }>('SELECT id FROM holdfast.inbox WHERE status::text = $1', [
          status,
        ])
      ).map(({ id }) => id);
    const produce = (onConflict: 'replace' | 'later' | 'ignore') =>
      hf.enqueueMany(
        shuffled(numbers).map((n) =>
          note.item({ n }, { delay: '1h', unique: { key: `k${n}`, onConflict } }),
        ),
      );
    const cancel = async () => hf.cancel(shuffled(await ids('pending')).slice(0, 200));
    // Some become dead letters, as if they had failed.
    const fail = `UPDATE holdfast.inbox SET status = 'dead_letter', available_at = 'infinity', parked = true
      WHERE id = ANY (ARRAY(SELECT id FROM holdfast.inbox WHERE status = 'pending' ORDER BY id LIMIT 20
        FOR UPDATE SKIP LOCKED))`;
    await Promise.all([
      ...(['replace', 'later', 'ignore'] as const).map((how) => repeat(() => produce(how))),
      ...[cancel, cancel, cancel].map(repeat),
      repeat(async () => {
        await db.rows(fail);
        const letters = await ids('dead_letter');
        await hf.retry(letters.slice(0, 10));
        await hf.discard(letters.slice(10));
      }),
    ]);
  });
  expect((await deadlocks()) - before).toBe(0);
}, 60_000);

test('an enqueue and a cancel that lose a deadlock to somebody else are done again', async () => {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_unique');
  const before = await deadlocks();
  const unique = (key: string) =>
    ({ delay: '1h', unique: { key, onConflict: 'replace' } }) as const;
  const [first, second] = (await db.hf.enqueueMany(
    ['a', 'b'].map((key) => note.item({ n: 1 }, unique(key))),
  )) as { id: string }[];
  const low = [first?.id, second?.id].sort()[0];
  const high = [first?.id, second?.id].sort()[1];
  const lock = 'SELECT FROM holdfast.inbox WHERE id = $1 FOR UPDATE';
  const waiting = async (count: number) =>
    until(`${count} wait`, async () => {
      const [row] = await db.rows<{
        count: number;
      }>(`SELECT count(*)::int AS count FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`);
      return (row?.count as number) >= count;
    });
  // The circle is closed before they look for one.
  await withPool('2s', async (hf) => {
    const acts = [
      () => hf.enqueueMany(['a', 'b'].map((key) => note.item({ n: 2 }, unique(key)))),
      () => hf.cancel([low as string, high as string]),
    ];
    for (const act of acts) {
      const client = await db.pool.connect();
      onTestFinished(() => client.release());
      // Somebody takes two jobs against the order, and waits longer than the act before he looks for a circle.
      await client.query(`BEGIN; SET LOCAL deadlock_timeout = '20s'`);
      await client.query(lock, [high]);
      const done = act();
      await waiting(1);
      const theirs = client.query(lock, [low]);
      await theirs;
      await client.query('COMMIT');
      await expect(done).resolves.toHaveLength(2);
    }
  });
  expect((await deadlocks()) - before).toBe(2);
  const [row] = await db.rows(`SELECT count(*)::int AS cancelled FROM holdfast.inbox_archive
    WHERE id IN ('${low}', '${high}') AND payload ->> 'n' = '2'`);
  expect(row).toEqual({ cancelled: 2 });
}, 30_000);
