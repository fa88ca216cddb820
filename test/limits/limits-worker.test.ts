/** Limits as workers keep them: declared when they start, held by several at once, and changed while jobs wait. */
import { beforeEach, describe, expect, test } from 'vitest';
import { holdfast, job, type WorkerEvent } from '../../packages/holdfast/src/index.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { testDatabase } from '../support/database.js';
import { mostWithin, NOTE_STARTS, type NotedStart, STARTS } from '../support/limited.js';
import { quietLogger } from '../support/logger.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

beforeEach(async () => {
  for (const table of ['limits', 'permits', 'inbox', 'inbox_claims', 'inbox_archive', 'workers'])
    await db.rows(`DELETE FROM holdfast.${table}`);
  await db.rows('DROP TABLE IF EXISTS claims_noted; DROP FUNCTION IF EXISTS note_start CASCADE');
});

const limits = () =>
  db.rows(`SELECT type, concurrency::int, rate_limit::int, overridden FROM holdfast.limits
    ORDER BY type`);
const done = (count: number) =>
  until(`${count} jobs are done`, async () => {
    const [row] = await db.rows(`SELECT count(*)::int AS n FROM holdfast.inbox_archive`);
    return (row?.n as number) >= count;
  });
const started = (events: readonly WorkerEvent[]) => events.some(({ kind }) => kind === 'started');
const items = (of: ReturnType<typeof job<{ n: number }>>, count: number) =>
  Array.from({ length: count }, (_, n) => of.item({ n }));

describe('a worker', () => {
  test('declares the limits of its types when it starts, and what has gone from its code goes', async () => {
    const [a, b] = [job('a', { limit: { concurrency: 2 } }), job('b')];
    const first = start(db.hf, (w) => w.handle(a, () => undefined).handle(b, () => undefined));
    await until('it runs', () => started(first.events));
    expect(await limits()).toEqual([
      { type: 'a', concurrency: 2, rate_limit: null, overridden: false },
    ]);
    await first.stop();
    await db.hf.limits.set({ type: 'a' }, { concurrency: 1 });
    const b2 = job('b', { limit: { rate: { limit: 7, per: '1s' } } });
    const second = start(db.hf, (w) =>
      w.handle(job('a'), () => undefined).handle(b2, () => undefined),
    );
    await until('it runs', () => started(second.events));
    expect(await limits()).toEqual([
      { type: 'a', concurrency: 1, rate_limit: null, overridden: true },
      { type: 'b', concurrency: null, rate_limit: 7, overridden: false },
    ]);
    await db.hf.limits.reset({ type: 'a' });
    expect(await limits()).toMatchObject([{ type: 'b' }]);
  });
});

test('a limited type and others have their turn in due order, one after the other', async () => {
  const [plain, few] = [
    job<{ n: number }>('plain'),
    job<{ n: number }>('few', { limit: { concurrency: 5, rate: { limit: 10_000, per: '1s' } } }),
  ];
  for (let n = 0; n < 20; n++) await db.hf.enqueue(n % 3 ? plain : few, { n });
  const seen: number[] = [];
  const handler = ({ payload }: { payload: { n: number } }) => void seen.push(payload.n);
  start(db.hf, (w) => w.handle(plain, handler).handle(few, handler), {
    ...{ concurrency: 1, prefetch: 0 },
  });
  await done(20);
  expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => n));
});

describe('a concurrency', () => {
  const held = job<{ n: number }>('held', { limit: { concurrency: 3 } });

  test('holds over several workers, is used in full, and other types run beside it', async () => {
    const [here, other] = [held, job<{ n: number }>('other')];
    const others = holdfast({ connectionString: db.url, logger: quietLogger });
    let [running, most, ran] = [0, 0, 0];
    const handler = async () => {
      running++;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 15));
      running--;
    };
    for (const hf of [db.hf, others, db.hf])
      start(hf, (w) => w.handle(here, handler).handle(other, () => void ran++), { concurrency: 5 });
    await db.hf.enqueueMany([...items(here, 60), ...items(other, 60)]);
    await until('the others ran', () => ran === 60);
    await done(120);
    expect(most).toBe(3);
    await others.close();
  });

  test('holds for jobs that are handled together: a batch is as large as its places', async () => {
    const sizes: number[] = [];
    let [running, most] = [0, 0];
    const options = { max: 10, within: '20ms' } as const;
    for (let n = 0; n < 2; n++)
      start(db.hf, (w) =>
        w.handleMany(held, options, async ({ length }) => {
          sizes.push(length);
          running += length;
          most = Math.max(most, running);
          await new Promise((resolve) => setTimeout(resolve, 10));
          running -= length;
        }),
      );
    await db.hf.enqueueMany(items(held, 24));
    await done(24);
    expect(most).toBe(3);
    expect(Math.max(...sizes)).toBeGreaterThan(1);
  });

  test('is filled again as soon as a place is free, without a poll', async () => {
    const quick = job<{ n: number }>('quick', { limit: { concurrency: 5 } });
    // A claim gets all that it asks for, and the next one finds no place: the jobs are just being settled.
    start(db.hf, (w) => w.handle(quick, () => undefined), { concurrency: 5, poll: '60s' });
    await db.hf.enqueueMany(items(quick, 200));
    await done(200);
  });

  test('of a queue counts all of its types', async () => {
    await db.hf.configureQueue('inbox', { limit: { concurrency: 2 } });
    let [running, most] = [0, 0];
    const handler = async () => {
      running++;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 10));
      running--;
    };
    const [a, b] = [job<{ n: number }>('a'), job<{ n: number }>('b')];
    for (let n = 0; n < 2; n++) start(db.hf, (w) => w.handle(a, handler).handle(b, handler));
    await db.hf.enqueueMany([...items(a, 20), ...items(b, 20)]);
    await done(40);
    expect(most).toBe(2);
  });

  test('that is raised or taken away takes effect at once', async () => {
    const { opened, open } = gate();
    let running = 0;
    const handler = async () => {
      running++;
      await opened;
    };
    start(db.hf, (w) => w.handle(held, handler), { concurrency: 20, poll: '60s' });
    await db.hf.enqueueMany(items(held, 12));
    await until('three run', () => running === 3);
    await db.hf.limits.set({ type: 'held' }, { concurrency: 5 });
    await until('five run', () => running === 5, { timeoutMs: 5_000 });
    await db.hf.limits.set({ type: 'held' }, null);
    await until('all run', () => running === 12, { timeoutMs: 5_000 });
    open();
    await done(12);
  });

  test('that is put on a type which runs already counts what runs', async () => {
    const free = job<{ n: number }>('free');
    const { opened, open } = gate();
    let running = 0;
    const handler = async () => {
      running++;
      await opened;
    };
    start(db.hf, (w) => w.handle(free, handler), { concurrency: 4, prefetch: 0 });
    await db.hf.enqueueMany(items(free, 4));
    await until('four run', () => running === 4);
    await db.hf.limits.set({ type: 'free' }, { concurrency: 4 });
    const late = start(db.hf, (w) => w.handle(free, handler), { concurrency: 4 });
    await until('it runs', () => started(late.events));
    await db.hf.enqueueMany(items(free, 4));
    const [id] = await db.rows<{ id: string }>(
      `SELECT id FROM holdfast.inbox WHERE status = 'pending' LIMIT 1`,
    );
    await until('it says so', async () => {
      return (await db.hf.explain(id?.id as string)).code === 'limit_reached';
    });
    expect(running).toBe(4);
    open();
    await done(8);
  });
});

describe('the handlers of a worker', () => {
  test('are left to others while a limited type waits for its tokens', async () => {
    const slow = job<{ n: number }>('slow', { limit: { rate: { limit: 1, per: '1h' } } });
    const plain = job<{ n: number }>('plain');
    const { opened, open } = gate();
    let [slows, plains] = [0, 0];
    start(
      db.hf,
      (w) =>
        w
          .handle(slow, () => void slows++)
          .handle(plain, async () => {
            plains++;
            await opened;
          }),
      { concurrency: 4, prefetch: 0 },
    );
    await db.hf.enqueueMany(items(slow, 50));
    await until('one has run, and the others wait', () => slows === 1);
    await db.hf.enqueueMany(items(plain, 4));
    await until('they have all handlers', () => plains === 4);
    open();
    await done(5);
    expect(slows).toBe(1);
  });
});

describe('a rate', () => {
  const LIMIT = 50;
  /** What half a second of a busy machine may cost. */
  const BURST = 25;
  const SECONDS = long(2, 20);

  test('is kept in every window and used in full, by several workers', async () => {
    await db.rows(NOTE_STARTS);
    const paced = job<{ n: number }>('paced', {
      limit: { rate: { limit: LIMIT, per: '1s', burst: BURST } },
    });
    const metrics = collectMetrics(db.hf, { freshFor: 0 });
    for (let n = 0; n < 3; n++) {
      const one = start(db.hf, (w) => w.handle(paced, () => undefined), { concurrency: 4 });
      await until('it runs', () => started(one.events));
    }
    await db.hf.enqueueMany(items(paced, LIMIT * SECONDS + BURST));
    await done(LIMIT * SECONDS + BURST);
    const starts = await db.rows<NotedStart>(STARTS);
    expect(starts).toHaveLength(LIMIT * SECONDS + BURST);
    expect(mostWithin(starts, 1_000)).toBeLessThanOrEqual(LIMIT + BURST);
    const times = starts.map(({ before }) => before);
    const seconds = (Math.max(...times) - Math.min(...times)) / 1_000;
    const reached = (times.length - BURST) / seconds / LIMIT;
    if (process.env.CALM_FIGURES) console.error(`${(100 * reached).toFixed(1)} % of the rate`);
    expect(reached).toBeGreaterThan(long(0.9, 0.98));
    const page = await metrics.text();
    expect(page).toMatch(/holdfast_jobs_throttled_total\{queue="inbox",type="paced"\} \d+/);
    expect(page).toMatch(/holdfast_limit_waiting\{queue="inbox",type="paced"\} 0/);
  }, 60_000);

  test('that is raised lets those that wait start earlier, without a poll', async () => {
    const slow = job<{ n: number }>('slow', { limit: { rate: { limit: 1, per: '1h' } } });
    let ran = 0;
    const { events } = start(db.hf, (w) => w.handle(slow, () => void ran++), { poll: '60s' });
    await db.hf.enqueueMany(items(slow, 10));
    await until('they wait', () => events.some(({ kind }) => kind === 'throttled'));
    expect(ran).toBe(1);
    await db.hf.limits.set({ type: 'slow' }, { rate: { limit: 50, per: '1s' } });
    await until('all ran', () => ran === 10, { timeoutMs: 5_000 });
  });

  test('starts a job that fails again in its turn', async () => {
    const flaky = job<{ n: number }>('flaky', {
      ...{ retry: () => 1, limit: { rate: { limit: 40, per: '1s', burst: 1 } } },
    });
    await db.rows(NOTE_STARTS);
    start(db.hf, (w) =>
      w.handle(flaky, ({ attempt }) => {
        if (attempt === 1) throw new Error('once');
      }),
    );
    await db.hf.enqueueMany(items(flaky, 15));
    await done(15);
    const starts = await db.rows<NotedStart>(STARTS);
    expect(starts).toHaveLength(30);
    expect(mostWithin(starts, 250)).toBeLessThanOrEqual(11);
  });
});
