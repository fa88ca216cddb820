/** Queues whose keys take turns, with real workers: side by side, in turn, by weight, and never stuck. */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { percentile } from '../support/calm.js';
import { testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
let queues = 0;
let queue: string;

const define = () => job<{ n: number }>('step', { queue, retry: () => 0 });

beforeEach(() => {
  queue = `turns${++queues}`;
});

const left = async () => (await db.rows(`SELECT FROM holdfast.${queue} LIMIT 1`)).length;
const empty = (timeoutMs = 30_000) =>
  until('the queue is empty', async () => (await left()) === 0, { timeoutMs });

describe('perKey', () => {
  test('a job that waits for its retry lets the next one run at once', async () => {
    await db.hf.createQueue(queue, { perKey: 1 });
    const step = job<{ n: number }>('step', { queue, retry: () => 600_000 });
    await db.hf.enqueueMany(
      Array.from({ length: 20 }, (_, n) => step.item({ n }, { partitionKey: 'a' })),
    );
    let ran = 0;
    start(
      db.hf,
      (w) =>
        w.handle(step, () => {
          ran++;
          throw new Error('no paper');
        }),
      { poll: '60s' },
    );
    await until('each has run once', () => ran === 20);
  });

  test('jobs of a key run beside each other, as many as may and no more, and start in their order', async () => {
    await db.hf.createQueue(queue, { perKey: 3 });
    const step = define();
    await db.hf.enqueueMany(
      Array.from({ length: 60 }, (_, n) =>
        step.item({ n }, { partitionKey: n % 2 ? 'odd' : 'even' }),
      ),
    );
    const running = new Map<string, number>();
    const most = new Map<string, number>();
    const begun: Record<string, number[]> = { odd: [], even: [] };
    start(
      db.hf,
      (w) =>
        w.handle(step, async ({ partitionKey: key, payload }) => {
          begun[key]?.push(payload.n);
          const now = (running.get(key) ?? 0) + 1;
          running.set(key, now);
          most.set(key, Math.max(most.get(key) ?? 0, now));
          await new Promise((resolve) => setTimeout(resolve, 5));
          running.set(key, (running.get(key) ?? 0) - 1);
        }),
      { concurrency: 20 },
    );
    await empty();
    expect(Object.fromEntries(most)).toEqual({ odd: 3, even: 3 });
    for (const list of Object.values(begun)) expect(list).toEqual(list.toSorted((a, b) => a - b));
  });

  test('a key that was full is worked on when another worker has freed it', async () => {
    await db.hf.createQueue(queue, { perKey: 1 });
    const step = define();
    const held = gate();
    const ran: string[] = [];
    const keys = ['a', 'b', 'c'];
    await db.hf.enqueueMany(keys.map((key) => step.item({ n: 0 }, { partitionKey: key })));
    // It takes all of them, and has no handler free for what comes after.
    const busy = start(
      db.hf,
      (w) =>
        w.handle(step, async ({ payload, partitionKey }) => {
          ran.push(`busy ${partitionKey} ${payload.n}`);
          await held.opened;
        }),
      { concurrency: 3 },
    );
    await until('all keys are full', () => ran.length === 3);
    await db.hf.enqueueMany(keys.map((key) => step.item({ n: 1 }, { partitionKey: key })));
    start(db.hf, (w) =>
      w.handle(step, ({ payload, partitionKey }) => {
        ran.push(`other ${partitionKey} ${payload.n}`);
      }),
    );
    const stopping = busy.worker.stop();
    held.open();
    await stopping;
    await empty();
    expect(ran.slice(3).toSorted()).toEqual(keys.map((key) => `other ${key} 1`));
  });

  test('a limit that is raised lets what waits start at once', async () => {
    await db.hf.createQueue(queue, { perKey: 1 });
    const step = define();
    const held = gate();
    let running = 0;
    await db.hf.enqueueMany(
      Array.from({ length: 4 }, (_, n) => step.item({ n }, { partitionKey: 'a' })),
    );
    start(
      db.hf,
      (w) =>
        w.handle(step, async () => {
          running++;
          await held.opened;
        }),
      { poll: '60s' },
    );
    await until('one runs', () => running === 1);
    await db.hf.configureQueue(queue, { perKey: 3 });
    await until('three run', () => running === 3);
    held.open();
    await empty();
  });
});

describe('fair', () => {
  const SMALL = 99;
  const EACH = long(3, 20);
  const BIG = long(3_000, 100_000);

  /** At which place of all starts the jobs of the small tenants were started. */
  async function places(withBig: boolean): Promise<number[]> {
    await db.hf.createQueue(queue, { fair: true });
    const step = define();
    const tenants = Array.from({ length: SMALL }, (_, n) => `tenant:${n}`);
    if (withBig)
      await db.rows(
        `INSERT INTO holdfast.${queue} (type, partition_key, payload)
         SELECT 'step', 'big', '{"n": 0}' FROM generate_series(1, $1::int)`,
        [BIG],
      );
    await db.hf.enqueueMany(
      tenants.flatMap((key) =>
        Array.from({ length: EACH }, (_, n) => step.item({ n }, { partitionKey: key })),
      ),
    );
    const found: number[] = [];
    let started = 0;
    const { worker } = start(db.hf, (w) =>
      w.handle(step, ({ partitionKey }) => {
        if (partitionKey !== 'big') found.push(started);
        started++;
      }),
    );
    await until('all small tenants are served', () => found.length === SMALL * EACH, {
      timeoutMs: long(30_000, 300_000),
    });
    await worker.stop();
    return found;
  }

  test('a tenant with thousands of jobs holds the others up by a round of keys and no more', async () => {
    const alone = percentile(await places(false), 0.99);
    queue = `turns${++queues}`;
    const beside = percentile(await places(true), 0.99);
    expect(beside).toBeLessThanOrEqual(2 * alone);
  });

  test('weights are kept while all keys have more than enough', async () => {
    await db.hf.createQueue(queue, { fair: true, weights: { gold: 3, silver: 2 } });
    const step = define();
    const keys = ['gold', 'silver', 'tin'];
    await db.hf.enqueueMany(
      keys.flatMap((key) =>
        Array.from({ length: 600 }, (_, n) => step.item({ n }, { partitionKey: key })),
      ),
    );
    const begun: string[] = [];
    const { worker } = start(
      db.hf,
      (w) =>
        w.handle(step, async ({ partitionKey }) => {
          begun.push(partitionKey);
          await new Promise((resolve) => setTimeout(resolve, 1));
        }),
      // Jobs claimed ahead of time would begin in the order in which a busy machine gets to them.
      { concurrency: 4, prefetch: 0 },
    );
    await until('many have begun', () => begun.length >= 1_000);
    void worker.stop();
    const share = (key: string) => begun.slice(0, 1_000).filter((one) => one === key).length;
    expect(share('gold') / 500).toBeCloseTo(1, 1);
    expect(share('silver') / 333).toBeCloseTo(1, 1);
    expect(share('tin') / 167).toBeCloseTo(1, 1);
  });

  test('a single key is worked off in large claims', async () => {
    await db.hf.createQueue(queue, { fair: true });
    const step = define();
    await db.hf.enqueueMany(
      Array.from({ length: 2_000 }, (_, n) => step.item({ n }, { partitionKey: 'a' })),
    );
    let claims = 0;
    start(db.hf, (w) => w.handle(step, () => undefined), {
      onEvent: (event) => {
        if (event.kind === 'statement' && event.statement === 'claim') claims++;
      },
    });
    await empty();
    expect(claims).toBeLessThan(200);
  });
});

describe('perGroup', () => {
  test('a place that is free goes to the next key of the group at once', async () => {
    await db.hf.createQueue(queue, { perGroup: 2, fair: true });
    const step = define();
    await db.hf.enqueueMany(
      Array.from({ length: 30 }, (_, n) =>
        step.item({ n }, { partitionKey: `user:${n}`, group: 'g' }),
      ),
    );
    start(db.hf, (w) => w.handle(step, () => new Promise<void>((end) => setTimeout(end, 5))), {
      poll: '60s',
    });
    await empty();
  });
});
