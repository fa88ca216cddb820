/** How a job ends: what the handler threw, and what the worker finds in the row, decide. */
import { expect, test, vi } from 'vitest';
import { z } from 'zod';
import {
  Cancel,
  DeadLetter,
  type HandlerContext,
  HoldfastError,
  holdfast,
  job,
  RetryLater,
  Snooze,
} from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { recordingLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

async function ended(id: string, status: string) {
  return until(`job ${id} is ${status}`, async () => {
    const row = await db.hf.job(id);
    return row?.status === status ? row : null;
  });
}

/** What a job looks like once its first attempt has been settled. */
async function settled(id: string) {
  return until(`job ${id} has been settled`, async () => {
    const row = await db.hf.job(id);
    return row?.history.length && row.status !== 'processing' ? row : null;
  });
}

async function secondsUntilDue(id: string): Promise<number> {
  const [row] = await db.rows<{ seconds: number }>(
    `SELECT extract(epoch FROM available_at - now())::float8 AS seconds
     FROM holdfast.inbox WHERE id = $1`,
    [id],
  );
  return row!.seconds;
}

/** Written by a producer that knows neither our schema nor our version. */
async function enqueueBySql(type: string, payload: unknown, version = 1): Promise<string> {
  const [row] = await db.rows<{ id: string }>(
    'SELECT id FROM holdfast.inbox_enqueue(type => $1, payload => $2, version => $3)',
    [type, JSON.stringify(payload), version],
  );
  return row!.id;
}

test('a stored payload that does not fit the schema becomes a dead letter at once, named by path and not by value', async () => {
  const receipt = job('receipt', { schema: z.object({ order: z.object({ id: z.number() }) }) });
  const ran: number[] = [];
  const bad = await enqueueBySql('receipt', { order: { id: 'secret-9182' } });
  const good = await enqueueBySql('receipt', { order: { id: 1 } });
  const { worker } = start(db.hf, (w) =>
    w.handle(receipt, ({ payload }) => ran.push(payload.order.id)),
  );
  const row = await ended(bad, 'dead_letter');
  await ended(good, 'completed');
  expect(row.attempts).toBe(1);
  expect(row.lastError).toMatch(/payload of "receipt" does not fit its schema: order\.id: /);
  expect(row.lastError).not.toContain('secret-9182');
  expect(ran).toEqual([1]);
  expect(worker.stats).toMatchObject({ claimed: 2, completed: 1, dead_letter: 1 });
});

test('a backlog written by older versions runs through the chain of upgrades', async () => {
  const invoice = job('invoice', {
    version: 3,
    schema: z.object({ cents: z.number(), currency: z.string() }),
    upgrade: {
      1: async ({ euros }: { euros: number }) => ({ cents: euros * 100 }),
      2: (old: { cents: number }) => ({ ...old, currency: 'EUR' }),
    },
  });
  const seen: unknown[] = [];
  await enqueueBySql('invoice', { euros: 5 }, 1);
  await enqueueBySql('invoice', { cents: 700 }, 2);
  await db.hf.enqueue(invoice, { cents: 900, currency: 'USD' });
  start(db.hf, (w) => w.handle(invoice, ({ payload }) => seen.push(payload)));
  await until('all three ran', () => seen.length === 3);
  expect(seen).toEqual(
    expect.arrayContaining([
      { cents: 500, currency: 'EUR' },
      { cents: 700, currency: 'EUR' },
      { cents: 900, currency: 'USD' },
    ]),
  );
});

test('a payload too old for every upgrade becomes a dead letter at once and says which versions are known', async () => {
  const ledger = job('ledger', { version: 3, upgrade: { 2: (old: object) => old } });
  const id = await enqueueBySql('ledger', {}, 1);
  start(db.hf, (w) => w.handle(ledger, () => undefined));
  const row = await ended(id, 'dead_letter');
  expect(row.attempts).toBe(1);
  expect(row.lastError).toMatch(/has version 1; this worker knows 2 to 3/);
});

test('an upgrade that throws costs an attempt and is tried again', async () => {
  let calls = 0;
  const flaky = job('flaky_upgrade', {
    version: 2,
    retry: () => 0,
    upgrade: {
      1: (old: object) => {
        calls += 1;
        if (calls === 1) throw new Error('the rates table is locked');
        return old;
      },
    },
  });
  const id = await enqueueBySql('flaky_upgrade', {}, 1);
  start(db.hf, (w) => w.handle(flaky, () => undefined));
  const row = await ended(id, 'completed');
  expect(row.attempts).toBe(2);
  expect(row.lastError).toContain('the rates table is locked');
});

test('a worker with an older definition leaves newer payloads alone, and a newer worker runs them', async () => {
  const old = job<{ v: number }>('evolving', { version: 1 });
  const next = job<{ v: number }>('evolving', { version: 2 });
  const byOld: number[] = [];
  const byNew: number[] = [];
  const newer = await db.hf.enqueue(next, { v: 2 }, { partitionKey: 'one' });
  const older = await db.hf.enqueue(old, { v: 1 }, { partitionKey: 'one' });
  const first = start(db.hf, (w) => w.handle(old, ({ payload }) => byOld.push(payload.v)));
  await ended(older.id, 'completed');
  await first.stop();
  const left = await db.hf.job(newer.id);
  expect(left).toMatchObject({ status: 'pending', attempts: 0, leaseGeneration: 0 });
  start(db.hf, (w) => w.handle(next, ({ payload }) => byNew.push(payload.v)));
  await ended(newer.id, 'completed');
  expect([byOld, byNew]).toEqual([[1], [2]]);
});

test('jobs of a type without a handler stay pending and do not block the others, even of one key', async () => {
  const known = job('known');
  const unknown = job('unknown');
  const key = 'order:1';
  await db.hf.enqueueMany(
    Array.from({ length: 2_000 }, () => unknown.item({}, { partitionKey: key })),
  );
  const { id } = await db.hf.enqueue(known, {}, { partitionKey: key });
  const { worker } = start(db.hf, (w) => w.handle(known, () => undefined));
  await ended(id, 'completed');
  expect(worker.stats.claimed).toBe(1);
  const counts = await db.rows(
    `SELECT status::text, attempts, lease_generation::int AS generation, count(*)::int
     FROM holdfast.inbox WHERE type = 'unknown' GROUP BY 1, 2, 3`,
  );
  expect(counts).toEqual([{ status: 'pending', attempts: 0, generation: 0, count: 2_000 }]);
  await db.rows(`DELETE FROM holdfast.inbox WHERE type = 'unknown'`);
});

test('RetryLater spends the attempt and waits for the delay that it names', async () => {
  const busy = job('busy');
  const { id } = await db.hf.enqueue(busy, {});
  start(db.hf, (w) =>
    w.handle(busy, () => {
      throw new RetryLater('10m', 'the printer is busy');
    }),
  );
  const row = await settled(id);
  expect(row).toMatchObject({ status: 'pending', attempts: 1, claimedBy: null });
  expect(row.lastError).toContain('RetryLater: the printer is busy');
  expect(await secondsUntilDue(id)).toSatisfy((seconds) => 570 < seconds && seconds <= 600);
});

test('RetryLater on the last attempt makes the job a dead letter', async () => {
  const busy = job('busy_once', { maxAttempts: 1 });
  const { id } = await db.hf.enqueue(busy, {});
  start(db.hf, (w) =>
    w.handle(busy, () => {
      throw new RetryLater('10m');
    }),
  );
  expect(await ended(id, 'dead_letter')).toMatchObject({ attempts: 1 });
});

test('Snooze runs the job later and spends no attempt', async () => {
  const early = job('early', { maxAttempts: 1 });
  const { id } = await db.hf.enqueue(early, {});
  const attempts: number[] = [];
  const { worker } = start(db.hf, (w) =>
    w.handle(early, ({ attempt }) => {
      attempts.push(attempt);
      if (attempts.length < 3) throw new Snooze('1h');
    }),
  );
  for (const nap of [1, 2]) {
    await until(`nap ${nap}`, () => worker.stats.snoozed === nap);
    const row = await db.hf.job(id);
    expect(row).toMatchObject({ status: 'pending', attempts: 0 });
    expect(await secondsUntilDue(id)).toSatisfy((seconds) => 3_570 < seconds && seconds <= 3_600);
    await db.rows('UPDATE holdfast.inbox SET available_at = now() WHERE id = $1', [id]);
  }
  await ended(id, 'completed');
  expect(attempts).toEqual([1, 1, 1]);
});

test('outcomes of another copy of the package count as those of our own', async () => {
  vi.resetModules();
  const other = await import('../../packages/holdfast/src/index.js');
  expect(other.DeadLetter).not.toBe(DeadLetter);
  const [gives, snoozes, cancels] = await Promise.all(
    ['gives', 'snoozes', 'cancels'].map((type) => db.hf.enqueue(job(type), {})),
  );
  const { worker } = start(db.hf, (w) =>
    w
      .handle(job('gives'), () => {
        throw new other.DeadLetter('no such order');
      })
      .handle(job('snoozes'), () => {
        throw new other.Snooze('1h');
      })
      .handle(job('cancels'), () => {
        throw new other.Cancel('withdrawn');
      }),
  );
  expect(await ended(gives!.id, 'dead_letter')).toMatchObject({ attempts: 1 });
  await ended(cancels!.id, 'cancelled');
  await until('the other one is snoozed', () => worker.stats.snoozed === 1);
  expect(await db.hf.job(snoozes!.id)).toMatchObject({ status: 'pending', attempts: 0 });
  expect(worker.stats.failed).toBe(0);
});

test('DeadLetter makes the job a dead letter on its first attempt with the reason and its cause', async () => {
  const hopeless = job('hopeless');
  const { id } = await db.hf.enqueue(hopeless, {});
  start(db.hf, (w) =>
    w.handle(hopeless, () => {
      throw new DeadLetter('no such order', { cause: new Error('404 from the shop') });
    }),
  );
  const row = await ended(id, 'dead_letter');
  expect(row.attempts).toBe(1);
  expect(row.lastError).toMatch(
    /DeadLetter: no such order[\s\S]*Caused by: Error: 404 from the shop/,
  );
});

test('Cancel archives the job as cancelled with the reason', async () => {
  const unwanted = job('unwanted');
  const { id } = await db.hf.enqueue(unwanted, {});
  const { worker } = start(db.hf, (w) =>
    w.handle(unwanted, () => {
      throw new Cancel('the order was withdrawn');
    }),
  );
  const row = await ended(id, 'cancelled');
  expect(row.lastError).toContain('the order was withdrawn');
  expect(worker.stats).toMatchObject({ cancelled: 1, completed: 0, dead_letter: 0 });
});

test('the LEASE_LOST of another job is an error like any other: the attempt fails', async () => {
  const nested = job('nested', { retry: () => '1h' });
  const { id } = await db.hf.enqueue(nested, {});
  start(db.hf, (w) =>
    w.handle(nested, () => {
      throw new HoldfastError('LEASE_LOST', 'told by another worker about another job');
    }),
  );
  expect(await settled(id)).toMatchObject({ status: 'pending', attempts: 1 });
});

test("a job's own retry function decides the delay from the attempt and the error", async () => {
  const asked: [number, unknown][] = [];
  const own = job('own_retry', {
    retry: ({ attempt, error }) => {
      asked.push([attempt, (error as Error).message]);
      return attempt === 1 ? 0 : '30m';
    },
  });
  const { id } = await db.hf.enqueue(own, {});
  start(db.hf, (w) =>
    w.handle(own, ({ attempt }) => {
      throw new Error(`attempt ${attempt}`);
    }),
  );
  await until('two attempts ended', async () => {
    const row = await db.hf.job(id);
    return row?.attempts === 2 && row.status === 'pending';
  });
  expect(asked).toEqual([
    [1, 'attempt 1'],
    [2, 'attempt 2'],
  ]);
  expect(await secondsUntilDue(id)).toSatisfy((seconds) => 1_770 < seconds && seconds <= 1_800);
});

test('a broken retry function is reported, and the job is retried by the default delay', async () => {
  const log = recordingLogger();
  const hf = holdfast({ connectionString: db.url, logger: log });
  const broken = job('broken_retry', {
    retry: () => {
      throw new Error('bug in the backoff');
    },
  });
  const { id } = await hf.enqueue(broken, {});
  const { stop } = start(hf, (w) =>
    w.handle(broken, () => {
      throw new Error('no paper');
    }),
  );
  const row = await settled(id);
  await stop();
  await hf.close();
  expect(row.attempts).toBe(1);
  expect(await secondsUntilDue(id)).toBeLessThanOrEqual(2);
  expect(JSON.stringify(log.lines)).toContain('bug in the backoff');
});

test('a job may have 100 attempts, at the default backoff, and keeps a history of the last 20', async () => {
  const stubborn = job('stubborn', { maxAttempts: 100 });
  const { id } = await db.hf.enqueue(stubborn, {});
  const attempts: number[] = [];
  start(
    db.hf,
    (w) =>
      w.handle(stubborn, ({ attempt }) => {
        attempts.push(attempt);
        throw new Error(`failure ${attempt}`);
      }),
    { poll: '10ms' },
  );
  const row = await until(
    'the job is a dead letter',
    async () => {
      await db.rows(
        `UPDATE holdfast.inbox SET available_at = now()
         WHERE id = $1 AND status = 'pending' AND available_at > now()`,
        [id],
      );
      const found = await db.hf.job(id);
      return found?.status === 'dead_letter' ? found : null;
    },
    { everyMs: 2 },
  );
  expect(attempts).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
  expect(row).toMatchObject({ attempts: 100, maxAttempts: 100, leaseGeneration: 100 });
  const { history } = row;
  expect(history.map(({ attempt }) => attempt)).toEqual(
    Array.from({ length: 20 }, (_, i) => 81 + i),
  );
  expect(history.at(-1)).toMatchObject({ outcome: 'failed', error: 'Error: failure 100' });
});

test('the time limit aborts the signal and fails the attempt; what the handler does later counts for nothing', async () => {
  const slow = job('slow', { timeout: '50ms', maxAttempts: 2, retry: () => '1h' });
  const { id } = await db.hf.enqueue(slow, {});
  const late = gate();
  const aborted = gate<unknown>();
  let afterwards: Promise<unknown> = Promise.resolve();
  const { worker } = start(db.hf, (w) =>
    w.handle(slow, async (ctx: HandlerContext<unknown>) => {
      ctx.signal.addEventListener('abort', () => aborted.open(ctx.signal.reason));
      await late.opened;
      afterwards = ctx.transaction((tx) => tx.query('SELECT 1')).catch((error) => error);
      await afterwards;
      throw new Error('too late to matter');
    }),
  );
  expect(await aborted.opened).toMatchObject({ code: 'HANDLER_TIMEOUT' });
  const row = await settled(id);
  expect(row).toMatchObject({ status: 'pending', attempts: 1 });
  expect(row.lastError).toContain('did not end within its time limit of 50 ms');
  late.open();
  await until('the late handler ended', () => afterwards);
  expect(await afterwards).toMatchObject({ code: 'HANDLER_TIMEOUT' });
  expect(await db.hf.job(id)).toEqual(row);
  expect(worker.stats).toMatchObject({ failed: 1, completed: 0 });
});

test('after its time limit a handler is told so by all that it asks for, and nothing is written', async () => {
  const slow = job('slow', { timeout: '50ms', maxAttempts: 2, retry: () => '1h' });
  const { id } = await db.hf.enqueue(slow, {});
  const refused: unknown[] = [];
  let ran = 0;
  const ask = async (ctx: HandlerContext<unknown>) => {
    const client = await db.pool.connect();
    await client.query('BEGIN');
    const calls = [
      () => ctx.once('mail', () => ++ran),
      () => ctx.transaction(async () => ++ran),
      () => ctx.complete(client),
      () => ctx.enqueue(job('child'), {}),
    ];
    for (const call of calls) refused.push(await call().catch((error) => error));
    await client.query('ROLLBACK');
    client.release();
  };
  start(db.hf, (w) =>
    w.handle(slow, async (ctx: HandlerContext<unknown>) => {
      // As soon as it hears of it, and when the attempt has been settled.
      const heard = new Promise<void>((resolve) => {
        ctx.signal.addEventListener('abort', () => {
          refused.push(ctx.enqueue(job('child'), {}).catch((error) => error));
          resolve(ask(ctx));
        });
      });
      await heard;
      await settled(id);
      await ask(ctx);
    }),
  );
  await until('all calls were refused', () => refused.length === 9);
  for (const error of await Promise.all(refused)) {
    expect(error).toMatchObject({ code: 'HANDLER_TIMEOUT' });
    expect((error as Error).message).toMatch(/50 ms, is over .* nothing was written.*clean up/);
  }
  expect(ran).toBe(0);
  expect(await db.rows(`SELECT FROM holdfast.inbox WHERE type = 'child'`)).toEqual([]);
  expect(await db.rows('SELECT FROM holdfast.inbox_effects WHERE job_id = $1', [id])).toEqual([]);
  expect(await db.hf.job(id)).toMatchObject({ status: 'pending', attempts: 1 });
});

test('a time limit of a month is not a time limit of a millisecond', async () => {
  const patient = job('patient', { timeout: '30d' });
  const { id } = await db.hf.enqueue(patient, {});
  const begun = gate();
  const finish = gate();
  start(db.hf, (w) =>
    w.handle(patient, async ({ signal }) => {
      begun.open();
      await finish.opened;
      if (signal.aborted) throw signal.reason;
    }),
  );
  await begun.opened;
  for (let turns = 0; turns < 5; turns++) await db.hf.job(id);
  finish.open();
  expect(await ended(id, 'completed')).toMatchObject({ attempts: 1 });
});

test('the context carries what was enqueued: headers, key, type, times and counters', async () => {
  const full = job<{ n: number }>('full', { maxAttempts: 7 });
  const headers = { traceparent: '00-ab-cd-01', tenant: 'zürich "1" 😀' };
  const before = new Date();
  const { id } = await db.hf.enqueue(full, { n: 1 }, { partitionKey: 'customer:é', headers });
  const plain = await db.hf.enqueue(full, { n: 2 });
  const seen = new Map<string, object>();
  const { worker } = start(db.hf, (w) =>
    w.handle(full, (ctx) => {
      const { type, partitionKey, queue, attempt, maxAttempts, fenceToken, createdAt, payload } =
        ctx;
      const facts = {
        type,
        partitionKey,
        queue,
        attempt,
        maxAttempts,
        fenceToken,
        createdAt,
        payload,
      };
      seen.set(ctx.id, { ...facts, headers: ctx.headers, aborted: ctx.signal.aborted });
    }),
  );
  await until('both ran', () => worker.stats.completed === 2);
  expect(seen.get(id)).toEqual({
    type: 'full',
    partitionKey: 'customer:é',
    queue: 'inbox',
    attempt: 1,
    maxAttempts: 7,
    fenceToken: 1,
    createdAt: expect.any(Date),
    payload: { n: 1 },
    headers,
    aborted: false,
  });
  expect(seen.get(plain.id)).toMatchObject({ headers: {}, partitionKey: plain.id });
  const { createdAt } = seen.get(id) as { createdAt: Date };
  expect(createdAt.getTime()).toBeGreaterThan(before.getTime() - 5_000);
  expect(createdAt.getTime()).toBeLessThan(Date.now() + 5_000);
});

test('createdAt is a real date whatever DateStyle and time zone the database prefers', async () => {
  const name = new URL(db.url).pathname.slice(1);
  await db.rows(`ALTER DATABASE ${name} SET datestyle = 'German'`);
  await db.rows(`ALTER DATABASE ${name} SET timezone = 'Asia/Kolkata'`);
  const hf = holdfast({ connectionString: db.url, logger: recordingLogger() });
  const dated = job('dated');
  const { id } = await hf.enqueue(dated, {});
  const seen = gate<Date>();
  const { stop } = start(hf, (w) => w.handle(dated, ({ createdAt }) => seen.open(createdAt)));
  const createdAt = await seen.opened;
  await stop();
  await hf.close();
  await db.rows(`ALTER DATABASE ${name} RESET ALL`);
  const [row] = await db.rows<{ created_at: Date }>(
    'SELECT created_at FROM holdfast.inbox_archive WHERE id = $1',
    [id],
  );
  expect(createdAt).toEqual(row?.created_at);
});
