/**
 * An update that reaches a running job: it is remembered until the attempt settles, in whichever order the two
 * transactions come, and it is forgotten with the attempt.
 */
import type pg from 'pg';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { job, Snooze } from '../../packages/holdfast/src/index.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import type { Executor } from '../../packages/holdfast/src/postgres/queryable.js';
import { engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { release, snooze } from '../../packages/holdfast/src/settle/release.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const order = job<{ n: number }>('order', { retry: () => '2d' });
const DAY_MS = 86_400_000;
const now = { delay: 0 } as const;

beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_claims'));

type Held = ReturnType<typeof heldOf>;
const claimed = async (maxAttempts = 5): Promise<Held> => {
  await db.hf.enqueue(order, { n: 1 }, { maxAttempts });
  return again();
};
const again = async (): Promise<Held> =>
  heldOf((await claimAs(db.engine, 'w1', { types: ['order'] }))[0]!);

const WORDS = { error: 'Error: no paper', summary: 'no paper' };
const SETTLES: Record<string, (db: Executor, held: Held) => Promise<readonly unknown[]>> = {
  snooze: (on, held) => snooze(on, INBOX, 'w1', [{ ...held, delayMs: 2 * DAY_MS }]),
  fail: (on, held) => fail(on, INBOX, 'w1', [{ ...held, ...WORDS, delayMs: 2 * DAY_MS }]),
  release: (on, held) => release(on, INBOX, 'w1', [held]),
};

const transaction = async () => {
  const client = await db.pool.connect();
  await client.query('BEGIN');
  let open = true;
  const end = async (how: 'COMMIT' | 'ROLLBACK') => {
    if (!open) return;
    open = false;
    await client.query(how);
    client.release();
  };
  onTestFinished(() => end('ROLLBACK'));
  const engine = engineExecutor(client, { prepare: false });
  return { client, engine, end };
};

const blocked = (client: pg.PoolClient) =>
  until('somebody waits for the row', async () => {
    const rows = await db.rows(
      'SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))',
      [(client as unknown as { processID: number }).processID],
    );
    return rows.length > 0;
  });

async function dueNow(id: string): Promise<boolean> {
  const [row] = await db.rows<{ due: boolean }>(
    `SELECT available_at <= now() AS due FROM holdfast.inbox WHERE id = $1 AND status = 'pending'`,
    [id],
  );
  return row!.due;
}

describe.each(Object.entries(SETTLES))('%s: the job is due at once', (how, settle) => {
  const attempts = how === 'fail' ? 1 : 0;
  const check = async (id: string) => {
    expect(await dueNow(id)).toBe(true);
    // And no attempt is spent for it.
    expect(await db.hf.job(id)).toMatchObject({ attempts });
    expect((await again()).id).toBe(id);
  };

  test('after an update that has committed', async () => {
    const held = await claimed();
    await db.hf.update(held.id, now);
    expect(await db.hf.job(held.id)).toMatchObject({ status: 'processing', attempts: 1 });
    expect(await settle(db.engine, held)).toHaveLength(1);
    await check(held.id);
  });

  test('while an update is open, which it waits for', async () => {
    const held = await claimed();
    const { client, end } = await transaction();
    await db.hf.update(held.id, { runAt: new Date(0) }, { tx: client });
    const settling = settle(db.engine, held);
    await blocked(client);
    await end('COMMIT');
    expect(await settling).toHaveLength(1);
    await check(held.id);
  });

  test('before an update that waits for it', async () => {
    const held = await claimed();
    const { client, engine, end } = await transaction();
    expect(await settle(engine, held)).toHaveLength(1);
    const updating = db.hf.update(held.id, now);
    await blocked(client);
    await end('COMMIT');
    await updating;
    await check(held.id);
  });

  test('before an update that comes later', async () => {
    const held = await claimed();
    await settle(db.engine, held);
    await db.hf.update(held.id, now);
    await check(held.id);
  });

  test('not after an update that was rolled back', async () => {
    const held = await claimed();
    const { client, end } = await transaction();
    await db.hf.update(held.id, now, { tx: client });
    const settling = settle(db.engine, held);
    await blocked(client);
    await end('ROLLBACK');
    await settling;
    expect(await dueNow(held.id)).toBe(how === 'release');
  });

  test('not because of an update of an attempt before', async () => {
    const first = await claimed();
    await db.hf.update(first.id, now);
    await settle(db.engine, first);
    const second = await again();
    await settle(db.engine, second);
    expect(await dueNow(first.id)).toBe(how === 'release');
  });
});

test('also when the clock of the database goes back, or its worker dies', async () => {
  const held = await claimed();
  await db.rows(`UPDATE holdfast.inbox SET claimed_at = now() + interval '5 s' WHERE id = $1`, [
    held.id,
  ]);
  await db.hf.update(held.id, now);
  await SETTLES.snooze!(db.engine, held);
  await check(held.id);
  async function check(id: string) {
    expect(await dueNow(id)).toBe(true);
  }
  const next = await again();
  await db.hf.update(next.id, now);
  await db.rows(
    `UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 s' WHERE id = $1`,
    [next.id],
  );
  await recover(db.engine, INBOX, { limit: 10, recoverer: 'w2' });
  await check(next.id);
});

test('a job that ends has ended', async () => {
  const done = await claimed();
  await db.hf.update(done.id, now);
  expect(await complete(db.engine, INBOX, 'w1', [done])).toEqual([done.id]);
  const last = await claimed(1);
  await db.hf.update(last.id, now);
  await SETTLES.fail!(db.engine, last);
  expect(await db.hf.job(last.id)).toMatchObject({ status: 'dead_letter' });
});

test.each([
  ['a later time', { delay: '1h' }],
  ['a time ahead', { runAt: new Date(Date.now() + DAY_MS) }],
  ['a payload', { payload: { n: 2 } }],
  ['a priority with it', { delay: 0, priority: 1 }],
] as const)('%s is refused, and the refusal says what is possible', async (_, changes) => {
  const held = await claimed();
  const row = () => db.rows('SELECT i::text AS row, xmin::text FROM holdfast.inbox AS i');
  const before = await row();
  await expect(db.hf.update(held.id, changes)).rejects.toMatchObject({
    code: 'JOB_STATE',
    message: expect.stringMatching(
      /is processing .*not changed.*\{ delay: 0 \} by itself.*snoozes or fails/,
    ),
  });
  expect(await row()).toEqual(before);
});

test('the act leaves its row in the audit', async () => {
  const held = await claimed();
  await db.hf.update(held.id, now, { reason: 'approved', actor: 'ann' });
  const { acts } = await db.hf.audit({ limit: 1 });
  expect(acts).toMatchObject([{ act: 'update', reason: 'approved', actor: 'ann' }]);
});

test('an approval that commits while the handler runs is not slept through', async () => {
  await db.rows('CREATE TABLE approvals (n integer PRIMARY KEY)');
  const [looked, approved] = [gate(), gate()];
  let runs = 0;
  start(db.hf, (worker) =>
    worker.handle(order, async ({ payload }) => {
      runs++;
      const found = await db.rows('SELECT FROM approvals WHERE n = $1', [payload.n]);
      looked.open();
      await approved.opened;
      if (found.length === 0) throw new Snooze('2d');
      return 'sent';
    }),
  );
  const { id } = await db.hf.enqueue(order, { n: 7 });
  await looked.opened;
  const { client, end } = await transaction();
  await client.query('INSERT INTO approvals VALUES (7)');
  await db.hf.update(id, now, { tx: client });
  await end('COMMIT');
  approved.open();
  expect(await db.hf.wait(id, { timeout: '20s' })).toMatchObject({
    status: 'completed',
    result: 'sent',
    attempts: 1,
  });
  expect(runs).toBe(2);
});

test('no approval is lost, however the transactions fall', async () => {
  await db.rows('CREATE TABLE IF NOT EXISTS approvals (n integer PRIMARY KEY); TRUNCATE approvals');
  const jobs = long(60, 400);
  start(db.hf, (worker) =>
    worker.handle(order, async ({ payload, attempt }) => {
      const found = await db.rows('SELECT FROM approvals WHERE n = $1', [payload.n]);
      if (found.length > 0) return;
      // Some of them fail: their next attempt would come in two days.
      if (payload.n % 3 === 0 && attempt < 4) throw new Error('not yet');
      throw new Snooze('2d');
    }),
  );
  const ids = new Map<number, string>();
  const approve = async (n: number) => {
    const client = await db.pool.connect();
    try {
      await client.query('BEGIN');
      await client.query('INSERT INTO approvals VALUES ($1)', [n]);
      await db.hf.update(ids.get(n) as string, now, { tx: client });
      await client.query('COMMIT');
    } finally {
      client.release();
    }
  };
  const all = Array.from({ length: jobs }, async (_, n) => {
    const { id } = await db.hf.enqueue(order, { n });
    ids.set(n, id);
    // One in four is approved at once, the others while they run or sleep.
    if (n % 4 > 0)
      await until('it was claimed', async () => ((await db.hf.job(id))?.leaseGeneration ?? 1) > 0, {
        everyMs: 1,
      });
    await approve(n);
    return db.hf.wait(id, { timeout: '60s' });
  });
  for (const ended of await Promise.all(all)) expect(ended.status).toBe('completed');
});
