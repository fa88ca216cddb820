/** What holds for a worker by the protocol in SQL: the same rules as for every other worker. */
import pg from 'pg';
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { sqlWorkers } from '../support/protocol.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const register = sqlWorkers(db);
const start = testWorkers();
const work = job<{ n: number; key?: string }>('work');
const numbers = (jobs: readonly { payload: { n: number } }[]) =>
  jobs.map(({ payload }) => payload.n);

beforeEach(() =>
  db.rows(
    `TRUNCATE holdfast.inbox, holdfast.inbox_claims, holdfast.inbox_archive, holdfast.workers`,
  ),
);

test('the oldest and most urgent come first, however many run in front of them', async () => {
  await db.hf.enqueueMany(Array.from({ length: 120 }, (_, n) => work.item({ n })));
  const busy = await register(['work']);
  expect(await busy.claim(100)).toHaveLength(100);
  await db.hf.enqueue(work, { n: 900 }, { priority: 1 });
  await db.hf.enqueue(work, { n: 901 }, { delay: '1h' });
  const worker = await register(['work']);
  expect(numbers(await worker.claim(3))).toEqual([900, 100, 101]);
  expect(numbers(await worker.claim(100))).toEqual(Array.from({ length: 18 }, (_, n) => n + 102));
});

test('what has waited for too long gets a share although more urgent jobs keep coming', async () => {
  await db.hf.enqueue(work, { n: 1 }, { priority: 4 });
  await db.rows(`UPDATE holdfast.inbox SET available_at = now() - interval '11 minutes'`);
  await db.hf.enqueueMany(Array.from({ length: 80 }, () => work.item({ n: 2 }, { priority: 1 })));
  const worker = await register(['work']);
  const came: number[] = [];
  while (!came.includes(1) && came.length < 80) came.push(...numbers(await worker.claim(1)));
  expect(came).toContain(1);
  expect(came.length).toBeLessThan(80);
});

test('only types and versions that it handles, and that are not paused', async () => {
  const newer = job<{ n: number }>('work', { version: 2 });
  const third = job<{ n: number }>('third');
  await db.hf.enqueue(work, { n: 1 });
  await db.hf.enqueue(newer, { n: 2 });
  await db.hf.enqueue(third, { n: 3 }, { partitionKey: 'k' });
  const old = await register(['work']);
  expect(numbers(await old.claim())).toEqual([1]);
  const both = await register(['work', 'third'], { versions: { work: 2 } });
  const some = 'SELECT payload FROM holdfast.worker_claim($1, types => ARRAY[$2])';
  expect(await db.rows(some, [both.id, 'fourth'])).toEqual([]);
  await db.hf.pause('inbox', { audit: false });
  expect(await both.claim()).toEqual([]);
  await db.hf.resume('inbox', { audit: false });
  await db.hf.pause('inbox', { key: 'k', audit: false });
  expect(await both.claim()).toMatchObject([{ type: 'work', version: 2 }]);
  await db.hf.resume('inbox', { key: 'k', audit: false });
  expect(await db.rows(some, [both.id, 'third'])).toHaveLength(1);
});

test('limits are shared with the workers in TypeScript', async () => {
  const limited = job<{ n: number }>('limited', { limit: { concurrency: 2 } });
  let running = 0;
  start(db.hf, (w) =>
    w.handle(limited, () => {
      running += 1;
      return new Promise(() => undefined);
    }),
  );
  await db.hf.enqueueMany([1, 2, 3].map((n) => limited.item({ n })));
  await until('two run', () => running === 2);
  const other = await register(['limited']);
  expect(await other.claim()).toEqual([]);
  await db.hf.limits.set({ type: 'limited' }, { concurrency: 3 });
  expect(numbers(await other.claim())).toEqual([3]);
});

test('keys of a rate have their tokens, and one without holds up nobody', async () => {
  const rated = job<{ n: number }>('rated', {
    limit: { rate: { limit: 1, per: '1h', key: ({ n }) => `${n % 3}` } },
  });
  const { stop } = start(db.hf, (w) => w.handle(rated, () => undefined));
  const known = `SELECT FROM holdfast.limits WHERE type = 'rated' AND keyed`;
  await until('the limit is known', async () => (await db.rows(known)).length > 0);
  await stop();
  await db.hf.enqueueMany(Array.from({ length: 9 }, (_, n) => rated.item({ n })));
  const worker = await register(['rated']);
  expect(numbers(await worker.claim()).sort()).toEqual([0, 1, 2]);
  expect(await worker.claim()).toEqual([]);
});

describe('by key', () => {
  test('one job of a key after the other; a failed one holds its key, a dead letter frees it', async () => {
    await db.hf.createQueue('orders', { ordering: 'key' });
    const step = job<{ n: number }>('step', { queue: 'orders', maxAttempts: 2 });
    const items = ['a', 'b'].flatMap((key) =>
      [1, 2].map((n) => step.item({ n }, { partitionKey: key })),
    );
    await db.hf.enqueueMany(items);
    const [one, two] = [
      await register(['step'], { queues: ['orders'] }),
      await register(['step'], { queues: ['orders'] }),
    ];
    const first = await one.claim(10, 'orders');
    expect(numbers(first)).toEqual([1, 1]);
    expect(await two.claim(10, 'orders')).toEqual([]);
    expect(await one.complete(first[0]!)).toBe('completed');
    const [next] = await two.claim(10, 'orders');
    expect(next).toMatchObject({ payload: { n: 2 }, partition_key: first[0]!.partition_key });
    expect(await one.settle('worker_fail', first[1]!, 'no', '0 seconds')).toBe('pending');
    const [again] = await two.claim(10, 'orders');
    expect(again).toMatchObject({ id: first[1]!.id, attempt: 2, generation: '2' });
    expect(await one.complete(first[1]!)).toBe('lost');
    expect(await two.fail(again!, 'no')).toBe('dead_letter');
    expect(await one.claim(10, 'orders')).toMatchObject([
      { payload: { n: 2 }, partition_key: first[1]!.partition_key },
    ]);
  });

  test('in turns, so many of each key at once', async () => {
    await db.hf.createQueue('fair', { perKey: 2, fair: true });
    const turn = job<{ n: number }>('turn', { queue: 'fair' });
    const items = ['a', 'b', 'c'].flatMap((key) =>
      [1, 2, 3, 4].map((n) => turn.item({ n }, { partitionKey: key })),
    );
    await db.hf.enqueueMany(items);
    const worker = await register(['turn'], { queues: ['fair'] });
    const first = await worker.claim(20, 'fair');
    expect(numbers(first)).toEqual([1, 1, 1, 2, 2, 2]);
    expect(await worker.claim(20, 'fair')).toEqual([]);
    await worker.complete(first[0]!);
    expect(numbers(await worker.claim(20, 'fair'))).toEqual([3]);
  });
});

describe('crashes', () => {
  const crash = async (id: string) => {
    await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = $1`, [id]);
    await db.rows(`UPDATE holdfast.queues SET serviced_at = '{}', maintained_at = NULL`);
    await (await register(['work'])).beat();
  };

  test('a job that kills its worker runs apart, then alone, and is a dead letter after its own attempts', async () => {
    const { id } = await db.hf.enqueue(work, { n: 0 }, { maxAttempts: 2 });
    await db.hf.enqueueMany(Array.from({ length: 30 }, (_, n) => work.item({ n: n + 1 })));
    const seen: [number, number][] = [];
    for (let process = 0; process < 6; process++) {
      const worker = await register(['work']);
      const given = [];
      // It takes all that it can get, and completes all but the first.
      for (let jobs = await worker.claim(); jobs.length > 0; jobs = await worker.claim())
        given.push(...jobs);
      const mine = given.find((one) => one.id === id);
      for (const one of given) if (one !== mine) await worker.complete(one);
      if (!mine) break;
      seen.push([mine.crashes, given.length]);
      await crash(worker.id);
    }
    // From the fourth crash on it runs alone, and only then a crash spends an attempt.
    expect(seen.map(([crashes]) => crashes)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(await db.hf.job(id)).toMatchObject({ status: 'dead_letter', attempts: 2 });
    expect(await db.rows('SELECT FROM holdfast.inbox_archive')).toHaveLength(30);
  });

  test('what must run alone is not given to a worker that holds another job, and it gets none beside it', async () => {
    const worker = await register(['work']);
    await db.hf.enqueue(work, { n: 1 });
    const [held] = await worker.claim();
    const { id } = await db.hf.enqueue(work, { n: 2 });
    await db.rows('UPDATE holdfast.inbox SET crashes = 4 WHERE id = $1', [id]);
    await db.hf.enqueue(work, { n: 3 });
    expect(await worker.claim()).toEqual([]);
    await worker.complete(held!);
    expect(numbers(await worker.claim())).toEqual([2]);
    expect(await worker.claim()).toEqual([]);
    expect(numbers(await (await register(['work'])).claim())).toEqual([3]);
  });
});

describe('a worker that is gone', () => {
  test('loses its jobs when its heartbeats stop for its TTL, where nobody works in TypeScript', async () => {
    const [gone, other] = [
      await register(['work'], { ttl: '1 second' }),
      await register(['work'], { ttl: '1 second' }),
    ];
    await db.hf.enqueue(work, { n: 1 });
    const [held] = await gone.claim();
    await until('the other one has it', async () => {
      expect(await other.beat()).toBe('alive');
      return (await other.claim()).length === 1;
    });
    expect(await gone.beat()).toBe('dead');
    expect(await gone.complete(held!)).toBe('lost');
    await expect(gone.claim()).rejects.toMatchObject({ code: 'HF008' });
    expect(await gone.leave()).toBe(null);
  });

  test('that held its lock is replaced as soon as its session ends, by workers in TypeScript', async () => {
    const session = new pg.Client({ connectionString: db.url });
    await session.connect();
    const sql = sqlWorkers({
      rows: async (text, params) => (await session.query(text, params)).rows,
    });
    const worker = await sql(['work'], { ttl: '1 day' });
    await db.hf.enqueue(work, { n: 1 });
    expect(await worker.claim()).toHaveLength(1);
    await session.query('SELECT holdfast.worker_hold($1)', [worker.id]);
    await worker.beat();
    const ran: number[] = [];
    start(db.hf, (w) => w.handle(work, ({ payload }) => void ran.push(payload.n)), {
      ...{ heartbeat: '200ms', maintenance: '200ms' },
    });
    expect(await worker.beat()).toBe('alive');
    await session.end();
    await until('it ran elsewhere', () => ran.length > 0);
  });

  test('leaves: what it holds goes back unspent', async () => {
    const worker = await register(['work']);
    await db.hf.enqueueMany([1, 2].map((n) => work.item({ n })));
    await worker.claim();
    expect(await worker.leave()).toBe('2');
    expect(await worker.beat()).toBe('dead');
    expect(await (await register(['work'])).claim()).toMatchObject([
      { attempt: 1, crashes: 0 },
      { attempt: 1, crashes: 0 },
    ]);
  });

  test('or drains: it gets nothing more, and may end what it has', async () => {
    const worker = await register(['work']);
    await db.hf.enqueueMany([1, 2].map((n) => work.item({ n })));
    const [held] = await worker.claim(1);
    await db.rows(`UPDATE holdfast.workers SET status = 'draining'`);
    expect(await worker.beat()).toBe('draining');
    expect(await worker.claim()).toEqual([]);
    expect(await worker.complete(held!)).toBe('completed');
  });
});

test('a worker that listens hears of a job that is due now', async () => {
  const session = new pg.Client({ connectionString: db.url });
  await session.connect();
  const heard: string[] = [];
  session.on('notification', ({ channel }) => void heard.push(channel));
  const worker = await register(['work']);
  const { rows } = await session.query('SELECT holdfast.worker_listen($1) AS channel', [worker.id]);
  expect(rows).toHaveLength(1);
  await db.hf.enqueue(work, { n: 1 });
  await until('it is told', () => heard.includes(rows[0].channel));
  await session.end();
});

test('heartbeats count what waits, where nobody works in TypeScript', async () => {
  await db.hf.createQueue('bounded');
  await db.hf.configureQueue('bounded', { maxPending: 3 });
  const small = job<{ n: number }>('small', { queue: 'bounded' });
  await db.hf.enqueueMany([1, 2, 3].map((n) => small.item({ n })));
  const worker = await register(['small'], { queues: ['bounded'] });
  const enqueue = () => db.rows(`SELECT id FROM holdfast.bounded_enqueue('small', '{"n": 5}')`);
  const recount = () => db.rows(`UPDATE holdfast.queues SET recount_at = now()`);
  await recount();
  await worker.beat();
  await expect(enqueue()).rejects.toMatchObject({ code: 'HF006' });
  for (const one of await worker.claim(3, 'bounded')) await worker.complete(one);
  await recount();
  await worker.beat();
  expect(await enqueue()).toHaveLength(1);
});

test('a renewal says what is still held, and nothing else is renewed', async () => {
  const worker = await register(['work']);
  await db.hf.enqueueMany([1, 2, 3].map((n) => work.item({ n })));
  const jobs = await worker.claim();
  await worker.complete(jobs[0]!);
  await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() WHERE id = $1`, [jobs[1]!.id]);
  expect(await worker.renew(jobs, '1 hour')).toEqual([{ id: jobs[2]!.id }]);
  expect(
    await db.rows(
      `SELECT id FROM holdfast.inbox WHERE lease_expires_at > now() + interval '59 minutes'`,
    ),
  ).toEqual([{ id: jobs[2]!.id }]);
});

test('many are completed in one call, with their results, and those that are lost are left out', async () => {
  const worker = await register(['work']);
  await db.hf.enqueueMany([1, 2, 3].map((n) => work.item({ n })));
  const jobs = await worker.claim();
  const many = (of: typeof jobs, results: object = {}) =>
    db.rows<{ id: string }>('SELECT id FROM holdfast.worker_complete_many($1, $2, $3, $4) AS id', [
      ...[worker.id, of.map(({ id }) => id), of.map(({ generation }) => generation)],
      JSON.stringify(results),
    ]);
  expect(await many(jobs.slice(0, 2), { [jobs[0]!.id]: 17 })).toHaveLength(2);
  expect(await db.hf.job(jobs[0]!.id)).toMatchObject({ status: 'completed', result: 17 });
  expect(await many(jobs)).toEqual([{ id: jobs[2]!.id }]);
  expect(await many(jobs)).toEqual([]);
});

test('a failure waits for a random time under the ceiling of its attempt, and long errors are cut', async () => {
  const worker = await register(['work']);
  await db.hf.enqueueMany(Array.from({ length: 40 }, (_, n) => work.item({ n })));
  const jobs = await worker.claim(40);
  for (const one of jobs) expect(await worker.fail(one, `${'€'.repeat(9_000)}`)).toBe('pending');
  const [row] = await db.rows(
    `SELECT max(extract(epoch FROM available_at - now())) <= 2 AS bounded,
       count(DISTINCT available_at) > 20 AS jittered, max(octet_length(last_error)) AS bytes,
       max(length(history -> -1 ->> 'error')) AS summary FROM holdfast.inbox`,
  );
  expect(row).toMatchObject({ bounded: true, jittered: true, summary: 300 });
  expect(row?.bytes).toBeLessThanOrEqual(8_192);
  expect(row?.bytes).toBeGreaterThan(8_100);
});

test('a dead letter writes its onDeadLetter job, and a child counts in its parent', async () => {
  const told = job('told');
  const dying = job<{ n: number }>('dying', { maxAttempts: 1, onDeadLetter: told });
  const { stop } = start(db.hf, (w) =>
    w.handle(dying, () => undefined).handle(told, () => undefined),
  );
  await until(
    'the hook is known',
    async () => (await db.rows('SELECT FROM holdfast.on_dead_letter')).length > 0,
  );
  await stop();
  await db.hf.enqueue(dying, { n: 1 });
  const worker = await register(['dying', 'told']);
  const [one] = await worker.claim();
  expect(await worker.fail(one!, 'Error: no')).toBe('dead_letter');
  expect(await worker.claim()).toMatchObject([{ type: 'told', payload: { id: one!.id } }]);
});

test.each([
  [`worker_register('{}')`, /names no job type/],
  [`worker_register(ARRAY['9 lives'])`, /names no job type, or '9 lives' is none/],
  [`worker_register(ARRAY['work'], ARRAY['nowhere'])`, /there is no queue 'nowhere'/],
  [`worker_register(ARRAY['work'], ttl => '1 ms')`, /TTL .* is out of range/],
  [`worker_register(ARRAY['work'], versions => '{"work": 0}')`, /versions must be/],
  [`worker_register(ARRAY['work'], metadata => '[]')`, /metadata is no object/],
  [
    `worker_claim(holdfast.worker_register(ARRAY['work']), 'orders')`,
    /does not serve queue 'orders'/,
  ],
  [`worker_claim(holdfast.worker_register(ARRAY['work']), most => 0)`, /out of range/],
  [`worker_claim(holdfast.worker_register(ARRAY['work']), lease => '1 ms')`, /out of range/],
  [`worker_renew('w', '{}', '{1}')`, /differ in length/],
  [`worker_complete('w', holdfast.new_id(), 1, queue => 'nowhere')`, /there is no queue 'nowhere'/],
  [`worker_fail('w', holdfast.new_id(), 1, 'no', '-1 s')`, /delay is negative/],
])('%s is refused', async (call, message) => {
  await expect(db.rows(`SELECT holdfast.${call}`)).rejects.toMatchObject({
    code: 'HF002',
    message: expect.stringMatching(message),
  });
});
