/** maxPending: a full queue refuses before anything is written, or lets a producer wait, and takes jobs again. */
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { pressureOf } from '../../packages/holdfast/src/enqueue/pressure.js';
import { type Holdfast, holdfast, job } from '../../packages/holdfast/src/index.js';
import { INBOX, testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const work = job<{ n?: number }>('work');
const MOST = 10;

const open: Holdfast[] = [];
/** A process of its own: it knows nothing yet. */
function producer(options: object = {}): Holdfast {
  const hf = holdfast({ connectionString: db.url, logger: quietLogger, ...options });
  open.push(hf);
  return hf;
}

beforeEach(async () => {
  await db.rows('DELETE FROM holdfast.inbox');
  await db.hf.configureQueue('inbox', { maxPending: MOST }, { audit: false });
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((hf) => hf.close()));
});

const items = (count: number) => Array.from({ length: count }, () => work.item({}));
const waiting = async () =>
  Number((await db.rows('SELECT count(*) AS n FROM holdfast.inbox'))[0]?.n);
const FULL = { code: 'QUEUE_FULL' };
const drain = () => db.rows(`DELETE FROM holdfast.inbox WHERE status = 'pending'`);
/** As if a second had passed since it was counted. */
const old = () => db.rows(`UPDATE holdfast.queues SET recount_at = now() WHERE name = 'inbox'`);

describe('an enqueue into a full queue', () => {
  test('is refused, and nothing is written', async () => {
    const hf = producer();
    await hf.enqueueMany(items(MOST - 1));
    await hf.enqueue(work, {});
    await expect(hf.enqueue(work, {})).rejects.toMatchObject({
      ...FULL,
      message: expect.stringMatching(
        /"inbox" is full: about 10 jobs wait, and 10 may \(maxPending\); nothing was enqueued/,
      ),
    });
    expect(await waiting()).toBe(MOST);
  });

  test('is refused for all jobs of a call that do not fit, and at once for more than may ever wait', async () => {
    const hf = producer();
    await hf.enqueueMany(items(MOST - 2));
    await expect(hf.enqueueMany(items(3))).rejects.toMatchObject(FULL);
    const call = hf.enqueueMany(items(MOST + 1), { onFull: 'wait' });
    await expect(call).rejects.toMatchObject({
      ...FULL,
      message: expect.stringMatching(/Split the call/),
    });
    await hf.enqueueMany(items(2));
    expect(await waiting()).toBe(MOST);
  });

  test('is refused too while a time limit of the role keeps its jobs from being counted', async () => {
    await db.rows(`UPDATE holdfast.queues SET waiting_at = now() - interval '1 min', waiting = ${MOST},
      recount_at = now() WHERE name = 'inbox'`);
    const url = new URL(db.url);
    url.searchParams.set('options', '-c statement_timeout=300');
    const hf = producer({ connectionString: url.toString() });
    const session = await db.pool.connect();
    try {
      await session.query('BEGIN; LOCK TABLE holdfast.inbox IN ACCESS EXCLUSIVE MODE');
      await expect(hf.enqueue(work, {})).rejects.toMatchObject(FULL);
    } finally {
      await session.query('ROLLBACK');
      session.release();
    }
  });

  test('is refused in another process too, which has not enqueued anything itself', async () => {
    await producer().enqueueMany(items(MOST));
    await old();
    await expect(producer().enqueue(work, {})).rejects.toMatchObject(FULL);
  });

  test('is taken again when there is room', async () => {
    const hf = producer();
    await hf.enqueueMany(items(MOST));
    await expect(hf.enqueue(work, {})).rejects.toMatchObject(FULL);
    await drain();
    await until('there is room', () => hf.enqueue(work, {}).catch(() => null), { everyMs: 100 });
    expect(await waiting()).toBe(1);
  });

  test('is taken by another queue, and by this one without a limit', async () => {
    await db.hf.createQueue('other');
    const hf = producer();
    await hf.enqueueMany(items(MOST));
    await hf.enqueue(job('work', { queue: 'other' }), {});
    await db.hf.configureQueue('inbox', { maxPending: 'off' });
    await producer().enqueueMany(items(MOST));
    expect(await db.rows(`SELECT waiting FROM holdfast.queues WHERE name = 'inbox'`)).toEqual([
      { waiting: null },
    ]);
  });
});

describe('in a transaction of the caller', () => {
  test('what nobody has ever counted is counted too', async () => {
    await db.rows(
      `UPDATE holdfast.queues SET waiting_at = NULL, waiting = NULL, recount_at = NULL WHERE name = 'inbox'`,
    );
    const client = await db.pool.connect();
    await client.query('BEGIN');
    await producer().enqueue(work, {}, { tx: client });
    await client.query('COMMIT');
    client.release();
    await until('it was counted', async () => !(await pressureOf(db.engine, INBOX)).recount);
  });

  test('it is refused before anything is written, and the transaction goes on', async () => {
    await producer().enqueueMany(items(MOST));
    await old();
    // Somebody counts outside of it: here, a producer.
    await expect(producer().enqueue(work, {})).rejects.toMatchObject(FULL);
    const client = await db.pool.connect();
    await client.query('BEGIN');
    const call = producer().enqueue(work, {}, { tx: client });
    await expect(call).rejects.toMatchObject(FULL);
    expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
    await client.query('COMMIT');
    client.release();
    expect(await waiting()).toBe(MOST);
  });

  test('no other connection is needed, no row of the queue is locked, and waiting is refused', async () => {
    const pool = new pg.Pool({ connectionString: db.url, max: 1 });
    const hf = producer({ pool });
    const client = await pool.connect();
    await client.query('BEGIN');
    await hf.enqueue(work, {}, { tx: client });
    // Would wait if the transaction had written to it.
    await db.rows(
      `SET lock_timeout = '2s'; UPDATE holdfast.queues SET waiting = 0; RESET lock_timeout`,
    );
    const call = hf.enqueue(work, {}, { tx: client, onFull: 'wait' });
    await expect(call).rejects.toMatchObject({
      ...{ code: 'OPTION_INVALID', message: expect.stringMatching(/hold your transaction open/) },
    });
    await client.query('COMMIT');
    client.release();
    expect(await waiting()).toBe(1);
    await hf.close();
    await pool.end();
  });

  test('where nobody counts, it is counted beside it', async () => {
    await db.rows(`UPDATE holdfast.queues SET waiting_at = now() - interval '1 min', waiting = 0,
      recount_at = now() WHERE name = 'inbox'`);
    const client = await db.pool.connect();
    await client.query('BEGIN');
    await producer().enqueue(work, {}, { tx: client });
    await client.query('COMMIT');
    client.release();
    await until('it was counted', async () => !(await pressureOf(db.engine, INBOX)).recount);
  });
});

describe('waiting for room', () => {
  test('ends when a worker has made some', async () => {
    const hf = producer();
    await hf.enqueueMany(items(MOST));
    const hold = gate();
    const later = hf.enqueue(work, { n: 1 }, { onFull: 'wait' });
    let taken = false;
    void later.then(() => {
      taken = true;
    });
    start(db.hf, (worker) => worker.handle(work, () => hold.opened), { concurrency: 2 });
    await until(
      'it is at work',
      async () =>
        (await db.rows(`SELECT FROM holdfast.inbox WHERE status = 'processing'`)).length > 0,
    );
    hold.open();
    const { id } = await later;
    expect(taken).toBe(true);
    await db.hf.wait(id);
  });

  test('ends with QUEUE_FULL when its time is over, and with STOPPED when hf is closed', async () => {
    const hf = producer();
    await hf.enqueueMany(items(MOST));
    const call = hf.enqueue(work, {}, { onFull: 'wait', fullTimeout: '120ms' });
    await expect(call).rejects.toMatchObject({
      ...FULL,
      message: expect.stringMatching(/full after 120 ms/),
    });
    const closed = hf.enqueue(work, {}, { onFull: 'wait' });
    const seen = expect(closed).rejects.toMatchObject({ code: 'STOPPED' });
    // By then it waits.
    await new Promise(setImmediate);
    await hf.close();
    await seen;
    expect(await waiting()).toBe(MOST);
  });
});

test('children, ticks of schedules and retries are not refused: a full queue must be able to drain', async () => {
  const child = job('child');
  await producer().enqueueMany(items(MOST));
  await old();
  await expect(producer().enqueue(work, {})).rejects.toMatchObject(FULL);
  await db.hf.schedule('tick', { every: '1h', job: child, payload: {} });
  await db.hf.schedules.runNow('tick');
  await db.hf.schedules.delete('tick');
  expect(await waiting()).toBe(MOST + 1);
  let ran = 0;
  start(db.hf, (worker) =>
    worker
      .handle(work, async (ctx) => void (await ctx.enqueue(child, {})))
      .handle(child, () => void ran++),
  );
  await until('all of it ran', () => ran === MOST + 1);
});

test('producers in SQL are refused with HF006, by what a worker has counted, and taken again', async () => {
  const call = () => db.rows(`SELECT id FROM holdfast.inbox_enqueue('other', '{}')`);
  for (let n = 0; n < MOST; n++) await call();
  // A worker that does not handle them: it counts.
  start(db.hf, (worker) => worker.handle(work, () => undefined));
  const refused = () =>
    call().then(
      () => null,
      (error) => error,
    );
  const error = await until('it is refused', refused);
  expect(error).toMatchObject({
    code: 'HF006',
    message: expect.stringMatching(/is full, 10 jobs may wait: nothing was enqueued/),
  });
  await drain();
  await until('it is taken again', () => call().catch(() => null));
});

test('four processes that race stop near the limit, each by what it knows', async () => {
  const fill = async (hf: Holdfast) => {
    for (let n = 0; n < 5 * MOST; n++) {
      try {
        await hf.enqueue(work, {});
      } catch (error) {
        expect(error).toMatchObject(FULL);
        return;
      }
    }
  };
  await Promise.all([1, 2, 3, 4].map(() => fill(producer())));
  const all = await waiting();
  expect(all).toBeGreaterThanOrEqual(MOST);
  // None of them knows of the others between two counts.
  expect(all).toBeLessThanOrEqual(4 * MOST);
  await old();
  await expect(producer().enqueue(work, {})).rejects.toMatchObject(FULL);
});

test('counting stops at the limit, and is done once a second by whoever asks', async () => {
  await producer().enqueueMany(items(MOST));
  await db.rows(
    `INSERT INTO holdfast.inbox (type, payload) SELECT 'work', '{}' FROM generate_series(1, 50)`,
  );
  await old();
  const count = async () =>
    Number((await db.rows('SELECT holdfast.inbox_count_waiting() AS n'))[0]?.n);
  expect(await count()).toBe(MOST + 1);
  await drain();
  expect(await count()).toBe(MOST + 1);
  await old();
  expect(await count()).toBe(0);
});

describe('500 enqueues at once', () => {
  const BURST = 500;
  /** What a producer asks, by the kind of its statements. */
  function counted() {
    const pool = new pg.Pool({ connectionString: db.url, max: 4 });
    onTestFinished(() => pool.end());
    const asked = { questions: 0, counts: 0, inserts: 0 };
    pool.on('connect', (client) => {
      const query = client.query.bind(client) as (...args: unknown[]) => unknown;
      client.query = ((config: { text: string }, ...rest: unknown[]) => {
        if (config.text.includes('q.max_pending')) asked.questions++;
        else if (config.text.includes('inbox_count_waiting')) asked.counts++;
        else asked.inserts++;
        return query(config, ...rest);
      }) as never;
    });
    return { hf: producer({ pool, pooler: false }), asked, pool };
  }
  const burst = (hf: Holdfast) =>
    Promise.allSettled(Array.from({ length: BURST }, (_, n) => hf.enqueue(work, { n })));
  const later = (ms: number) => {
    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + ms);
    onTestFinished(() => clock.mockRestore());
  };

  test('ask once, cold and stale', async () => {
    await db.hf.configureQueue('inbox', { maxPending: 'off' }, { audit: false });
    const { hf, asked } = counted();
    await burst(hf);
    expect(asked).toEqual({ questions: 1, counts: 0, inserts: BURST });
    later(11_000);
    await burst(hf);
    expect(asked).toEqual({ questions: 2, counts: 0, inserts: 2 * BURST });
    expect(await waiting()).toBe(2 * BURST);
  });

  test('with maxPending count once, ask before and after it, and stop at the limit', async () => {
    const most = 100;
    await db.hf.configureQueue('inbox', { maxPending: most }, { audit: false });
    await old();
    const { hf, asked } = counted();
    const taken = (await burst(hf)).filter(({ status }) => status === 'fulfilled');
    expect(taken).toHaveLength(most);
    expect(asked).toEqual({ questions: 2, counts: 1, inserts: most });
    await old();
    later(1_100);
    await burst(hf);
    expect(asked).toEqual({ questions: 4, counts: 2, inserts: most });
  });

  test('in transactions have it counted once beside them', async () => {
    await db.rows(`UPDATE holdfast.queues SET waiting_at = now() - interval '1 min', waiting = 0,
      recount_at = now() WHERE name = 'inbox'`);
    const { hf, asked, pool } = counted();
    // So the count is under way for as long as it is held.
    const held = await Promise.all([1, 2, 3, 4].map(() => pool.connect()));
    const clients = await Promise.all([1, 2, 3].map(() => db.pool.connect()));
    await Promise.all(
      clients.map(async (client) => {
        await client.query('BEGIN');
        await hf.enqueue(work, {}, { tx: client });
        await client.query('COMMIT');
        client.release();
      }),
    );
    for (const client of held) client.release();
    await until('it was counted', async () => !(await pressureOf(db.engine, INBOX)).recount);
    expect(asked.counts).toBe(1);
  });
});

test('a pool that is busy for too long is named, and nothing is written', async () => {
  const settings = { connectionString: db.url, max: 1, connectionTimeoutMillis: 100 };
  const pool = new pg.Pool(settings);
  const hf = producer({ pool, pooler: false });
  const client = await pool.connect();
  const error = {
    code: 'POOL_BUSY',
    message: expect.stringMatching(
      /No connection of the pool of 1 was free for 0\.1 s; nothing was enqueued\. .*transaction that is open for long.*higher max/,
    ),
    cause: expect.any(Error),
  };
  await expect(hf.enqueue(work, {})).rejects.toMatchObject(error);
  const inTransaction = hf.enqueue(work, {}, { idempotencyKey: 'a' });
  await expect(inTransaction).rejects.toMatchObject(error);
  client.release();
  await hf.enqueue(work, {});
  expect(await waiting()).toBe(1);
  await pool.end();
});

describe('is refused', () => {
  test.each([0, -1, 1.5, 10_000_001, '10', Number.NaN, null, {}])(
    'maxPending of %s',
    async (most) => {
      const call = db.hf.configureQueue('inbox', { maxPending: most as number });
      await expect(call).rejects.toMatchObject({
        code: 'OPTION_INVALID',
        message: expect.stringMatching(/maxPending/),
      });
    },
  );

  test.each([
    { onFull: 'maybe' },
    { onFull: null },
    { fullTimeout: '1s' },
    { onFull: 'wait', fullTimeout: 0 },
    { onFull: 'wait', fullTimeout: '2d' },
    { onFull: 'wait', fullTimeout: 'soon' },
  ])('%j', async (call) => {
    const enqueue = async () => db.hf.enqueue(work, {}, call as never);
    await expect(enqueue()).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    expect(await waiting()).toBe(0);
  });
});
