/** Order per key as a worker keeps it: runs with children, with failures, with transactions. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const step = job<{ n: number; how?: string }>('step', { queue: 'steps', retry: () => 0 });
const child = job<{ n: number }>('child', { queue: 'steps' });
const doomed = job('doomed', { queue: 'steps', retry: () => 3_600_000 });

beforeAll(() => db.hf.createQueue('steps', { ordering: 'key' }));

beforeEach(async () => {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.steps, holdfast.steps_archive');
});

const KEYS = ['a', 'b', 'c'];
const items = (count: number, how?: (n: number) => string | undefined) =>
  Array.from({ length: count }, (_, n) => {
    const way = how?.(n);
    return step.item(
      { n, ...(way && { how: way }) },
      { partitionKey: KEYS[n % KEYS.length] as string },
    );
  });

const finished = (count: number) =>
  until('all is done', async () => {
    const [row] = await db.rows<{ n: number }>(
      "SELECT count(*)::int AS n FROM holdfast.steps_archive WHERE type = 'step'",
    );
    return row?.n === count;
  });

describe('a run of one key', () => {
  test('whose jobs have children runs each of them once, in order', async () => {
    await db.hf.enqueueMany(items(90, (n) => (n % 2 ? 'child' : undefined)));
    const seen: number[] = [];
    const { worker } = start(db.hf, (w) =>
      w
        .handle(child, () => undefined)
        .handle(step, async ({ payload, enqueue }) => {
          seen.push(payload.n);
          if (payload.how) await enqueue(child, { n: payload.n });
        }),
    );
    await finished(90);
    for (const [first] of KEYS.entries()) {
      const ofKey = seen.filter((n) => n % KEYS.length === first);
      expect(ofKey).toEqual([...ofKey].sort((a, b) => a - b));
    }
    expect(seen).toHaveLength(90);
    expect(worker.stats).toMatchObject({ lost: 0, failed: 0, released: 0 });
  });

  test('that fails at its head keeps no other key waiting, and costs those behind nothing', async () => {
    const keys = Array.from({ length: 60 }, (_, n) => `failing:${n}`);
    const line = (key: string) =>
      Array.from({ length: 20 }, () => doomed.item({}, { partitionKey: key }));
    await db.hf.enqueueMany(keys.flatMap(line));
    const tried = new Set<string>();
    const { worker } = start(db.hf, (w) =>
      w.handle(doomed, ({ partitionKey: key }) => {
        tried.add(key);
        throw new Error('always');
      }),
    );
    await until('every key has been tried', () => tried.size === keys.length);
    await worker.stop();
    const spent = await db.rows('SELECT partition_key FROM holdfast.steps WHERE attempts > 0');
    expect(spent).toHaveLength(keys.length);
    expect(worker.stats).toMatchObject({ failed: keys.length, lost: 0 });
  });

  test('waits for the one that fails, and nothing behind it spends an attempt', async () => {
    await db.hf.enqueueMany(items(30, (n) => (n % 6 === 0 ? 'fails once' : undefined)));
    const seen: number[] = [];
    start(db.hf, (w) =>
      w.handle(step, ({ payload, attempt }) => {
        if (payload.how && attempt === 1) throw new Error('not yet');
        seen.push(payload.n);
      }),
    );
    await finished(30);
    for (const [first] of KEYS.entries()) {
      const ofKey = seen.filter((n) => n % KEYS.length === first);
      expect(ofKey).toEqual(Array.from({ length: 10 }, (_, k) => first + k * KEYS.length));
    }
    const spent = await db.rows<{ n: number; attempts: number }>(
      "SELECT (payload ->> 'n')::int AS n, attempts FROM holdfast.steps_archive WHERE type = 'step'",
    );
    for (const { n, attempts } of spent) expect(attempts).toBe(n % 6 === 0 ? 2 : 1);
  });

  test('commits the transaction of a job only after the one before it is settled', async () => {
    await db.rows('CREATE TABLE IF NOT EXISTS effects (n int, before_left int)');
    await db.hf.enqueueMany(items(30, (n) => (n % 2 ? 'transaction' : undefined)));
    start(db.hf, (w) =>
      w.handle(step, async ({ payload, partitionKey: key, transaction }) => {
        if (!payload.how) return;
        await transaction(async (tx) => {
          const { rows } = await tx.query(
            `SELECT count(*)::int AS n FROM holdfast.steps
             WHERE partition_key = $1 AND (payload ->> 'n')::int < $2`,
            [key, payload.n],
          );
          await tx.query('INSERT INTO effects VALUES ($1, $2)', [payload.n, rows[0].n]);
        });
      }),
    );
    await finished(30);
    const early = await db.rows('SELECT n FROM effects WHERE before_left > 0');
    expect(early).toEqual([]);
  });

  test('goes on behind a job whose lease was lost only after that one has run again', async () => {
    await db.hf.enqueueMany(
      [0, 1, 2].map((n) =>
        step.item({ n, ...(n === 0 && { how: 'lost' }) }, { partitionKey: 'a' }),
      ),
    );
    const seen: string[] = [];
    start(db.hf, (w) =>
      w.handle(step, async ({ payload, fenceToken }) => {
        seen.push(`${payload.n}:${fenceToken}`);
        // What a human does, or a renewal that came too late: the completion of this attempt is refused.
        if (payload.how && fenceToken === 1) {
          await db.rows(
            "UPDATE holdfast.steps SET lease_expires_at = now() WHERE (payload ->> 'n')::int = 0",
          );
        }
      }),
    );
    await finished(3);
    const ends = await db.rows<{ n: number }>(
      "SELECT (payload ->> 'n')::int AS n FROM holdfast.steps_archive ORDER BY completed_at, id",
    );
    expect(ends.map(({ n }) => n)).toEqual([0, 1, 2]);
    expect(seen.lastIndexOf('0:2')).toBeLessThan(seen.findLastIndex((one) => one.startsWith('1:')));
  });
});

test('a run that a full claim cut short goes on as soon as it is done, not at the next poll', async () => {
  const slow = job('slow', { queue: 'steps' });
  // Quick jobs first, so that runs are long; then one claim of 8 finds all 3 of `a` and 5 of the 20 of `b`.
  await db.hf.enqueueMany(
    Array.from({ length: 60 }, (_, n) => step.item({ n }, { partitionKey: `w${n}` })),
  );
  let ran = 0;
  start(
    db.hf,
    (w) =>
      w
        .handle(step, () => undefined)
        .handle(slow, async () => {
          await new Promise((resolve) => setTimeout(resolve, 50));
          ran++;
        }),
    { poll: '60s', batchSize: 8 },
  );
  await finished(60);
  await db.hf.enqueueMany(
    Array.from({ length: 23 }, (_, n) => slow.item({}, { partitionKey: n < 3 ? 'a' : 'b' })),
  );
  await until('all of them ran', () => ran === 23, { timeoutMs: 20_000 });
});

test.each([
  [long(300, 1_000), 10, 1],
  [37, 100, 1],
  [200, 20, 2],
])(
  '%i keys with %i jobs each are drained by %i workers without a pause',
  async (keys, each, count) => {
    for (let n = 0; n < each; n++) {
      await db.hf.enqueueMany(
        Array.from({ length: keys }, (_, key) => step.item({ n }, { partitionKey: `k${key}` })),
      );
    }
    const ranAt: number[] = [];
    const seen = new Map<string, number[]>();
    for (let n = 0; n < count; n++) {
      start(
        db.hf,
        (w) =>
          w.handle(step, async ({ partitionKey: key, payload }) => {
            await new Promise((resolve) => setTimeout(resolve, 1));
            seen.set(key, [...(seen.get(key) ?? []), payload.n]);
            ranAt.push(performance.now());
          }),
        { poll: '30s' },
      );
    }
    await until('all of them ran', () => ranAt.length === keys * each);
    // A pause as long as a poll, or as a look that is put off, would be longer.
    const pauses = ranAt.map((at, n) => at - (ranAt[n - 1] ?? at));
    expect(Math.max(...pauses)).toBeLessThan(1_500);
    for (const [key, ns] of seen)
      expect(ns, key).toEqual(Array.from({ length: each }, (_, n) => n));
  },
);

test('a worker takes part in the ring of the queues that it serves, and of no others', async () => {
  const other = job('elsewhere', { queue: 'elsewhere' });
  await db.hf.createQueue('elsewhere');
  const { worker } = start(
    db.hf,
    (w) => w.handle(step, () => undefined).handle(other, () => undefined),
    { queues: ['steps'] },
  );
  await until('it is registered', async () => {
    const rows = await db.rows('SELECT FROM holdfast.workers WHERE id = $1', [worker.id]);
    return rows.length === 1;
  });
  const [row] = await db.rows<{ handles: object }>(
    'SELECT handles FROM holdfast.workers WHERE id = $1',
    [worker.id],
  );
  expect(row?.handles).toEqual({ steps: { step: 1 } });
});
