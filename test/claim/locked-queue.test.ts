/**
 * Somebody holds ACCESS EXCLUSIVE on the table of one queue. Who enqueues into it is told so within seconds, by name;
 * whoever uses another queue, with the same pool or in the same worker, notices nothing.
 */
import pg from 'pg';
import { beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const QUEUES = ['mail', 'orders', 'stock'] as const;
const [mail, orders, stock] = QUEUES.map((queue) =>
  job<{ n: number }>(`${queue}_job`, { queue }),
) as [
  ReturnType<typeof job<{ n: number }>>,
  ReturnType<typeof job<{ n: number }>>,
  ReturnType<typeof job<{ n: number }>>,
];

beforeAll(async () => {
  for (const queue of QUEUES) await db.hf.createQueue(queue);
});
beforeEach(async () => {
  for (const queue of QUEUES)
    await db.rows(
      `TRUNCATE holdfast.${queue}, holdfast.${queue}_archive, holdfast.${queue}_claims`,
    );
});

/** Locks the table until the function that it returns is called. */
async function lock(queue: string) {
  const client = new pg.Client({ connectionString: db.url, application_name: 'migration' });
  await client.connect();
  await client.query('BEGIN');
  await client.query(`LOCK TABLE holdfast.${queue} IN ACCESS EXCLUSIVE MODE`);
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  let over = false;
  const release = async () => {
    if (over) return;
    over = true;
    await client.end();
  };
  onTestFinished(release);
  return { release, pid: rows[0].pid as number };
}

/** Of a program with a pool of its own. */
function producer(max: number) {
  const pool = new pg.Pool({ connectionString: db.url, max, connectionTimeoutMillis: 10_000 });
  pool.on('error', () => undefined);
  const hf = holdfast({ pool, logger: quietLogger });
  onTestFinished(async () => {
    await hf.close();
    await pool.end();
  });
  return hf;
}

test('enqueues into a locked queue fail within seconds and name the lock; those into others do not wait', async () => {
  const hf = producer(5);
  await hf.enqueue(orders, { n: 0 });
  const { pid, release } = await lock('mail');
  const from = performance.now();
  // Among them one with several statements, and more than the pool has connections.
  const refused = [
    hf.enqueueMany([mail.item({ n: 1 }, { idempotencyKey: 'a' }), mail.item({ n: 2 })]),
    ...Array.from({ length: 20 }, (_, n) => hf.enqueue(mail, { n })),
  ].map((one) =>
    one.then(
      () => null,
      (error) => error,
    ),
  );
  for (let n = 0; n < 50; n++) await hf.enqueue(orders, { n });
  expect(performance.now() - from).toBeLessThan(4_000);
  const errors = await Promise.all(refused);
  expect(performance.now() - from).toBeLessThan(9_000);
  for (const error of errors) {
    expect(error).toMatchObject({ code: 'LOCKED', cause: { code: '55P03' } });
    expect(error.message).toMatch(
      new RegExp(
        '^The table holdfast.mail is locked, so nothing was enqueued into the queue "mail" within 5 s\\. ' +
          `session ${pid} \\(migration, .*holds AccessExclusiveLock on mail, in a transaction that began .* ago\\. ` +
          `Enqueue again when it is free\\. To end it: SELECT pg_terminate_backend\\(${pid}\\);$`,
      ),
    );
  }
  // From now on one at a time finds out whether it is still locked; the others are told at once.
  const probe = hf.enqueue(mail, { n: 21 });
  const asked = performance.now();
  await expect(hf.enqueue(mail, { n: 22 })).rejects.toMatchObject({ code: 'LOCKED' });
  expect(performance.now() - asked).toBeLessThan(1_000);
  await release();
  await probe;
  await Promise.all(Array.from({ length: 20 }, (_, n) => hf.enqueue(mail, { n })));
  expect(await db.rows('SELECT FROM holdfast.mail')).toHaveLength(21);
});

test('a limit for locks that the role has is kept, and nothing of ours stays in a session of the pool', async () => {
  const pool = new pg.Pool({ connectionString: db.url, max: 1, options: '-c lock_timeout=100ms' });
  const hf = holdfast({ pool, logger: quietLogger });
  onTestFinished(async () => {
    await hf.close();
    await pool.end();
  });
  await hf.enqueue(mail, { n: 0 });
  const { release } = await lock('mail');
  const from = performance.now();
  await expect(hf.enqueue(mail, { n: 1 })).rejects.toMatchObject({ code: 'LOCKED' });
  expect(performance.now() - from).toBeLessThan(3_000);
  await release();
  const { rows } = await pool.query('SHOW lock_timeout');
  expect(rows).toEqual([{ lock_timeout: '100ms' }]);
  await hf.enqueue(mail, { n: 2 });
  const plain = producer(1);
  await plain.enqueue(mail, { n: 3 });
  expect(await db.rows('SELECT FROM holdfast.mail')).toHaveLength(3);
});

test('a worker of three queues, one of them locked: the other two go on, and no lease is lost', async () => {
  const children = QUEUES.map((queue) => job<{ n: number }>(`${queue}_child`, { queue }));
  const [mailChild, ordersChild, stockChild] = children as [typeof mail, typeof mail, typeof mail];
  const hold = gate();
  const IN_MAIL = 40;
  let runs = 0;
  const { worker, events } = start(
    db.hf,
    (w) =>
      w
        .handle(mail, async (ctx) => {
          runs++;
          await hold.opened;
          // Half of them with children, which are completed on other connections.
          if (ctx.payload.n % 2 === 0) await ctx.enqueue(mailChild, { n: 0 });
        })
        .handle(orders, (ctx) => ctx.enqueue(ordersChild, { n: 0 }))
        .handle(stock, (ctx) => ctx.enqueue(stockChild, { n: 0 }))
        .handle(mailChild, () => {})
        .handle(ordersChild, () => {})
        .handle(stockChild, () => {}),
    { concurrency: IN_MAIL },
  );
  await db.hf.enqueueMany(Array.from({ length: IN_MAIL }, (_, n) => mail.item({ n })));
  await until('all of them run', () => runs === IN_MAIL);
  const { release } = await lock('mail');
  hold.open();
  const from = performance.now();
  const slowest = { ms: 0 };
  for (let n = 0; n < 5; n++) {
    const at = performance.now();
    const before = worker.stats.completed;
    await db.hf.enqueueMany([1, 2, 3, 4].map((m) => orders.item({ n: m })));
    await db.hf.enqueueMany([1, 2, 3, 4].map((m) => stock.item({ n: m })));
    await until(
      'they and their children are completed',
      () => worker.stats.completed === before + 16,
    );
    slowest.ms = Math.max(slowest.ms, performance.now() - at);
  }
  const tookMs = performance.now() - from;
  await release();
  await until(
    'all of mail are completed, with their children',
    () => worker.stats.completed === 80 + IN_MAIL + IN_MAIL / 2,
  );
  expect(runs).toBe(IN_MAIL);
  expect(worker.stats).toMatchObject({ lost: 0, failed: 0 });
  expect(events.some(({ kind }) => kind === 'lost')).toBe(false);
  console.info(
    `five rounds took ${Math.round(tookMs)} ms, the slowest ${Math.round(slowest.ms)} ms`,
  );
  expect(slowest.ms).toBeLessThan(2_500);
}, 60_000);
