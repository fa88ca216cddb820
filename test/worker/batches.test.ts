/** handleMany: several jobs of a type in one call, each of them settled by itself. */
import type { Socket } from 'node:net';
import type pg from 'pg';
import { beforeAll, beforeEach, describe, expect, expectTypeOf, test } from 'vitest';
import { type BatchJob, DeadLetter, job, Snooze } from '../../packages/holdfast/src/index.js';
import { clientBehind } from '../../packages/holdfast/src/postgres/connect/lent-client.js';
import { drain } from '../../packages/testing/src/index.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
interface Row {
  readonly n: number;
}
const row = job<Row>('row', { retry: () => 0 });
const step = job<Row>('step', { queue: 'steps', retry: () => 0 });
const other = job<Row>('other', { queue: 'steps' });

beforeAll(async () => {
  await db.hf.createQueue('steps', { ordering: 'key' });
  await db.rows('CREATE TABLE loaded (n int PRIMARY KEY)');
});
beforeEach(async () => {
  for (const table of ['holdfast.inbox', 'holdfast.steps', 'loaded'])
    await db.rows(`TRUNCATE ${table}`);
  for (const queue of ['inbox', 'steps']) await db.rows(`TRUNCATE holdfast.${queue}_archive`);
});

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);
const enqueue = (count: number) => db.hf.enqueueMany(numbers(count).map((n) => row.item({ n })));
const numbersOf = (jobs: readonly { readonly payload: Row }[]) =>
  jobs.map(({ payload }) => payload.n);

async function archived(count: number, queue = 'inbox') {
  const rows = () =>
    db.rows<{ n: number; status: string; attempts: number; result: unknown }>(
      `SELECT (payload ->> 'n')::int AS n, status::text, attempts, result
       FROM holdfast.${queue}_archive ORDER BY n`,
    );
  await until(`${count} have ended`, async () => (await rows()).length === count);
  return rows();
}

/** Another worker takes the job over, as it would after this one was declared dead. */
const takeOver = (id: string) =>
  db.rows(
    `UPDATE holdfast.inbox SET claimed_by = 'thief', lease_generation = lease_generation + 1
     WHERE id = $1`,
    [id],
  );

test('where keys take turns, jobs of one key come together, up to what runs at once', async () => {
  await db.hf.createQueue('shared', { perKey: 3, fair: true });
  const shared = job<Row>('shared', { queue: 'shared' });
  await db.hf.enqueueMany(numbers(7).map((n) => shared.item({ n }, { partitionKey: 'a' })));
  const calls: number[][] = [];
  start(db.hf, (w) =>
    w.handleMany(shared, { max: 10, within: '20ms' }, async (jobs) => {
      calls.push(numbersOf(jobs));
    }),
  );
  await archived(7, 'shared');
  expect(calls.flat().sort()).toEqual(numbers(7));
  expect(calls[0]).toEqual([0, 1, 2]);
  expect(Math.max(...calls.map(({ length }) => length))).toBe(3);
});

test('at most so many come in one call, and a batch is one of the handlers at once', async () => {
  await enqueue(250);
  const calls: number[] = [];
  let [running, most] = [0, 0];
  const { worker, events } = start(
    db.hf,
    (w) =>
      w.handleMany(row, { max: 100, within: '300ms' }, async (jobs, ctx) => {
        expectTypeOf(jobs).toEqualTypeOf<readonly BatchJob<Row>[]>();
        expect([ctx.type, ctx.queue, ctx.signal.aborted]).toEqual(['row', 'inbox', false]);
        most = Math.max(most, ++running);
        calls.push(jobs.length);
        await db.rows('SELECT 1');
        running--;
      }),
    { concurrency: 1 },
  );
  const ended = await archived(250);
  expect(calls).toEqual([100, 100, 50]);
  expect(most).toBe(1);
  expect(new Set(ended.map(({ status, attempts }) => `${status} ${attempts}`))).toEqual(
    new Set(['completed 1']),
  );
  await until('all are counted', () => worker.stats.completed === 250);
  // Events are of jobs, as everywhere.
  expect(events.filter(({ kind }) => kind === 'completed')).toHaveLength(250);
  expect(worker.stats).toMatchObject({ claimed: 250, failed: 0, released: 0, lost: 0 });
});

test('a batch that says done as it goes keeps its handler: nothing is claimed to be released again', async () => {
  await enqueue(40);
  const calls: number[] = [];
  const { worker } = start(
    db.hf,
    (w) =>
      w.handleMany(row, { max: 20, within: '10ms' }, async (jobs) => {
        calls.push(jobs.length);
        for (const one of jobs.slice(0, 15)) one.done();
        await until('they are settled', () => worker.stats.completed >= 20 * calls.length - 5);
        // Longer than what waits for a handler is kept.
        await new Promise((resolve) => setTimeout(resolve, 300));
      }),
    { concurrency: 1, prefetch: 0 },
  );
  await archived(40);
  expect(calls).toEqual([20, 20]);
  expect(worker.stats).toMatchObject({ claimed: 40, released: 0 });
});

test('types that wait for their batches do not wait for each other', async () => {
  const more = job<Row>('more');
  await db.hf.enqueueMany(numbers(8).map((n) => (n % 2 ? row : more).item({ n })));
  const calls: number[][] = [];
  const call = (jobs: readonly BatchJob<Row>[]) => void calls.push(numbersOf(jobs));
  const batch = { max: 4, within: '60s' } as const;
  start(db.hf, (w) => w.handleMany(row, batch, call).handleMany(more, batch, call), {
    concurrency: 1,
    prefetch: 0,
  });
  await archived(8);
  expect(calls.sort()).toEqual([
    [0, 2, 4, 6],
    [1, 3, 5, 7],
  ]);
});

describe('within', () => {
  test('a job that stays alone waits for so long and not longer', async () => {
    let [waitedMs, claimedAt] = [0, 0];
    await db.hf.enqueue(row, { n: 1 });
    const { events } = start(db.hf, (w) =>
      w.handleMany(row, { max: 100, within: '300ms' }, () => {
        waitedMs = performance.now() - claimedAt;
      }),
    );
    await until('it is claimed', () => events.some(({ kind }) => kind === 'claimed'), {
      everyMs: 1,
    });
    claimedAt = performance.now();
    await archived(1);
    expect(waitedMs).toBeGreaterThan(200);
  });

  test('a full batch that no handler is free for goes back, however long it might wait for others', async () => {
    const plain = job<{ slow: boolean }>('plain');
    const held = gate();
    const { worker } = start(
      db.hf,
      (w) =>
        w
          .handle(plain, ({ payload }) => (payload.slow ? held.opened : undefined))
          .handleMany(row, { max: 3, within: '60s' }, () => undefined),
      { concurrency: 1 },
    );
    // Quick handlers: much is claimed ahead.
    await db.hf.enqueueMany(numbers(200).map(() => plain.item({ slow: false })));
    await archived(200);
    await db.hf.enqueueMany([
      plain.item({ slow: true }),
      ...numbers(3).map((n) => row.item({ n })),
    ]);
    await until('they are released', () => worker.stats.released >= 3);
    held.open();
    await archived(204);
  });

  test('a full batch does not wait', async () => {
    await enqueue(3);
    const calls: number[][] = [];
    start(db.hf, (w) =>
      w.handleMany(row, { max: 3, within: '60s' }, (jobs) => void calls.push(numbersOf(jobs))),
    );
    await archived(3);
    expect(calls).toEqual([[0, 1, 2]]);
  });
});

describe('a part fails', () => {
  test('each job has the outcome that was said of it, the others are completed', async () => {
    await enqueue(5);
    const again: number[] = [];
    const { worker } = start(db.hf, (w) =>
      w.handleMany(row, { within: '100ms' }, (jobs) => {
        for (const one of jobs) {
          const { n } = one.payload;
          if (one.attempt > 1) again.push(n);
          else if (n === 0) one.fail(new Error('no paper'));
          else if (n === 1) one.fail(new DeadLetter('no such order'));
          else if (n === 2) one.fail(new Snooze('1h'));
          else if (n === 3) one.done({ sent: true });
          // The first word counts.
          if (n === 3) one.fail(new Error('too late'));
        }
      }),
    );
    expect(await archived(3)).toEqual([
      { n: 0, status: 'completed', attempts: 2, result: null },
      { n: 3, status: 'completed', attempts: 1, result: { sent: true } },
      { n: 4, status: 'completed', attempts: 1, result: null },
    ]);
    expect(again).toEqual([0]);
    const left = await db.rows(
      `SELECT (payload ->> 'n')::int AS n, status::text, attempts FROM holdfast.inbox ORDER BY n`,
    );
    expect(left).toEqual([
      { n: 1, status: 'dead_letter', attempts: 1 },
      { n: 2, status: 'pending', attempts: 0 },
    ]);
    expect(worker.stats).toMatchObject({ completed: 3, failed: 1, dead_letter: 1, snoozed: 1 });
  });

  test('a throw fails those of which nothing was said, and only those', async () => {
    await enqueue(4);
    start(db.hf, (w) =>
      w.handleMany(row, { within: '100ms' }, async (jobs) => {
        if (jobs.some(({ attempt }) => attempt > 1)) return;
        jobs[0]?.done();
        throw new Error('the warehouse is closed');
      }),
    );
    expect((await archived(4)).map(({ n, attempts }) => [n, attempts])).toEqual([
      [0, 1],
      [1, 2],
      [2, 2],
      [3, 2],
    ]);
    const [{ error }] = (await db.rows(
      `SELECT last_error AS error FROM holdfast.inbox_archive WHERE payload ->> 'n' = '1'`,
    )) as [{ error: string }];
    expect(error).toContain('the warehouse is closed');
  });

  test('a done job is settled at once, while the batch goes on', async () => {
    await enqueue(2);
    const held = gate();
    start(db.hf, (w) =>
      w.handleMany(row, { within: '100ms' }, async (jobs) => {
        jobs[0]?.done('early');
        await held.opened;
      }),
    );
    expect(await archived(1)).toMatchObject([{ n: 0, result: 'early' }]);
    held.open();
    await archived(2);
  });

  test('a payload that does not fit is a dead letter and no part of the batch', async () => {
    const bad = job<Row>('checked', {
      schema: {
        '~standard': {
          version: 1,
          vendor: 'test',
          validate: async (value) =>
            (value as Row).n === 1 ? { issues: [{ message: 'one' }] } : { value: value as Row },
        },
      },
    });
    const loose = job<Row>('checked');
    await db.hf.enqueueMany(numbers(3).map((n) => loose.item({ n })));
    const calls: number[][] = [];
    start(db.hf, (w) =>
      w.handleMany(bad, { within: '100ms' }, (jobs) => void calls.push(numbersOf(jobs))),
    );
    await archived(2);
    expect(calls).toEqual([[0, 2]]);
    const left = await db.rows('SELECT status::text FROM holdfast.inbox');
    expect(left).toEqual([{ status: 'dead_letter' }]);
  });
});

describe('the end of a worker', () => {
  test('a drain waits for the batch that runs, and releases what still waits for others', async () => {
    const held = gate();
    const started = gate();
    const { events, stop } = start(db.hf, (w) =>
      w.handleMany(row, { max: 2, within: '60s' }, async () => {
        started.open();
        await held.opened;
      }),
    );
    await enqueue(3);
    await started.opened;
    await until('all are claimed', () => {
      const claims = events.flatMap((event) => (event.kind === 'claimed' ? [event.count] : []));
      return claims.reduce((sum, count) => sum + count, 0) === 3;
    });
    const stopping = stop();
    await until('one is released', async () => {
      const waiting = await db.rows(`SELECT attempts FROM holdfast.inbox WHERE status = 'pending'`);
      return waiting.length === 1 && waiting[0]?.attempts === 0;
    });
    held.open();
    await stopping;
    expect((await archived(2)).map(({ n }) => n)).toEqual([0, 1]);
  });

  test('after the grace period the signals are aborted, and nothing is spent', async () => {
    await enqueue(2);
    const reasons: unknown[] = [];
    const started = gate();
    const { stop } = start(db.hf, (w) =>
      w.handleMany(row, { within: '100ms' }, async (jobs, { signal }) => {
        started.open();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        reasons.push(signal.reason, ...jobs.map((one) => one.signal.reason));
      }),
    );
    await started.opened;
    await stop(50);
    expect(reasons).toHaveLength(3);
    expect(new Set(reasons.map((reason) => (reason as { code: string }).code))).toEqual(
      new Set(['STOPPED']),
    );
    const left = await db.rows('SELECT status::text, attempts FROM holdfast.inbox');
    expect(left).toEqual(Array(2).fill({ status: 'pending', attempts: 0 }));
  });

  test('the time limit is that of the batch', async () => {
    const brief = job<Row>('brief', { timeout: '200ms', maxAttempts: 1 });
    await db.hf.enqueueMany(numbers(2).map((n) => brief.item({ n })));
    const aborted = gate();
    start(db.hf, (w) =>
      w.handleMany(brief, { within: 0 }, (jobs, { signal }) => {
        jobs[0]?.done();
        signal.addEventListener('abort', () => aborted.open());
        return new Promise(() => undefined);
      }),
    );
    expect(await archived(1)).toMatchObject([{ n: 0, status: 'completed' }]);
    // Also where one of them is done already, which has no time limit any more.
    await aborted.opened;
    await until('the other one failed', async () => {
      const [left] = await db.rows('SELECT last_error FROM holdfast.inbox WHERE attempts = 1');
      return /did not end within its time limit/.test(`${left?.last_error}`);
    });
  });
});

test('its signal is aborted when all that is left of it is lost, whichever came first', async () => {
  const [first] = await enqueue(2);
  const seen: boolean[] = [];
  start(
    db.hf,
    (w) =>
      w.handleMany(row, { max: 2, within: '60s' }, async (jobs, { signal }) => {
        await db.hf.cancel([first!.id]);
        await until('it is lost', () => jobs[0]?.signal.aborted === true);
        seen.push(signal.aborted);
        jobs[1]?.done();
        seen.push(signal.aborted);
      }),
    { renewEvery: '50ms' },
  );
  await archived(2);
  await until('the handler ended', () => seen.length === 2);
  expect(seen).toEqual([false, true]);
});

test('a lost lease is one job and not the batch; effects are remembered job by job', async () => {
  const jobs = await enqueue(3);
  const effects: string[] = [];
  const held = gate();
  const ready = gate();
  const { worker } = start(
    db.hf,
    (w) =>
      w.handleMany(row, { within: '100ms' }, async (batch) => {
        for (const one of batch)
          await one.once('load', () => {
            effects.push(`${one.payload.n} in ${one.attempt}`);
          });
        ready.open();
        await held.opened;
        for (const one of batch) if (one.attempt === 1 && one.payload.n === 2) one.fail('again');
      }),
    { renewEvery: '50ms' },
  );
  await ready.opened;
  await takeOver(jobs[0]!.id);
  await until('it is lost', () => worker.stats.lost === 1);
  held.open();
  expect((await archived(2)).map(({ n, attempts }) => [n, attempts])).toEqual([
    [1, 1],
    [2, 2],
  ]);
  expect(effects).toEqual(['0 in 1', '1 in 1', '2 in 1']);
});

describe('order per key', () => {
  const steps = (keys: readonly string[], count: number) =>
    db.hf.enqueueMany(
      numbers(count).flatMap((n) => keys.map((partitionKey) => step.item({ n }, { partitionKey }))),
    );

  test('jobs of a key come in their order; behind a failed one nothing counts or is spent', async () => {
    await steps(['a', 'b'], 5);
    const seen: string[] = [];
    const aborted: string[] = [];
    start(db.hf, (w) =>
      w.handleMany(step, { max: 100, within: '100ms' }, async (jobs) => {
        for (const one of jobs) {
          const name = `${one.partitionKey}${one.payload.n}`;
          if (one.signal.aborted) {
            aborted.push(name);
            await expect(one.once('late', () => 1)).rejects.toMatchObject({ code: 'LEASE_LOST' });
            continue;
          }
          seen.push(name);
          if (name === 'a2' && one.attempt === 1) one.fail(new Error('not yet'));
        }
      }),
    );
    const ended = await archived(10, 'steps');
    for (const key of ['a', 'b']) {
      const done = [0, 1, 2, 3, 4].map((n) => `${key}${n}`);
      const ofKey = seen.filter((name) => name.startsWith(key));
      expect(ofKey).toEqual(key === 'a' ? ['a0', 'a1', 'a2', ...done.slice(2)] : done);
    }
    // Whether they came along with the first part or not.
    expect(['', 'a3,a4']).toContain(aborted.join());
    expect(ended.filter(({ attempts }) => attempts !== 1)).toMatchObject([{ n: 2, attempts: 2 }]);
  });

  test('after a throw the first of each key has failed, and those behind it go back unspent', async () => {
    await steps(['a', 'b'], 3);
    let calls = 0;
    const { worker } = start(db.hf, (w) =>
      w.handleMany(step, { max: 100, within: '100ms' }, () => {
        if (calls++ === 0) throw new Error('not yet');
      }),
    );
    const ended = await archived(6, 'steps');
    expect(worker.stats.failed).toBeLessThanOrEqual(2);
    expect(ended.filter(({ attempts }) => attempts > 1).every(({ n }) => n === 0)).toBe(true);
  });

  test('a run that is longer than a batch goes on with the next one', async () => {
    await steps(['a'], 7);
    const calls: number[][] = [];
    const { worker } = start(db.hf, (w) =>
      w.handleMany(step, { max: 3, within: 0 }, async (jobs) => {
        calls.push(numbersOf(jobs));
        await db.rows('SELECT 1');
      }),
    );
    await archived(7, 'steps');
    expect(calls.flat()).toEqual(numbers(7));
    expect(Math.max(...calls.map(({ length }) => length))).toBeLessThanOrEqual(3);
    expect(worker.stats).toMatchObject({ failed: 0, lost: 0 });
  });

  test('types that come one by one keep their place among them', async () => {
    await db.hf.enqueueMany(
      numbers(9).map((n) => (n % 3 === 1 ? other : step).item({ n }, { partitionKey: 'a' })),
    );
    const seen: number[] = [];
    start(db.hf, (w) =>
      w
        .handleMany(step, { max: 10, within: 0 }, (jobs) => void seen.push(...numbersOf(jobs)))
        .handle(other, ({ payload }) => void seen.push(payload.n)),
    );
    await archived(9, 'steps');
    expect(seen).toEqual(numbers(9));
  });
});

describe('a transaction', () => {
  const load = (tx: pg.ClientBase, jobs: readonly BatchJob<Row>[]) =>
    tx.query('INSERT INTO loaded SELECT unnest($1::int[])', [numbersOf(jobs)]);
  const loaded = async () => (await db.rows('SELECT n FROM loaded ORDER BY n')).map(({ n }) => n);

  test('commits with the completion of all that are open, and with their children', async () => {
    await enqueue(4);
    start(db.hf, (w) =>
      w
        .handle(job('child'), () => undefined)
        .handleMany(row, { within: '100ms' }, async (jobs, { transaction }) => {
          jobs[0]?.fail(new DeadLetter('never'));
          await jobs[1]?.enqueue(job('child'), {});
          await transaction(load);
        }),
    );
    const ended = await archived(4);
    expect(ended.filter(({ status }) => status === 'completed')).toHaveLength(4);
    expect(await loaded()).toEqual([1, 2, 3]);
  });

  test('that throws leaves nothing behind, and the jobs are tried again', async () => {
    await enqueue(2);
    start(db.hf, (w) =>
      w.handleMany(row, { within: '100ms' }, (jobs, ctx) =>
        ctx.transaction(async (tx, open) => {
          await load(tx, open);
          if (jobs[0]?.attempt === 1) throw new Error('not yet');
        }),
      ),
    );
    expect((await archived(2)).map(({ attempts }) => attempts)).toEqual([2, 2]);
    expect(await loaded()).toEqual([0, 1]);
  });

  test('whose answer was lost does not speak for the job behind it in its key', async () => {
    const items = numbers(2).map((n) =>
      step.item({ n }, { partitionKey: 'k', runAt: new Date(0) }),
    );
    await db.hf.enqueueMany(items);
    const attempts: number[] = [];
    start(db.hf, (w) =>
      w.handleMany(step, { max: 2, within: '1s' }, async (jobs, { transaction }) => {
        const behind = jobs.find(({ payload }) => payload.n === 1);
        if (behind) attempts.push(behind.attempt);
        if (jobs.length < 2) return;
        behind?.fail(new Error('not this one'));
        await transaction(async (tx) => {
          const client = clientBehind(tx) as pg.PoolClient;
          const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
          Object.assign(client, {
            async query(...args: unknown[]) {
              const answer = await query(...args);
              if (args[0] !== 'COMMIT') return answer;
              (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
              throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
            },
          });
        });
      }),
    );
    const ended = await archived(2, 'steps');
    expect(ended.map(({ n, attempts: spent }) => [n, spent])).toEqual([
      [0, 1],
      [1, 2],
    ]);
    expect(attempts).toEqual([1, 2]);
  });

  test.each([
    ['cancelled', 'finds out', ['LEASE_LOST']],
    ['cancelled and known to be lost', 'knows', []],
  ])('goes on without a key of which a job was %s', async (_, how, refusals) => {
    const codes: unknown[] = [];
    const sizes: number[] = [];
    const { worker } = start(db.hf, (w) =>
      w
        .handle(other, () => undefined)
        .handleMany(step, { max: 3, within: '1s' }, async (jobs, ctx) => {
          sizes.push(jobs.length);
          if (sizes.length === 1) {
            const first = jobs.find(({ payload }) => payload.n === 0);
            await db.hf.cancel([first!.id]);
            // A marker that is refused says it before any renewal does.
            if (how === 'knows') await first?.once('charge', () => 1).catch(() => undefined);
          }
          const attempt = () => ctx.transaction((tx, open) => load(tx, open));
          await attempt().catch((error) => codes.push(error.code));
          if (codes.length > 0 && sizes.length === 1) await attempt();
        }),
    );
    // A worker that knows how quick its handlers are takes several jobs of a key.
    await db.hf.enqueue(other, { n: 9 }, { partitionKey: 'b' });
    await archived(1, 'steps');
    const items = ['a', 'a', 'b'].map((partitionKey, n) => step.item({ n }, { partitionKey }));
    await db.hf.enqueueMany(items);
    const ended = (await archived(4, 'steps')).slice(0, 3);
    expect([sizes[0], codes]).toEqual([3, refusals]);
    expect(ended.map(({ n, status, attempts }) => [n, status, attempts])).toEqual([
      [0, 'cancelled', 1],
      [1, 'completed', 1],
      [2, 'completed', 1],
    ]);
    expect(await loaded()).toEqual([1, 2]);
    expect(worker.stats).toMatchObject({ lost: 1 });
  });

  test('with a job that was lost commits nothing; again, it goes without that one', async () => {
    const jobs = await enqueue(3);
    const codes: unknown[] = [];
    start(db.hf, (w) =>
      w.handleMany(row, { within: '100ms' }, async (_, ctx) => {
        const attempt = () =>
          ctx.transaction(async (tx, open) => {
            if (codes.length === 0) await takeOver(jobs[1]!.id);
            await load(tx, open);
          });
        await attempt().catch((error) => codes.push(error.code));
        if (codes.length === 1) await attempt();
      }),
    );
    expect((await archived(2)).map(({ n }) => n)).toEqual([0, 2]);
    expect(codes).toEqual(['LEASE_LOST']);
    expect(await loaded()).toEqual([0, 2]);
  });
});

test('jobs that wait for a large batch do not keep other types from being claimed', async () => {
  const more = job<Row>('more');
  await enqueue(8);
  await db.hf.enqueueMany([more.item({ n: 8 })]);
  start(
    db.hf,
    (w) =>
      w.handleMany(row, { max: 100, within: '60s' }, () => undefined).handle(more, () => undefined),
    { concurrency: 1, prefetch: 0, batchSize: 2 },
  );
  expect(await archived(1)).toMatchObject([{ n: 8 }]);
});

test('the test kit runs it job by job', async () => {
  await enqueue(2);
  const sizes: number[] = [];
  const worker = db.hf.worker().handleMany(row, { max: 5 }, async (jobs, ctx) => {
    sizes.push(jobs.length);
    await ctx.transaction((tx) => tx.query('SELECT 1'));
  });
  await drain(db.hf, { worker });
  expect(sizes).toEqual([1, 1]);
  expect((await archived(2)).map(({ status }) => status)).toEqual(['completed', 'completed']);
});

test.each([
  ['max', { max: 0 }, /max of handleMany\(\) must be a whole number from 1 to 1000/],
  ['within', { within: '2m' }, /within of handleMany\(\)/],
  ['another option', { size: 5 }, /handleMany\(\) has no option "size".*No handler was added/],
])('%s is checked', (_, options, message) => {
  expect(() => db.hf.worker().handleMany(row, options as never, () => undefined)).toThrow(message);
});
