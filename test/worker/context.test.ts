/**
 * What a handler may do under its fence: effects that happen once, writes that commit with the
 * completion or not at all, and what becomes of them when the lease is gone.
 */
import pg from 'pg';
import { beforeAll, beforeEach, expect, expectTypeOf, test } from 'vitest';
import {
  type HandlerContext,
  holdfast,
  job,
  type Stored,
} from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { recordingLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const receipt = job<{ n?: number }>('receipt', { retry: () => 0 });

beforeAll(async () => {
  await db.rows('CREATE TABLE receipts (job uuid NOT NULL, note text)');
  await db.rows('CREATE TABLE totals (id int PRIMARY KEY)');
  await db.rows(
    'CREATE TABLE lines (total int REFERENCES totals (id) DEFERRABLE INITIALLY DEFERRED)',
  );
});
beforeEach(async () => {
  await db.rows('DELETE FROM holdfast.inbox');
  await db.rows('TRUNCATE receipts, totals, lines');
  await db.hf.resume();
});

const waitFor: typeof until = (what, ask) => until(what, ask, { timeoutMs: 20_000 });
type Context = HandlerContext<{ n?: number }>;
const note = (tx: pg.ClientBase, ctx: Context, text = 'sent') =>
  tx.query('INSERT INTO receipts VALUES ($1, $2)', [ctx.id, text]);

const ended = (id: string, status = 'completed') =>
  waitFor(`job ${id} is ${status}`, async () => {
    const row = await db.hf.job(id);
    return row?.status === status ? row : null;
  });

/** Another worker takes the job over, as it would after this one was declared dead. */
const takeOver = (id: string) =>
  db.rows(
    `UPDATE holdfast.inbox SET claimed_by = 'thief', lease_generation = lease_generation + 1
     WHERE id = $1`,
    [id],
  );
const claimAgain = (id: string) =>
  db.rows('UPDATE holdfast.inbox SET lease_generation = lease_generation + 1 WHERE id = $1', [id]);
/** Just now, and so after the beginning of a transaction that is open already. */
const expire = (id: string) =>
  db.rows('UPDATE holdfast.inbox SET lease_expires_at = clock_timestamp() WHERE id = $1', [id]);

const PLAIN: [string, unknown][] = [
  ['a value', { charge: 'ch_1', cents: 990 }],
  ['null', null],
  ['undefined', undefined],
  ['false', false],
  ['an empty text', ''],
];

class Money {
  readonly cents = 990;
  get euros() {
    return this.cents / 100;
  }
}
const cycle: { id: number; self?: unknown } = { id: 1 };
cycle.self = cycle;

// Dates and `undefined` inside an object are written as JSON.stringify writes them; the rest is warned of.
const UNLIKE: [string, unknown, unknown, number?][] = [
  ['a Date', new Date(0), '1970-01-01T00:00:00.000Z', 0],
  ['undefined inside', { id: 7, note: undefined }, { id: 7 }, 0],
  ['a Response', new Response('ok'), {}],
  ['an instance of a class', new Money(), { cents: 990 }],
  ['a BigInt inside', { id: 12n }, { id: '12' }],
  ['a function', () => 1, undefined],
  ['a cycle', cycle, undefined],
  ['a character that Postgres cannot hold', 'a\0b', undefined],
  ['more than maxPayloadBytes', 'A'.repeat(2 * 1024 * 1024), undefined],
];

/** One type for each, so that one worker is enough. */
const RETURNED = [...PLAIN.map(([what, value]) => [what, value, value, 0] as const), ...UNLIKE];

test('once: an effect that returned something is not repeated, and what JSON can hold of it comes back', async () => {
  const log = recordingLogger();
  const hf = holdfast({ connectionString: db.url, logger: log });
  const kinds = RETURNED.map(([, value, stored, warnings = 1], n) => ({
    ...{ value, stored, warnings, effects: 0, values: [] as unknown[], name: `charge_${n}` },
    job: job<{ n: number }>(`returns_${n}`, { retry: () => 0 }),
  }));
  const items = kinds.flatMap((kind) => [kind.job.item({ n: 1 }), kind.job.item({ n: 2 })]);
  const ids = await hf.enqueueMany(items);
  const { stop } = start(hf, (w) => {
    for (const kind of kinds) {
      w.handle(kind.job, async (ctx) => {
        const effect = () => {
          kind.effects += 1;
          return kind.value;
        };
        kind.values.push(await ctx.once(kind.name, effect));
        if (ctx.attempt === 1) throw new Error('crashed after the effect');
      });
    }
    return w;
  });
  for (const { id } of ids) expect(await ended(id)).toMatchObject({ attempts: 2 });
  await stop();
  await hf.close();
  const warned = log.lines.filter(({ message }) => message?.startsWith('ctx.once'));
  for (const [n, { effects, values, stored, warnings, name }] of kinds.entries()) {
    const what = RETURNED[n]?.[0];
    expect(effects, what).toBe(2);
    expect(values, what).toEqual([stored, stored, stored, stored]);
    const own = warned.filter(({ facts }) => (facts as { effect?: string }).effect === name);
    expect(own.length, what).toBe(warnings);
  }
});

test('once: the type is that of what comes back', () => {
  type Came<Value> = Stored<Value>;
  type Charge = { id: string; cents?: number };
  expectTypeOf<Came<Charge>>().toEqualTypeOf<Charge | undefined>();
  type Plain = { at: string; big: string };
  expectTypeOf<Came<{ at: Date; big: bigint }>>().toEqualTypeOf<Plain | undefined>();
  expectTypeOf<Came<Date[] | null>>().toEqualTypeOf<string[] | null | undefined>();
  expectTypeOf<Came<number | boolean | null>>().toEqualTypeOf<number | boolean | null>();
  // biome-ignore lint/suspicious/noExplicitAny: what is any stays any
  expectTypeOf<Came<any>>().toBeAny();
  expectTypeOf<Came<Response>>().toEqualTypeOf<unknown>();
  expectTypeOf<Came<void>>().toEqualTypeOf<void>();
  // With a fallback, undefined is gone from the type, and what the fallback returns is in it.
  const typed = async ({ once }: HandlerContext<unknown>) => {
    const make = (): Charge => ({ id: 'c1' });
    expectTypeOf(await once('c', make, { fallback: make })).toEqualTypeOf<Charge>();
    expectTypeOf(await once('c', make, { fallback: () => null })).toEqualTypeOf<Charge | null>();
    const gone = (): never => {
      throw new Error('the value is gone');
    };
    expectTypeOf(await once('c', make, { fallback: gone })).toEqualTypeOf<Charge>();
    expectTypeOf(
      await once('c', () => new Response(), { fallback: gone }),
    ).toEqualTypeOf<unknown>();
  };
  expect(typed).toBeTypeOf('function');
});

test('once: where the marker keeps no value the fallback gives one, and the effect is not repeated', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  let [effects, looked] = [0, 0];
  const seen: unknown[] = [];
  const { stop } = start(db.hf, (w) =>
    w.handle(receipt, async ({ once, attempt }) => {
      const large = () => {
        effects++;
        return { id: 'c1', log: 'x'.repeat(2 * 1024 * 1024) };
      };
      const fallback = async () => ({ id: 'c1', log: `looked up ${++looked}` });
      seen.push(await once('charge', large, { fallback }));
      // One that is kept does not ask for it.
      seen.push(await once('mail', () => 'm1', { fallback }));
      const wrong = { fallback: 'none' } as never;
      await expect(once('wrong', () => void effects++, wrong)).rejects.toMatchObject({
        code: 'OPTION_INVALID',
        message: expect.stringContaining('did not run'),
      });
      if (attempt === 1) throw new Error('crashed after the effects');
    }),
  );
  expect(await ended(id)).toMatchObject({ attempts: 2 });
  await stop();
  expect(effects).toBe(1);
  expect(seen).toEqual([
    { id: 'c1', log: 'looked up 1' },
    'm1',
    { id: 'c1', log: 'looked up 2' },
    'm1',
  ]);
});

test('once: an effect that threw is tried again; names and jobs are kept apart', async () => {
  const ran: string[] = [];
  const ids = await Promise.all([1, 2].map((n) => db.hf.enqueue(receipt, { n })));
  start(db.hf, (w) =>
    w.handle(receipt, async (ctx) => {
      const effect = (name: string) =>
        ctx.once(name, () => {
          ran.push(`${ctx.payload.n}:${name}:${ctx.attempt}`);
          if (name === 'mail' && ctx.attempt === 1) throw new Error('smtp is down');
        });
      await effect('charge');
      await effect('mail');
    }),
  );
  for (const { id } of ids) await ended(id);
  expect(ran.sort()).toEqual(
    [1, 2].flatMap((n) => [`${n}:charge:1`, `${n}:mail:1`, `${n}:mail:2`]).sort(),
  );
});

const LOSSES: [string, (id: string) => Promise<unknown>][] = [
  ['another worker took the job over', takeOver],
  ['this worker itself claimed it again', claimAgain],
  ['the lease ran out', expire],
];

test.each(LOSSES)('once: no marker is left behind when %s meanwhile', async (_, lose) => {
  const { id } = await db.hf.enqueue(receipt, {});
  const told = gate<unknown>();
  const { worker, events } = start(db.hf, (w) =>
    w.handle(receipt, async (ctx) => {
      const effect = ctx.once('charge', async () => {
        // So that this worker does not take it up again at once.
        await db.hf.pause();
        await lose(id);
      });
      await effect.catch((error) => {
        told.open(error);
        throw error;
      });
    }),
  );
  expect(await told.opened).toMatchObject({ code: 'LEASE_LOST' });
  expect(await db.rows('SELECT * FROM holdfast.inbox_effects WHERE job_id = $1', [id])).toEqual([]);
  await waitFor('the loss is counted', () => worker.stats.lost === 1);
  expect(events).toContainEqual(expect.objectContaining({ kind: 'lost', id }));
});

test('transaction: the writes and the completion commit together', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  const { worker } = start(db.hf, (w) =>
    w.handle(receipt, async (ctx) => {
      const value = await ctx.transaction(async (tx) => {
        await note(tx, ctx);
        // Neither can be seen from outside before both can.
        expect(await db.rows('SELECT * FROM receipts')).toEqual([]);
        expect((await db.hf.job(id))?.status).toBe('processing');
        return 42;
      });
      expect(value).toBe(42);
      expect((await db.hf.job(id))?.status).toBe('completed');
    }),
  );
  const row = await ended(id);
  expect(row).toMatchObject({ attempts: 1, lastError: null });
  expect(await db.rows('SELECT * FROM receipts')).toEqual([{ job: id, note: 'sent' }]);
  await waitFor('it is counted', () => worker.stats.completed === 1);
});

test('transaction: a throw takes back the writes and the completion', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  start(db.hf, (w) =>
    w.handle(receipt, (ctx) =>
      ctx.transaction(async (tx) => {
        await note(tx, ctx, `attempt ${ctx.attempt}`);
        if (ctx.attempt === 1) throw new Error('not yet');
      }),
    ),
  );
  expect(await ended(id)).toMatchObject({ attempts: 2 });
  expect(await db.rows('SELECT note FROM receipts')).toEqual([{ note: 'attempt 2' }]);
});

test('transaction: what is done on its tx stays inside of it', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  start(db.hf, (w) =>
    w.handle(receipt, (ctx) =>
      ctx.transaction(async (tx) => {
        await note(tx, ctx);
        if (ctx.attempt > 1) return tx.query({ text: 'COMMIT' });
        expect(() => tx.release()).toThrow('release() was refused in the transaction of job');
        throw new Error('not yet');
      }),
    ),
  );
  const { lastError } = await waitFor('it failed twice', async () => {
    const row = await db.hf.job(id);
    return row && row.attempts > 1 && row.lastError?.includes('COMMIT') ? row : null;
  });
  expect(lastError).toContain('COMMIT was refused in the transaction of job');
  expect(await db.rows('SELECT note FROM receipts')).toEqual([]);
  await db.hf.cancel([id]);
});

test('transaction: a COMMIT that fails takes back the completion too', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  start(db.hf, (w) =>
    w.handle(receipt, (ctx) =>
      ctx.transaction(async (tx) => {
        // The missing total is found at COMMIT, after the completion was written.
        await tx.query('INSERT INTO lines VALUES (1)');
        if (ctx.attempt === 2) await tx.query('INSERT INTO totals VALUES (1)');
      }),
    ),
  );
  expect(await ended(id)).toMatchObject({ attempts: 2 });
  expect(await db.rows('SELECT * FROM lines')).toHaveLength(1);
});

test('transaction: when its COMMIT failed, a handler that returns all the same is completed by its return', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  const { worker } = start(db.hf, (w) =>
    w.handle(receipt, async (ctx) => {
      await ctx.transaction((tx) => tx.query('INSERT INTO lines VALUES (1)')).catch(() => 'known');
    }),
  );
  await waitFor('it is settled', () => worker.stats.completed + worker.stats.failed === 1);
  const [row] = await db.rows(`SELECT status FROM holdfast.inbox WHERE id = $1`, [id]);
  expect(row, 'settled by the worker, yet still processing in the database').not.toMatchObject({
    status: 'processing',
  });
});

test.each(LOSSES)('transaction: nothing is committed when %s meanwhile', async (_, lose) => {
  const { id } = await db.hf.enqueue(receipt, {});
  const told = gate<unknown>();
  const { worker, events } = start(db.hf, (w) =>
    w.handle(receipt, async (ctx) => {
      await ctx
        .transaction(async (tx) => {
          await note(tx, ctx);
          // So that this worker does not take it up again at once.
          await db.hf.pause();
          await lose(id);
        })
        .catch((error) => {
          told.open(ctx.signal);
          throw error;
        });
    }),
  );
  const signal = (await told.opened) as AbortSignal;
  await waitFor('the loss is counted', () => worker.stats.lost === 1);
  expect(events).toContainEqual(expect.objectContaining({ kind: 'lost', id }));
  expect(signal.reason).toMatchObject({ code: 'LEASE_LOST' });
  expect(worker.stats).toMatchObject({ completed: 0, failed: 0 });
  expect(await db.rows('SELECT * FROM receipts')).toEqual([]);
  expect(await db.hf.job(id)).toMatchObject({ status: 'processing' });
});

async function withOwnClient(work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: db.url });
  await client.connect();
  try {
    await client.query('BEGIN');
    await work(client);
  } finally {
    await client.end();
  }
}

test("complete: the job commits with a transaction of the handler's own", async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  const { worker } = start(db.hf, (w) =>
    w.handle(receipt, (ctx) =>
      withOwnClient(async (client) => {
        await note(client, ctx);
        await ctx.complete(client);
        expect((await db.hf.job(id))?.status).toBe('processing');
        await client.query('COMMIT');
      }),
    ),
  );
  expect(await ended(id)).toMatchObject({ attempts: 1 });
  expect(await db.rows('SELECT * FROM receipts')).toHaveLength(1);
  await waitFor('it is counted', () => worker.stats.completed === 1);
});

test('complete: what committed is no failure, and the next job of its key follows at once', async () => {
  await db.hf.createQueue('handed', { ordering: 'key' });
  const asked: unknown[] = [];
  const step = job<object>('handed_step', {
    queue: 'handed',
    retry: (attempt) => {
      asked.push(attempt);
      return 0;
    },
  });
  await db.hf.enqueueMany(Array.from({ length: 6 }, () => step.item({}, { partitionKey: 'k' })));
  const { worker } = start(db.hf, (w) =>
    w.handle(step, (ctx) =>
      withOwnClient(async (client) => {
        await ctx.complete(client);
        await client.query('COMMIT');
      }),
    ),
  );
  await waitFor('all are counted', () => worker.stats.completed === 6);
  expect(asked).toEqual([]);
  expect(worker.stats).toMatchObject({ claimed: 6, released: 0, failed: 0 });
});

test('complete: an own transaction that rolls back and throws fails the attempt', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  start(db.hf, (w) =>
    w.handle(receipt, (ctx) =>
      withOwnClient(async (client) => {
        await note(client, ctx, `attempt ${ctx.attempt}`);
        await ctx.complete(client);
        if (ctx.attempt === 2) return void (await client.query('COMMIT'));
        await client.query('ROLLBACK');
        throw new Error('changed my mind');
      }),
    ),
  );
  expect(await ended(id)).toMatchObject({ attempts: 2 });
  expect(await db.rows('SELECT note FROM receipts')).toEqual([{ note: 'attempt 2' }]);
});

test('complete: an own transaction that never committed is not reported as completed', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  const { worker } = start(db.hf, (w) =>
    w.handle(receipt, (ctx) =>
      withOwnClient(async (client) => {
        await ctx.complete(client);
        if (ctx.attempt > 1) await client.query('COMMIT');
      }),
    ),
  );
  expect(await ended(id)).toMatchObject({ attempts: 2 });
  await waitFor('both are counted', () => worker.stats.completed + worker.stats.failed === 2);
  expect(worker.stats).toMatchObject({ completed: 1, failed: 1 });
});

test('what the context can do may be taken out of it, as payload and signal may', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  const { worker } = start(db.hf, (w) =>
    w.handle(receipt, async ({ payload, once, enqueue, transaction }) => {
      await once('charge', () => payload);
      await enqueue(job('child_of_receipt'), {});
      await transaction((tx) => tx.query('SELECT 1'));
    }),
  );
  await waitFor('it is settled', () => worker.stats.completed + worker.stats.failed > 0);
  expect(await db.hf.job(id)).toMatchObject({ status: 'completed', lastError: null });
});

test('a job is completed once: a second completion is refused and changes nothing', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  const told = gate<unknown>();
  start(db.hf, (w) =>
    w.handle(receipt, async (ctx) => {
      await ctx.transaction((tx) => note(tx, ctx));
      told.open(await ctx.transaction((tx) => note(tx, ctx)).catch((error) => error));
    }),
  );
  expect(await told.opened).toMatchObject({ code: 'JOB_STATE' });
  await ended(id);
  expect(await db.rows('SELECT * FROM receipts')).toHaveLength(1);
});

test('a handler that throws after its transaction leaves the job completed', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  const { worker } = start(db.hf, (w) =>
    w.handle(receipt, async (ctx) => {
      await ctx.transaction((tx) => note(tx, ctx));
      throw new Error('while sending the good news');
    }),
  );
  await waitFor('it is counted', () => worker.stats.completed === 1);
  expect(await db.hf.job(id)).toMatchObject({ status: 'completed', attempts: 1 });
  expect(worker.stats.failed).toBe(0);
});

test('cancelling a running job aborts its signal, and what its handler does then counts for nothing', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  const begun = gate();
  const reason = gate<unknown>();
  const late = gate<unknown>();
  const { worker } = start(
    db.hf,
    (w) =>
      w.handle(receipt, async (ctx) => {
        begun.open();
        await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
        reason.open(ctx.signal.reason);
        late.open(await ctx.transaction((tx) => note(tx, ctx)).catch((error) => error));
      }),
    { lease: '10s', renewEvery: '100ms' },
  );
  await begun.opened;
  expect(await db.hf.cancel([id], { reason: 'the order was withdrawn' })).toEqual([id]);
  expect(await reason.opened).toMatchObject({ code: 'LEASE_LOST' });
  expect(await late.opened).toMatchObject({ code: 'LEASE_LOST' });
  await waitFor('the loss is counted', () => worker.stats.lost === 1);
  expect(await db.hf.job(id)).toMatchObject({
    status: 'cancelled',
    lastError: 'the order was withdrawn',
  });
  expect(await db.rows('SELECT * FROM receipts')).toEqual([]);
});

test('complete: what is no transaction is refused, and the job is not completed by it', async () => {
  const refused: unknown[] = [];
  const { id } = await db.hf.enqueue(receipt, {});
  start(db.hf, (w) =>
    w.handle(receipt, async (ctx) => {
      const client = await db.pool.connect();
      for (const tx of [db.pool, client, undefined]) {
        refused.push(await ctx.complete(tx as pg.PoolClient).catch((error) => error.code));
      }
      client.release();
      expect(await db.hf.job(id)).toMatchObject({ status: 'processing' });
    }),
  );
  await ended(id);
  expect(refused).toEqual(['OPTION_INVALID', 'OPTION_INVALID', 'OPTION_INVALID']);
});

test('transaction: one that a forgotten query has broken is not taken for committed', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  const { worker } = start(db.hf, (w) =>
    w.handle(receipt, (ctx) =>
      ctx.transaction(async (tx) => {
        await note(tx, ctx);
        // Its second query comes between the completion and COMMIT.
        const forgotten = async () => {
          await tx.query('SELECT 1');
          await tx.query('SELECT 1 / 0');
        };
        if (ctx.attempt === 1) void forgotten().catch(() => 'known');
      }),
    ),
  );
  expect(await ended(id)).toMatchObject({ attempts: 2 });
  await waitFor('both are counted', () => worker.stats.completed + worker.stats.failed === 2);
  expect(worker.stats).toMatchObject({ completed: 1, failed: 1, lost: 0 });
  expect(await db.rows('SELECT * FROM receipts')).toHaveLength(1);
});

test('complete: a time limit that is over before the COMMIT makes no lost job of a completed one', async () => {
  const slow = job('slow_receipt', { timeout: '100ms', retry: () => 0 });
  await db.hf.enqueue(slow, {});
  const locked = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  const { worker } = start(db.hf, (w) =>
    w.handle(slow, (ctx) =>
      withOwnClient(async (client) => {
        await ctx.complete(client);
        await waitFor('its failure waits', async () => (await db.rows(locked)).length > 0);
        await client.query('COMMIT');
      }),
    ),
  );
  await waitFor('it is settled', () => worker.stats.completed + worker.stats.lost > 0);
  expect(worker.stats).toMatchObject({ completed: 1, lost: 0 });
});

test('once: two that ask for one effect at the same time get the same one', async () => {
  const { id } = await db.hf.enqueue(receipt, {});
  let ran = 0;
  let values: number[] = [];
  start(db.hf, (w) =>
    w.handle(receipt, async (ctx) => {
      values = await Promise.all([1, 2].map(() => ctx.once('charge', () => ++ran)));
    }),
  );
  await ended(id);
  expect([ran, values]).toEqual([1, [1, 1]]);
});
