/** Limits in queues that are read by key, with real workers: beside perKey, in order, changed, and explained. */

import { beforeEach, describe, expect, test } from 'vitest';
import { type Duration, type Holdfast, holdfast, job } from '../../packages/holdfast/src/index.js';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
let queues = 0;
let queue: string;

beforeEach(() => {
  queue = `limited${++queues}`;
});

type Work = ReturnType<typeof define>;
const define = (
  type: string,
  limit?: { concurrency?: number; rate?: { limit: number; per: Duration; burst?: number } },
) => job<{ n: number }>(type, { queue, retry: () => 0, ...(limit && { limit }) });
const items = (of: Work, count: number, keys: number) =>
  Array.from({ length: count }, (_, n) => of.item({ n }, { partitionKey: `key:${n % keys}` }));
const done = (count: number) =>
  until(`${count} are done`, async () => {
    const [row] = await db.rows(`SELECT count(*)::int AS n FROM holdfast.${queue}_archive`);
    return row?.n === count;
  });

/** Counts what runs by name, and the most at once. */
function counting() {
  const running = new Map<string, number>();
  const most = new Map<string, number>();
  return {
    most,
    async during<Value>(names: readonly string[], work: () => Promise<Value>): Promise<Value> {
      for (const name of names) {
        const now = (running.get(name) ?? 0) + 1;
        running.set(name, now);
        most.set(name, Math.max(most.get(name) ?? 0, now));
      }
      try {
        return await work();
      } finally {
        for (const name of names) running.set(name, (running.get(name) as number) - 1);
      }
    },
  };
}
const pause = () => new Promise<void>((resolve) => setTimeout(resolve, 5));

describe('where keys take turns', () => {
  test('perKey, a type and the queue are limited together, over several workers', async () => {
    await db.hf.createQueue(queue, { perKey: 2, fair: true, limit: { concurrency: 6 } });
    const [slow, quick] = [define('slow', { concurrency: 3 }), define('quick')];
    const { most, during } = counting();
    const others: Holdfast = holdfast({ connectionString: db.url, logger: quietLogger });
    for (const hf of [db.hf, others, db.hf])
      start(
        hf,
        (w) =>
          w
            .handle(slow, ({ partitionKey }) => during(['slow', 'all', partitionKey], pause))
            .handle(quick, ({ partitionKey }) => during(['all', partitionKey], pause)),
        { concurrency: 8 },
      );
    await db.hf.enqueueMany([...items(slow, 60, 5), ...items(quick, 60, 5)]);
    await done(120);
    await others.close();
    expect(most.get('slow')).toBe(3);
    expect(most.get('all')).toBeLessThanOrEqual(6);
    for (let key = 0; key < 5; key++) expect(most.get(`key:${key}`)).toBeLessThanOrEqual(2);
  });

  test('types without a limit are not held up, and a limit that is raised counts at once', async () => {
    await db.hf.createQueue(queue, { perKey: 20 });
    const [held, free] = [define('held', { concurrency: 2 }), define('free')];
    const { opened, open } = gate();
    let [running, ran] = [0, 0];
    start(
      db.hf,
      (w) =>
        w
          .handle(held, async () => {
            running++;
            await opened;
          })
          .handle(free, () => void ran++),
      { concurrency: 20, poll: '60s' },
    );
    await db.hf.enqueueMany([...items(held, 8, 1), ...items(free, 8, 1)]);
    await until('the others ran', () => ran === 8 && running === 2);
    const waiting = await db.rows<{ id: string }>(
      `SELECT id FROM holdfast.${queue} WHERE status = 'pending' LIMIT 1`,
    );
    expect(await db.hf.explain(waiting[0]?.id as string)).toMatchObject({
      code: 'limit_reached',
      text: expect.stringContaining('2 of 2 permits'),
    });
    await db.hf.limits.set({ queue, type: 'held' }, { concurrency: 5 });
    await until('five run', () => running === 5);
    open();
    await done(16);
  });

  test('a rate lets all keys have their turn, and explain says when the next starts', async () => {
    await db.hf.createQueue(queue, { fair: true });
    const paced = define('paced', { rate: { limit: 2, per: '1h', burst: 1 } });
    const ran: string[] = [];
    start(db.hf, (w) => w.handle(paced, ({ partitionKey }) => void ran.push(partitionKey)));
    // One of them has many jobs.
    await db.hf.enqueueMany(items(paced, 50, 1));
    await until('one has run', () => ran.length === 1);
    const { id } = await db.hf.enqueue(paced, { n: 0 }, { partitionKey: 'single' });
    await until(
      'it waits for the rate',
      async () => (await db.hf.explain(id)).code === 'rate_limited',
    );
    expect((await db.hf.explain(id)).text).toMatch(
      /the next job may start at .*at most 2 "paced" jobs/s,
    );
    await db.hf.limits.set(
      { queue, type: 'paced' },
      { rate: { limit: 1_000, per: '1s', burst: 1 } },
    );
    await until('all ran', () => ran.length === 51);
    // The one with many does not go first with all of them, as a line of slots would have it.
    expect(ran.indexOf('single')).toBeLessThan(10);
  });
});

describe('in order', () => {
  test('keys keep their order under a rate and a concurrency, beside jobs without one', async () => {
    await db.hf.createQueue(queue, { ordering: 'key' });
    const limited = define('limited', { concurrency: 2, rate: { limit: 500, per: '1s' } });
    const plain = define('plain');
    const { most, during } = counting();
    const seen: Record<string, number[]> = {};
    const handler = (names: string[]) => (ctx: { partitionKey: string; payload: { n: number } }) =>
      during([...names, ctx.partitionKey], async () => {
        seen[ctx.partitionKey] = [...(seen[ctx.partitionKey] ?? []), ctx.payload.n];
        await pause();
      });
    for (let n = 0; n < 2; n++)
      start(db.hf, (w) => w.handle(limited, handler(['limited'])).handle(plain, handler([])));
    await db.hf.enqueueMany(
      Array.from({ length: 60 }, (_, n) =>
        (n % 4 < 2 ? limited : plain).item({ n }, { partitionKey: `key:${n % 3}` }),
      ),
    );
    await done(60);
    for (const list of Object.values(seen)) expect(list).toEqual(list.toSorted((a, b) => a - b));
    expect(most.get('limited')).toBeLessThanOrEqual(2);
    for (const key of [0, 1, 2]) expect(most.get(`key:${key}`)).toBe(1);
  });

  test('a key whose head waits for its rate is not overtaken, and goes on with the next start, without a poll', async () => {
    await db.hf.createQueue(queue, { ordering: 'key' });
    const paced = define('paced', { rate: { limit: 1, per: '1h' } });
    const plain = define('plain');
    const seen: number[] = [];
    const handler = (ctx: { payload: { n: number } }) => void seen.push(ctx.payload.n);
    start(db.hf, (w) => w.handle(paced, handler).handle(plain, handler), { poll: '60s' });
    const enqueue = (of: Work, n: number, partitionKey: string) =>
      db.hf.enqueue(of, { n }, { partitionKey });
    await enqueue(paced, 0, 'a');
    await until('the first has run', () => seen.length === 1);
    const head = await enqueue(paced, 1, 'a');
    const next = await enqueue(paced, 2, 'a');
    await enqueue(plain, 3, 'a');
    await enqueue(plain, 9, 'b');
    await until('another key goes on', () => seen.includes(9));
    expect((await db.hf.explain(head.id)).code).toBe('rate_limited');
    expect((await db.hf.explain(next.id)).code).toBe('key_held');
    // The head leaves a hole, and whoever is the head then still waits.
    await db.hf.cancel([head.id]);
    await enqueue(plain, 10, 'b');
    await until('another key goes on', () => seen.includes(10));
    expect(seen).toEqual([0, 9, 10]);
    expect((await db.hf.explain(next.id)).code).toBe('rate_limited');
    await db.hf.limits.set({ queue, type: 'paced' }, { rate: { limit: 20, per: '1s', burst: 1 } });
    await until('the key has gone on', () => seen.includes(3));
    for (let n = 4; n < 9; n++) await enqueue(n % 2 ? plain : paced, n, 'a');
    await until('to its end', () => seen.includes(8));
    expect(seen.filter((n) => n < 9)).toEqual([0, 2, 3, 4, 5, 6, 7, 8]);
  });

  test('a job that fails starts again before what follows it, and holds no place meanwhile', async () => {
    await db.hf.createQueue(queue, { ordering: 'key', limit: { concurrency: 1 } });
    const step = define('step');
    const seen: string[] = [];
    start(db.hf, (w) =>
      w.handle(step, ({ payload, partitionKey, attempt }) => {
        seen.push(`${partitionKey} ${payload.n}`);
        if (attempt < 3) throw new Error('not yet');
      }),
    );
    await db.hf.enqueueMany(items(step, 6, 2));
    await done(6);
    for (const key of [0, 1])
      expect(seen.filter((one) => one.startsWith(`key:${key}`))).toEqual(
        [key, key + 2, key + 4].flatMap((n) => Array(3).fill(`key:${key} ${n}`)),
      );
  });
});

describe('a backlog under a rate', () => {
  const KEYS = 5;
  const EACH = 25;
  const RATE = 20;

  const apart = Array.from({ length: KEYS }, (_, n) => `key:${n}`);
  const together: string[] = [];
  for (let n = 0; together.length < KEYS; n++)
    if (bucketOf(`key:${n}`) === bucketOf('key:0')) together.push(`key:${n}`);

  /** How long it takes until each key has started so many, in multiples of what the rate asks for. */
  const paced = async (keyed: boolean, names: readonly string[] = apart, workers = 1) => {
    const rate = { limit: RATE, per: '1s', burst: 1 } as const;
    const call = job<{ key: string }>('call', {
      queue,
      limit: { rate: keyed ? { ...rate, key: ({ key }: { key: string }) => key } : rate },
    });
    const started = new Map<string, number>();
    const count = (key: string) => void started.set(key, (started.get(key) ?? 0) + 1);
    const up = Array.from({ length: workers }, () =>
      start(db.hf, (w) => w.handle(call, ({ payload: { key } }) => count(key))),
    );
    await until('they are up', () => up.every(({ events }) => events.length > 0));
    const keys = Array.from({ length: EACH }, () => names).flat();
    const from = performance.now();
    await db.hf.enqueueMany(
      [...keys, ...keys].map((key) => call.item({ key }, { partitionKey: key })),
    );
    // Of all keys together so many that chance evens out.
    const atPace = keyed ? EACH : 4 * EACH;
    const enough = keyed ? KEYS * EACH : atPace;
    await until(
      'many have started',
      () => [...started.values()].reduce((a, b) => a + b, 0) >= enough,
    );
    const times = (performance.now() - from) / ((atPace * 1_000) / RATE);
    return { times, counts: [...started.values()] };
  };

  const PACES = [
    ['by key', { ordering: 'key' }],
    ['by time', {}],
    ['in turns', { fair: true }],
  ] as const;
  test.each(PACES.slice(0, long(1, PACES.length)))(
    'with a rate for each key, every key starts at its pace (%s)',
    async (_, options) => {
      await db.hf.createQueue(queue, options);
      const { times, counts } = await paced(true);
      // Of keys that wait for each other the last one would come after five times as long.
      expect(times).toBeLessThan(4);
      expect(Math.min(...counts)).toBeGreaterThan(EACH / 2);
    },
  );

  const SHARES = [
    ['in turns, in one bucket', { fair: true }, 1, together],
    ['by key', { ordering: 'key' }, 1, apart],
    ['in turns', { fair: true }, 1, apart],
    ['in turns, by three workers', { fair: true }, 3, apart],
    ['by key, in one bucket', { ordering: 'key' }, 1, together],
  ] as const;
  test.each(SHARES.slice(0, long(1, SHARES.length)))(
    'keys under one rate have an equal share (%s)',
    async (_, options, workers, names) => {
      await db.hf.createQueue(queue, options);
      const { times, counts } = await paced(false, names, workers);
      expect(times).toBeLessThan(4);
      expect(counts).toHaveLength(KEYS);
      // Each has 20 of 100; every worker has a round of its own.
      expect(Math.min(...counts)).toBeGreaterThanOrEqual(15);
    },
  );

  test.each([
    ['by key', { ordering: 'key' }],
    ['in turns', { fair: true }],
  ] as const)(
    'types of one pace do not keep a key of each other waiting (%s)',
    async (_, options) => {
      await db.hf.createQueue(queue, options);
      const limit = { rate: { limit: RATE, per: '1s', burst: 1 } } as const;
      const [one, two] = [define('one', limit), define('two', limit)];
      // In the order of their buckets, the third of another type: it once made the round pass over the second.
      const [first, second, third] = apart.toSorted((a, b) => bucketOf(a) - bucketOf(b));
      const of = (work: Work, key = '') =>
        Array.from({ length: 200 }, (_, n) => work.item({ n }, { partitionKey: key }));
      await db.hf.enqueueMany([...of(one, first), ...of(one, second), ...of(two, third)]);
      const started = new Map<string, number>();
      const count = (key: string) => void started.set(key, (started.get(key) ?? 0) + 1);
      start(db.hf, (w) =>
        w
          .handle(one, ({ partitionKey }) => count(partitionKey))
          .handle(two, ({ partitionKey }) => count(partitionKey)),
      );
      await until(
        'sixty have started',
        () => [...started.values()].reduce((a, b) => a + b, 0) >= 60,
      );
      for (const key of [first, second]) expect(started.get(key ?? '') ?? 0).toBeGreaterThan(8);
    },
  );
});
