/** Children and fences: what a handler hands on is written with its completion, and only then. */
import { beforeEach, describe, expect, test } from 'vitest';
import {
  guardTable,
  type HandlerContext,
  holdfast,
  isStaleFence,
  job,
} from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const parent = job('parent', { retry: () => 0 });
const child = job<{ n: number }>('child');

beforeEach(async () => {
  await db.rows('DELETE FROM holdfast.inbox');
  await db.rows('DELETE FROM holdfast.inbox_archive');
});

const children = () =>
  db.rows<{ id: string; n: number }>(
    `SELECT id, (payload ->> 'n')::int AS n FROM holdfast.inbox WHERE type = 'child' ORDER BY n`,
  );
const ended = (id: string, status = 'completed') =>
  until(`job ${id} is ${status}`, async () => {
    const row = await db.hf.job(id);
    return row?.status === status ? row : null;
  });

test('children are written with the completion, in order and with their options, and not before', async () => {
  const { id } = await db.hf.enqueue(parent, {});
  const ids: string[] = [];
  const during: number[] = [];
  start(db.hf, (w) =>
    w.handle(parent, async (ctx) => {
      ids.push((await ctx.enqueue(child, { n: 1 }, { partitionKey: 'order:1' })).id);
      ids.push((await ctx.enqueue(child, { n: 2 }, { priority: 1, delay: '1h' })).id);
      during.push((await children()).length);
    }),
  );
  await ended(id);
  expect(during).toEqual([0]);
  const written = await children();
  expect(written.map((row) => row.id)).toEqual(ids);
  expect(await db.hf.job(ids[0]!)).toMatchObject({ partitionKey: 'order:1', status: 'pending' });
  expect(await db.hf.job(ids[1]!)).toMatchObject({ priority: 1 });
});

test('no child of a failed attempt is written, and those of the last one are written once', async () => {
  const { id } = await db.hf.enqueue(parent, {});
  start(db.hf, (w) =>
    w.handle(parent, async (ctx) => {
      await ctx.enqueue(child, { n: ctx.attempt });
      if (ctx.attempt < 3) throw new Error('not yet');
    }),
  );
  await ended(id);
  expect((await children()).map(({ n }) => n)).toEqual([3]);
});

test('a parent whose children are refused has failed, and the next job of its key waits for it', async () => {
  const queue = 'ordered';
  await db.hf.createQueue(queue, { ordering: 'key' });
  const inOrder = job<{ n: number }>('in-order', { queue, retry: () => 300 });
  const refused = job<{ n: number }>('refused', { queue });
  // The same idempotency key with other content.
  await db.hf.enqueue(refused, { n: 1 }, { idempotencyKey: 'taken', delay: '1h' });
  const both = await db.hf.enqueueMany(
    [1, 2].map((n) => inOrder.item({ n }, { partitionKey: 'order:9182' })),
  );
  const ran: string[] = [];
  start(db.hf, (w) =>
    w.handle(inOrder, async (ctx) => {
      ran.push(`${ctx.payload.n}.${ctx.attempt}`);
      const options = { idempotencyKey: 'taken', onMismatch: 'error' as const };
      if (ctx.payload.n === 1 && ctx.attempt === 1) await ctx.enqueue(refused, { n: 2 }, options);
    }),
  );
  for (const { id } of both)
    await until('it is completed', async () => {
      return (await db.hf.job(id, { queue }))?.status === 'completed';
    });
  expect(ran).toEqual(['1.1', '1.2', '2.1']);
});

test('inside a transaction, children commit with it or vanish with it', async () => {
  const { id } = await db.hf.enqueue(parent, {});
  start(db.hf, (w) =>
    w.handle(parent, async (ctx) => {
      await ctx.enqueue(child, { n: 10 * ctx.attempt });
      await ctx.transaction(async () => {
        await ctx.enqueue(child, { n: 10 * ctx.attempt + 1 });
        if (ctx.attempt === 1) throw new Error('not yet');
      });
    }),
  );
  await ended(id);
  expect((await children()).map(({ n }) => n)).toEqual([20, 21]);
});

test('when the lease is gone, neither the completion nor a child is written', async () => {
  const { id } = await db.hf.enqueue(parent, {});
  const { worker } = start(db.hf, (w) =>
    w.handle(parent, async (ctx) => {
      await ctx.enqueue(child, { n: 1 });
      await db.rows(
        `UPDATE holdfast.inbox SET claimed_by = 'thief', lease_generation = lease_generation + 1
         WHERE id = $1`,
        [id],
      );
    }),
  );
  await until('the loss is counted', () => worker.stats.lost === 1);
  expect(await children()).toEqual([]);
  expect(await db.hf.job(id)).toMatchObject({ status: 'processing', claimedBy: 'thief' });
});

test('a handler that does not wait for what it calls loses nothing of it', async () => {
  const careless = job('careless', { retry: () => 0 });
  const loose = await db.hf.enqueue(careless, { how: 'loose' });
  const inside = await db.hf.enqueue(careless, { how: 'inside' });
  const before = await db.hf.enqueue(careless, { how: 'before' });
  start(db.hf, (w) =>
    w.handle(careless, (ctx: HandlerContext<unknown>) => {
      const { how } = ctx.payload as { how: string };
      if (how === 'loose') {
        ctx.enqueue(child, { n: 1 });
        ctx.enqueue(child, { n: 2 });
      }
      if (how === 'inside') ctx.transaction(async () => void ctx.enqueue(child, { n: 3 }));
      if (how === 'before') {
        ctx.enqueue(child, { n: 4 });
        ctx.transaction((tx) => tx.query('SELECT 1'));
      }
    }),
  );
  for (const { id } of [loose, inside, before])
    expect(await ended(id)).toMatchObject({ attempts: 1 });
  expect((await children()).map(({ n }) => n)).toEqual([1, 2, 3, 4]);
});

test('what a handler called without waiting and failed, fails the attempt; with a time limit too', async () => {
  for (const timeout of [undefined, '1m'] as const) {
    const careless = job(`careless_${timeout}`, { maxAttempts: 1, ...(timeout && { timeout }) });
    const { id } = await db.hf.enqueue(careless, {});
    start(db.hf, (w) => w.handle(careless, (ctx) => void ctx.enqueue(child, { n: 1n as never })));
    expect((await ended(id, 'dead_letter')).lastError).toContain('payload.n is a BigInt');
  }
  expect(await children()).toEqual([]);
});

/** Long enough for anything that was called before to fail. */
async function turns(): Promise<void> {
  for (let n = 0; n < 50; n++) await db.rows('SELECT 1');
}

test('what failed unheard fails the attempt also when the handler goes on for long', async () => {
  await db.rows('CREATE TABLE unheard (n int PRIMARY KEY)');
  await db.rows('INSERT INTO unheard VALUES (1)');
  const once = { maxAttempts: 1 };
  const enqueues = job('unheard_child', once);
  const transacts = job('unheard_transaction', once);
  const ids = await db.hf.enqueueMany([enqueues.item({}), transacts.item({})]);
  start(db.hf, (w) =>
    w
      .handle(enqueues, async (ctx) => {
        void ctx.enqueue(child, { n: 1n as never });
        await turns();
      })
      .handle(transacts, async (ctx) => {
        void ctx.transaction((tx) => tx.query('INSERT INTO unheard VALUES (1)'));
        await turns();
      }),
  );
  expect((await ended(ids[0]!.id, 'dead_letter')).lastError).toContain('payload.n is a BigInt');
  expect((await ended(ids[1]!.id, 'dead_letter')).lastError).toContain('duplicate key');
  expect(await children()).toEqual([]);
});

test('a failure that the handler has dealt with is not that of the attempt, however late it comes', async () => {
  const { id } = await db.hf.enqueue(parent, {});
  const late = gate();
  start(db.hf, (w) =>
    w.handle(parent, async (ctx) => {
      const slow = ctx.once('slow', async () => {
        await late.opened;
        throw new Error('nobody minds');
      });
      await Promise.any([slow, ctx.once('quick', () => 1)]);
      ctx.enqueue(child, { n: 1n as never }).catch(() => {});
      setImmediate(() => late.open());
    }),
  );
  expect(await ended(id)).toMatchObject({ attempts: 1 });
});

test('no child of a transaction that is rolled back is written, awaited or not', async () => {
  const rolled = job('rolled', { maxAttempts: 2, retry: () => 0 });
  const { id } = await db.hf.enqueue(rolled, {});
  start(db.hf, (w) =>
    w.handle(rolled, (ctx) =>
      ctx.transaction(async () => {
        void ctx.enqueue(child, { n: ctx.attempt });
        throw new Error('no');
      }),
    ),
  );
  await ended(id, 'dead_letter');
  expect(await children()).toEqual([]);
});

test('what the functions of a handler call one after the other is all waited for', async () => {
  const { id } = await db.hf.enqueue(parent, {});
  start(db.hf, (w) =>
    w.handle(parent, (ctx) => {
      const note = async () => void (await ctx.once('seen', () => 1));
      const step = async () => await note();
      const deeper = async () => await step();
      const audit = async () => {
        await deeper();
        await ctx.enqueue(child, { n: 1 });
      };
      void audit();
    }),
  );
  await ended(id);
  expect((await children()).map(({ n }) => n)).toEqual([1]);
});

test('of two transactions or completions at once, the second is refused and the first stands', async () => {
  const twice = await db.hf.enqueue(parent, { how: 'transactions' });
  const within = await db.hf.enqueue(parent, { how: 'completions' });
  const refused: unknown[] = [];
  const { worker } = start(db.hf, (w) =>
    w.handle(parent, async (ctx: HandlerContext<unknown>) => {
      if ((ctx.payload as { how: string }).how === 'transactions') {
        const first = ctx.transaction(async () => void (await ctx.enqueue(child, { n: 1 })));
        await ctx.transaction(async () => {}).catch((error) => refused.push(error.code));
        await first;
      } else {
        await ctx
          .transaction(async (tx) => {
            await ctx.complete(tx);
            await ctx.complete(tx).catch((error) => refused.push(error.code));
          })
          .catch((error) => refused.push(error.code));
      }
    }),
  );
  expect(await ended(twice.id)).toMatchObject({ attempts: 1 });
  await until('both are over', () => worker.stats.completed + worker.stats.failed >= 2);
  expect(refused.every((code) => code === 'JOB_STATE')).toBe(true);
  expect(worker.stats.lost).toBe(0);
  expect((await children()).map(({ n }) => n)).toEqual([1]);
  expect((await db.hf.job(within.id))?.status).not.toBe('processing');
});

test('what is called after the handler has returned is refused', async () => {
  const { id } = await db.hf.enqueue(parent, {});
  let context: HandlerContext<unknown> | undefined;
  start(db.hf, (w) =>
    w.handle(parent, (ctx) => {
      context = ctx;
    }),
  );
  await ended(id);
  await expect(context?.enqueue(child, { n: 1 })).rejects.toMatchObject({ code: 'JOB_STATE' });
  await expect(context?.transaction(async () => {})).rejects.toMatchObject({ code: 'JOB_STATE' });
  expect(await children()).toEqual([]);
});

test('a child that cannot be enqueued is refused where it is asked for', async () => {
  const { id } = await db.hf.enqueue(parent, {});
  const refusals: unknown[] = [];
  start(db.hf, (w) =>
    w.handle(parent, async (ctx: HandlerContext<unknown>) => {
      const code = (work: Promise<unknown>) => work.then(String, (error) => error.code);
      refusals.push(
        await code(ctx.enqueue(child, { n: 1n as never })),
        await code(ctx.enqueue(child, { n: 1 }, { priority: 9 as never })),
      );
    }),
  );
  await ended(id);
  expect(refusals).toEqual(['PAYLOAD_NOT_JSON', 'OPTION_INVALID']);
  expect(await children()).toEqual([]);
});

test("a child's idempotency key keeps a repeat from making a second one", async () => {
  const first = await db.hf.enqueue(parent, {});
  const second = await db.hf.enqueue(parent, {});
  start(db.hf, (w) =>
    w.handle(parent, (ctx) => ctx.enqueue(child, { n: 1 }, { idempotencyKey: 'child:1' })),
  );
  await ended(first.id);
  await ended(second.id);
  expect(await children()).toHaveLength(1);
});

test('a child whose idempotency key stands for other work fails the attempt with a clear error', async () => {
  const picky = job('picky', { maxAttempts: 1 });
  await db.hf.enqueue(child, { n: 7 }, { idempotencyKey: 'child:7' });
  const { id } = await db.hf.enqueue(picky, {});
  start(db.hf, (w) =>
    w.handle(picky, async (ctx) => {
      await ctx.enqueue(child, { n: 6 });
      await ctx.enqueue(child, { n: 8 }, { idempotencyKey: 'child:7' });
    }),
  );
  const { lastError } = await ended(id, 'dead_letter');
  expect(lastError).toContain('already stands for job');
  expect(lastError).toContain('ctx.enqueue() was refused ("child")');
  expect((await children()).map(({ n }) => n)).toEqual([7]);
});

test('a passing database error while children are written costs no attempt', async () => {
  await db.rows('CREATE SEQUENCE storms');
  await db.rows(`CREATE FUNCTION storm() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF nextval('storms') = 1 THEN RAISE 'try again' USING ERRCODE = '40001'; END IF;
      RETURN NEW;
    END $$`);
  await db.rows(`CREATE TRIGGER storm BEFORE INSERT ON holdfast.inbox FOR EACH ROW
    WHEN (NEW.type = 'child') EXECUTE FUNCTION storm()`);
  const fragile = job('fragile', { maxAttempts: 1 });
  const { id } = await db.hf.enqueue(fragile, {});
  start(db.hf, (w) => w.handle(fragile, (ctx) => ctx.enqueue(child, { n: 1 })));
  const row = await until('it is over', async () => {
    const found = await db.hf.job(id);
    return found && found.status !== 'pending' && found.status !== 'processing' ? found : null;
  });
  await db.rows('DROP TRIGGER storm ON holdfast.inbox');
  expect(row).toMatchObject({ status: 'completed', attempts: 1 });
  expect(await children()).toHaveLength(1);
});

test('a guarded table refuses the write of a stale attempt and keeps that of the newer one', async () => {
  await db.rows(
    'CREATE TABLE balances (id int PRIMARY KEY, cents int, fence_token bigint NOT NULL)',
  );
  await db.rows('INSERT INTO balances VALUES (1, 0, 0)');
  await guardTable(db.pool, 'public.balances');
  await guardTable(db.pool, 'balances');
  const fenced = job('fenced', { retry: () => 0 });
  const { id } = await db.hf.enqueue(fenced, {});
  const tokens: number[] = [];
  const write = (cents: number, token: number) =>
    db.rows('UPDATE balances SET cents = $1, fence_token = $2 WHERE id = 1', [cents, token]);
  const staleWrite = gate<unknown>();
  start(db.hf, (w) =>
    w.handle(fenced, async (ctx) => {
      tokens.push(ctx.fenceToken);
      if (ctx.attempt === 1) throw new Error('frozen');
      await write(200, ctx.fenceToken);
      // The first attempt thaws and writes with the token that it was given.
      staleWrite.open(await write(100, tokens[0]!).catch((error) => error));
    }),
  );
  const error = await staleWrite.opened;
  await ended(id);
  expect(tokens).toEqual([1, 2]);
  expect(error).toMatchObject({ code: 'HF001' });
  expect(isStaleFence(error)).toBe(true);
  expect(isStaleFence(new Error('other'))).toBe(false);
  expect(await db.rows('SELECT cents FROM balances')).toEqual([{ cents: 200 }]);
  await write(300, 2);
});

test.each(['', 'a.b.c', 'a.', 'x\0y'])('guardTable refuses the name %j', async (name) => {
  await expect(guardTable(db.pool, name)).rejects.toMatchObject({ code: 'NAME_INVALID' });
});

test('guardTable carries no SQL in a name', async () => {
  await db.rows('CREATE TABLE victims (fence_token bigint)');
  const attack = 'victims FOR EACH ROW EXECUTE FUNCTION x(); DROP TABLE victims; --';
  await expect(guardTable(db.pool, attack)).rejects.toMatchObject({ code: '42P01' });
  await expect(guardTable(db.pool, 'victims', 'x"; DROP TABLE victims; --')).rejects.toMatchObject({
    code: 'NAME_INVALID',
  });
  expect(await db.rows('SELECT * FROM victims')).toEqual([]);
});

test('children go to the queue and the schema of their parent', async () => {
  const hf = holdfast({ connectionString: db.url, schema: 'tenant_7', logger: quietLogger });
  await hf.migrate();
  await hf.createQueue('outbox');
  const outer = job('outer', { queue: 'outbox' });
  const inner = job('inner', { queue: 'outbox' });
  const { id } = await hf.enqueue(outer, {});
  const childId = gate<string>();
  const { stop } = start(hf, (w) =>
    w
      .handle(outer, async (ctx) => childId.open((await ctx.enqueue(inner, {})).id))
      .handle(inner, (ctx) => ctx.transaction(async () => undefined)),
  );
  const found = await childId.opened;
  await until(
    'the child ran',
    async () => (await hf.job(found, { queue: 'outbox' }))?.status === 'completed',
  );
  expect(await hf.job(id, { queue: 'outbox' })).toMatchObject({ status: 'completed' });
  expect(await hf.job(id, { queue: 'inbox' })).toBeNull();
  await stop();
  await hf.close();
});

describe('a child of another queue', () => {
  const far = job<{ n: number }>('far', { queue: 'far' });
  const farJobs = () =>
    db.rows<{ n: number }>(`SELECT (payload ->> 'n')::int AS n FROM holdfast.far ORDER BY n`);
  beforeEach(async () => {
    await db.hf.createQueue('far');
    await db.rows('DELETE FROM holdfast.far');
  });

  test.each(['with the completion', 'in a transaction', 'of a batch'])(
    'is written %s, and not if that fails',
    async (how) => {
      const mother = job(`mother ${how}`.replaceAll(' ', '_'), { retry: () => 0 });
      const { id } = await db.hf.enqueue(mother, {});
      const fail = ({ attempt }: { attempt: number }) => {
        if (attempt === 1) throw new Error('not yet');
      };
      const { events } = start(db.hf, (w) => {
        if (how === 'of a batch')
          return w.handleMany(mother, {}, async (jobs) => {
            for (const one of jobs) {
              await one.enqueue(far, { n: one.attempt });
              await one.enqueue(child, { n: one.attempt });
              fail(one);
            }
          });
        return w.handle(mother, async (ctx) => {
          const write = async () => {
            await ctx.enqueue(far, { n: ctx.attempt });
            await ctx.enqueue(child, { n: ctx.attempt });
            fail(ctx);
          };
          await (how === 'in a transaction' ? ctx.transaction(write) : write());
        });
      });
      await ended(id);
      expect(await farJobs()).toEqual([{ n: 2 }]);
      expect((await children()).map(({ n }) => n)).toEqual([2]);
      const told = events.flatMap((event) => (event.kind === 'enqueued' ? [event.queue] : []));
      expect(told.slice(-2).sort()).toEqual(['far', 'inbox']);
    },
  );

  test.each(['outside', 'inside'])(
    'that is not there is refused where it is asked for, %s of a transaction',
    async (where) => {
      const lost = job('lost', { queue: 'nowhere' });
      const mother = job(`mother_${where}`, { maxAttempts: 1 });
      const { id } = await db.hf.enqueue(mother, {});
      const refused: unknown[] = [];
      start(db.hf, (w) =>
        w.handle(mother, async (ctx) => {
          const ask = async () => {
            await ctx.enqueue(lost, {}).catch((error) => refused.push(error));
            // The queue of another child is there, and its transaction goes on.
            await ctx.enqueue(far, { n: 1 });
          };
          await (where === 'inside' ? ctx.transaction(ask) : ask());
        }),
      );
      await ended(id);
      expect(refused).toEqual([
        expect.objectContaining({
          code: 'QUEUE_UNKNOWN',
          message: expect.stringMatching(
            /no queue "nowhere".*ctx\.enqueue\(\).*child "lost" was not enqueued.*createQueue/,
          ),
        }),
      ]);
      expect(await farJobs()).toEqual([{ n: 1 }]);
    },
  );

  test('whose queue is dropped meanwhile is named by the attempt that fails, and looked up again', async () => {
    await db.hf.createQueue('brief');
    const brief = job('brief_child', { queue: 'brief' });
    const mother = job<{ drops: boolean }>('mother_of_brief', { maxAttempts: 1 });
    start(db.hf, (w) =>
      w.handle(mother, async (ctx) => {
        await ctx.enqueue(brief, {});
        if (ctx.payload.drops) await db.hf.dropQueue('brief');
      }),
    );
    const lastError = async (drops: boolean) => {
      const { id } = await db.hf.enqueue(mother, { drops });
      return (await ended(id, 'dead_letter')).lastError;
    };
    expect(await lastError(true)).toContain(
      'A child of ctx.enqueue() was refused ("brief_child"): There is no queue "brief"',
    );
    expect(await lastError(false)).toContain(
      'ctx.enqueue() was refused and the child "brief_child" was not enqueued',
    );
  });
});
