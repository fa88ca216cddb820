/** The kit on PGlite and on a server: attempts, draining, assertions, time, and jobs in every state. */
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { KITS, kitOn } from '../../../test/support/kits.js';
import { quietLogger } from '../../../test/support/logger.js';
import {
  Cancel,
  type DeadJob,
  DeadLetter,
  type HandlerContext,
  job,
  RetryLater,
  Snooze,
} from '../../holdfast/src/index.js';
import {
  advance,
  allEnqueued,
  clearJobs,
  drain,
  expectEnqueued,
  expectNotEnqueued,
  type MadeState,
  makeJob,
  startPglite,
  testJob,
  useHoldfast,
} from './index.js';

interface Order {
  readonly orderId: number;
  readonly lines?: readonly string[];
}

const receipt = job<Order>('send_receipt', { maxAttempts: 3 });
const parcel = job<Order>('ship_parcel');
const ordered = job<Order>('ordered', { queue: 'ordered' });

describe.each(KITS)('on %s', (_, open) => {
  const kit = kitOn(open, 'CREATE TABLE receipts (order_id bigint PRIMARY KEY, at timestamptz)');
  beforeEach(async () => {
    useHoldfast(kit.hf);
    await kit.hf.createQueue('ordered', { ordering: 'key' });
    await clearJobs(kit.hf);
    await kit.pool.query('DELETE FROM receipts');
  });
  afterEach(() => useHoldfast(null));

  describe('testJob', () => {
    test('gives a real context, and tells what was enqueued and recorded', async () => {
      const seen: unknown[] = [];
      const options = { attempt: 2, partitionKey: 'order:1', headers: { tenant: 'a' } };
      const result = await testJob(
        receipt,
        async (ctx) => {
          const {
            payload,
            attempt,
            maxAttempts,
            partitionKey: key,
            headers,
            fenceToken,
            signal,
          } = ctx;
          seen.push({ payload, attempt, maxAttempts, key, headers, fenceToken });
          expect(signal.aborted).toBe(false);
          await ctx.once('mail', () => 'message-1');
          await ctx.enqueue(parcel, { orderId: 2 }, { partitionKey: 'order:2', delay: '1h' });
          await kit.hf.enqueue(ordered, { orderId: 3 });
          return { sent: true };
        },
        { orderId: 1 },
        options,
      );
      expect(seen).toEqual([
        {
          ...{ payload: { orderId: 1 }, attempt: 2, maxAttempts: 3, key: 'order:1' },
          ...{ headers: { tenant: 'a' }, fenceToken: 1 },
        },
      ]);
      expect(result).toMatchObject({
        ...{ outcome: 'completed', delayMs: null, error: undefined },
        ...{ result: { sent: true }, effects: { mail: 'message-1' } },
      });
      expect(
        result.enqueued.map(({ type, partitionKey, queue }) => [type, partitionKey, queue]),
      ).toEqual(
        expect.arrayContaining([
          ['ship_parcel', 'order:2', 'inbox'],
          ['ordered', expect.any(String), 'ordered'],
        ]),
      );
      expect(result.enqueued).toHaveLength(2);
      expect(await kit.hf.job(result.id)).toMatchObject({ status: 'completed', attempts: 2 });
    });

    test('commits the writes of ctx.transaction with the completion, and children in it', async () => {
      const result = await testJob(
        receipt,
        async ({ payload, transaction, enqueue }) => {
          await transaction(async (tx) => {
            const at = new Date(0);
            await tx.query('INSERT INTO receipts VALUES ($1, $2)', [payload.orderId, at]);
            await enqueue(parcel, payload);
          });
        },
        { orderId: 9 },
      );
      expect(result).toMatchObject({ outcome: 'completed', enqueued: [{ type: 'ship_parcel' }] });
      // As pg reads them, on PGlite too.
      const { rows } = await kit.pool.query('SELECT * FROM receipts');
      expect(rows).toEqual([{ order_id: '9', at: new Date(0) }]);
    });

    test.each([
      ['retry', new RetryLater('5m'), 1, 300_000],
      ['retry', new Error('the mail server is down'), 1, expect.any(Number)],
      ['dead_letter', new Error('the mail server is down'), 3, null],
      ['dead_letter', new DeadLetter('no address'), 1, null],
      ['snoozed', new Snooze('10m'), 1, 600_000],
      ['cancelled', new Cancel('withdrawn'), 1, null],
    ] as const)('tells %s of %o at attempt %i', async (outcome, error, attempt, delayMs) => {
      const handler = () => {
        throw error;
      };
      const result = await testJob(receipt, handler, { orderId: 1 }, { attempt });
      expect(result).toMatchObject({ outcome, delayMs, error });
    });

    test('rolls back what an attempt that fails has written, and enqueues no children', async () => {
      const result = await testJob(
        receipt,
        async ({ payload, transaction, enqueue }) => {
          await enqueue(parcel, payload);
          await transaction(async (tx) => {
            await tx.query('INSERT INTO receipts VALUES ($1)', [payload.orderId]);
            throw new Error('no');
          });
        },
        { orderId: 9 },
      );
      expect(result).toMatchObject({ outcome: 'retry', result: null, enqueued: [], effects: {} });
      expect((await kit.pool.query('SELECT * FROM receipts')).rows).toEqual([]);
    });

    test.each([
      ['crash', 'crashed', 'pending'],
      ['lease_lost', 'lost', 'completed'],
      ['delivered_twice', 'lost', 'completed'],
      ['commit_unanswered', 'completed', 'completed'],
      ['commit_lost', 'retry', 'pending'],
    ] as const)(
      'with the fault %s the attempt is %s and the job %s',
      async (fault, outcome, status) => {
        for (const inTransaction of [true, false]) {
          const handler = async ({
            transaction,
          }: {
            transaction: (work: () => Promise<void>) => unknown;
          }) => {
            if (inTransaction) await transaction(async () => undefined);
          };
          const result = await testJob(receipt, handler, { orderId: 1 }, { fault });
          // Without a transaction the worker asks again by itself, and nothing is lost.
          const again = fault === 'commit_lost' && !inTransaction;
          expect(result.outcome).toBe(again ? 'completed' : outcome);
          const row = await kit.hf.job(result.id);
          expect(row?.status).toBe(again ? 'completed' : status);
        }
      },
    );

    test('aborts the signal when the lease is lost in the middle, and refuses what comes after', async () => {
      let aborted: unknown = null;
      const result = await testJob(
        receipt,
        async (ctx) => {
          await kit.pool.query('SELECT 1');
          aborted ??= ctx.fenceToken === 1 ? ctx.signal.reason : null;
          await ctx.transaction((tx) =>
            tx.query('INSERT INTO receipts VALUES ($1)', [ctx.fenceToken]),
          );
        },
        { orderId: 1 },
        { fault: 'lease_lost' },
      );
      expect(result).toMatchObject({ outcome: 'lost', error: { code: 'LEASE_LOST' } });
      expect(aborted).toMatchObject({ code: 'LEASE_LOST' });
      const { rows } = await kit.pool.query('SELECT order_id FROM receipts');
      expect(rows).toEqual([{ order_id: '2' }]);
    });

    test('a job of a queue that is read by key is claimed, and one behind another is refused', async () => {
      await makeJob('pending', ordered, { orderId: 1 }, { partitionKey: 'order:8' });
      const done = await testJob(
        ordered,
        () => undefined,
        { orderId: 1 },
        { partitionKey: 'order:9' },
      );
      expect(done.outcome).toBe('completed');
      const behind = testJob(ordered, () => undefined, { orderId: 2 }, { partitionKey: 'order:8' });
      await expect(behind).rejects.toThrow(/another job of the key "order:8" stands before it/);
      expect(await allEnqueued({ queue: 'ordered' })).toHaveLength(1);
    });

    test('runs its own job, whatever else waits', async () => {
      const other = await makeJob('pending', receipt, { orderId: 1 });
      const seen: number[] = [];
      await testJob(receipt, ({ payload }) => seen.push(payload.orderId), { orderId: 2 });
      expect(seen).toEqual([2]);
      expect(await kit.hf.job(other.id)).toMatchObject({ status: 'pending', attempts: 0 });
    });

    test('runs its own job, also of a type whose enqueues are folded', async () => {
      const by = ({ orderId }: Order) => `order:${orderId}`;
      const folded = job<Order>('folded', { unique: { by } });
      const kept = job<Order>('kept', { unique: { by, while: 'kept' } });
      const other = await kit.hf.enqueue(folded, { orderId: 1, lines: ['old'] }, { delay: '1h' });
      const seen: unknown[] = [];
      const handler = ({ payload }: HandlerContext<Order>) => void seen.push(payload.lines);
      await testJob(folded, handler, { orderId: 1, lines: ['new'] });
      expect(seen).toEqual([['new']]);
      expect(await kit.hf.job(other.id)).toMatchObject({ status: 'pending', attempts: 0 });
      for (const _ of [1, 2])
        expect((await testJob(kept, handler, { orderId: 1 })).outcome).toBe('completed');
      await expect(makeJob('leased', folded, { orderId: 1 })).rejects.toMatchObject({
        code: 'JOB_STATE',
        message: expect.stringContaining('already has the unique key'),
      });
    });
  });

  describe('drain', () => {
    test('runs jobs, their children and their retries, moves time over delays, and counts', async () => {
      const order: string[] = [];
      const worker = kit.hf.worker();
      worker.handle(receipt, async ({ payload, attempt, enqueue }) => {
        order.push(`receipt ${payload.orderId} attempt ${attempt}`);
        if (payload.orderId === 2) throw new DeadLetter('no address');
        if (attempt === 1) throw new RetryLater('2h');
        await enqueue(parcel, payload, { delay: '1d' });
      });
      worker.handle(parcel, ({ payload }) => void order.push(`parcel ${payload.orderId}`));
      await kit.hf.enqueue(receipt, { orderId: 1 });
      await kit.hf.enqueue(receipt, { orderId: 2 }, { delay: '1h' });
      const counts = await drain(kit.hf, { worker });
      expect(order).toEqual([
        'receipt 1 attempt 1',
        'receipt 2 attempt 1',
        'receipt 1 attempt 2',
        'parcel 1',
      ]);
      expect(counts).toMatchObject({
        completed: 2,
        retry: 1,
        dead_letter: 1,
        snoozed: 0,
        lost: 0,
        left: 0,
      });
      expect(counts.movedMs).toBeGreaterThan(26 * 3_600_000 - 10_000);
      expect(counts.movedMs).toBeLessThan(26 * 3_600_000 + 10_000);
    });

    test('until a time leaves what is due later, and until a condition leaves the rest', async () => {
      const worker = kit.hf.worker().handle(receipt, () => undefined);
      await kit.hf.enqueue(receipt, { orderId: 1 }, { delay: '10m' });
      await kit.hf.enqueue(receipt, { orderId: 2 }, { delay: '2h' });
      expect(await drain(kit.hf, { worker, until: '1h' })).toMatchObject({ completed: 1, left: 1 });
      for (const orderId of [3, 4]) await kit.hf.enqueue(receipt, { orderId });
      const counts = await drain(kit.hf, { worker, until: () => true });
      expect(counts).toMatchObject({ completed: 1, left: 2 });
    });

    test('runs the jobs of a key in their order, and only those of the queue', async () => {
      const order: string[] = [];
      const worker = kit.hf.worker();
      worker.handle(ordered, ({ payload, partitionKey: key, attempt }) => {
        if (payload.orderId === 1 && attempt === 1) throw new Error('not yet');
        order.push(`${key} ${payload.orderId}`);
      });
      worker.handle(receipt, () => void order.push('receipt'));
      const items = [1, 2].map((orderId) => ordered.item({ orderId }, { partitionKey: 'a' }));
      await kit.hf.enqueueMany(items);
      await kit.hf.enqueue(receipt, { orderId: 3 });
      expect(await drain(kit.hf, { worker, queue: 'ordered' })).toMatchObject({
        completed: 2,
        retry: 1,
      });
      expect(order).toEqual(['a 1', 'a 2']);
    });

    test('writes and runs what onDeadLetter names', async () => {
      const told: string[] = [];
      const tell = job<DeadJob<Order>>('tell', { queue: 'ordered' });
      const dies = job<Order>('dies', { maxAttempts: 1, onDeadLetter: tell });
      const { id } = await kit.hf.enqueue(dies, { orderId: 1 });
      const worker = kit.hf
        .worker()
        .handle(dies, () => {
          throw new Error('no');
        })
        .handle(tell, ({ payload }) => void told.push(payload.id));
      const counts = await drain(kit.hf, { worker });
      expect(counts).toMatchObject({ dead_letter: 1, completed: 1, left: 0 });
      expect(told).toEqual([id]);

      const nowhere = job<DeadJob>('tell', { queue: 'nowhere' });
      const lost = kit.hf.worker().handle(job('dies', { onDeadLetter: nowhere }), () => undefined);
      await expect(drain(kit.hf, { worker: lost })).rejects.toMatchObject({
        code: 'QUEUE_UNKNOWN',
      });
    });

    test('recovers what dead workers held, suspects too', async () => {
      for (const state of ['leased', 'suspect'] as const)
        await makeJob(state, receipt, { orderId: 1 });
      const worker = kit.hf.worker().handle(receipt, () => undefined);
      expect(await drain(kit.hf, { worker })).toMatchObject({ completed: 1 });
      await advance(kit.hf, '11m');
      expect(await drain(kit.hf, { worker })).toMatchObject({ completed: 1 });
    });

    test('a job that nobody handles is an error that names it', async () => {
      await kit.hf.enqueue(parcel, { orderId: 1 });
      await kit.hf.enqueue(receipt, { orderId: 1 });
      const worker = kit.hf.worker().handle(receipt, () => undefined);
      await expect(drain(kit.hf, { worker })).rejects.toThrow(/nobody handles: 1 × ship_parcel/);
      await expectNotEnqueued({ type: receipt });
    });

    test('work that does not end is an error that names it', async () => {
      await kit.hf.enqueue(receipt, { orderId: 1 });
      const worker = kit.hf.worker().handle(receipt, () => {
        throw new Snooze('1h');
      });
      const endless = drain(kit.hf, { worker, limit: 7 });
      await expect(endless).rejects.toThrow(/7 attempts .* send_receipt \(7 attempts\)/);
    });

    test('as many attempts as are allowed are no error if nothing is left', async () => {
      await kit.hf.enqueueMany([1, 2].map((orderId) => receipt.item({ orderId })));
      const worker = kit.hf.worker().handle(receipt, () => undefined);
      expect(await drain(kit.hf, { worker, limit: 2 })).toMatchObject({ completed: 2, left: 0 });
    });

    test('wrong calls say what is wrong', async () => {
      const worker = kit.hf.worker().handle(receipt, () => undefined);
      const { hf } = kit;
      await expect(drain(hf, {} as never)).rejects.toThrow(/drain needs a worker/);
      await expect(drain(hf, { worker: hf.worker() })).rejects.toThrow(/handles no job/);
      await expect(drain(hf, { worker, queue: 'other' })).rejects.toThrow(
        /no job of the queue "other"/,
      );
      // @ts-expect-error it is no duration
      await expect(drain(hf, { worker, until: 'soon' })).rejects.toThrow(
        /until must be a duration/,
      );
      await expect(drain({ ...hf }, { worker })).rejects.toThrow(
        /not an object that holdfast\(\) has returned/,
      );
      const lost = job('lost', { queue: 'nowhere' });
      const nowhere = hf.worker().handle(lost, () => undefined);
      await expect(drain(hf, { worker: nowhere })).rejects.toThrow(/There is no queue "nowhere"/);
      await hf.pause();
      await hf.enqueue(receipt, { orderId: 1 });
      await expect(drain(hf, { worker })).rejects.toThrow(/paused/);
      await hf.resume();
      await hf.pause('inbox', { key: 'a' });
      await hf.enqueue(receipt, { orderId: 2 }, { partitionKey: 'a' });
      await expect(drain(hf, { worker })).rejects.toThrow(/key "a" wait .* paused/);
      await hf.resume('inbox', { key: 'a' });
    });
  });

  describe('expectEnqueued', () => {
    test('what stands in an array must be equal, too', async () => {
      await kit.hf.enqueue(receipt, { orderId: 1, lines: [{ sku: 'a', qty: 2 }] } as never);
      await expectEnqueued({ type: 'send_receipt', payload: { lines: [{ qty: 2, sku: 'a' }] } });
      await expectNotEnqueued({ type: 'send_receipt', payload: { lines: [{ sku: 'a' }] } });
    });

    test('finds by type, key and part of the payload, and returns the job', async () => {
      const payload = { orderId: 7, lines: ['a', 'b'] };
      const { id } = await kit.hf.enqueue(receipt, payload, {
        partitionKey: 'order:7',
        delay: '1h',
      });
      const found = await expectEnqueued({
        type: receipt,
        partitionKey: 'order:7',
        payload: { orderId: 7 },
      });
      expect(found).toMatchObject({ id, payload, queue: 'inbox', running: false, attempts: 0 });
      expect(found.delayMs).toBeGreaterThan(3_590_000);
      await expectEnqueued({ type: 'send_receipt', payload: { lines: ['a', 'b'] } });
      await expectNotEnqueued({ type: receipt, payload: { lines: ['a'] } });
      await expectNotEnqueued({ type: receipt, partitionKey: 'order:8' });
      await expectNotEnqueued({ type: parcel });
    });

    test('says what is there when it fails', async () => {
      await kit.hf.enqueue(receipt, { orderId: 7 }, { partitionKey: 'order:7' });
      const failing = expectEnqueued({ type: parcel, payload: { orderId: 7 } });
      await expect(failing).rejects.toThrow(
        'No job is enqueued that matches {"type":"ship_parcel","payload":{"orderId":7}}.\n' +
          'Enqueued, waiting or running:\n' +
          '  send_receipt key "order:7" in queue "inbox": {"orderId":7}',
      );
      await expect(expectNotEnqueued({ type: receipt })).rejects.toThrow(
        /should not be.*\n.*\n {2}send_receipt/,
      );
      await clearJobs(kit.hf);
      await expect(expectEnqueued({})).rejects.toThrow(/running:\n {2}nothing/);
    });

    test('sees what the caller’s transaction has written, and others do not', async () => {
      const client = await kit.pool.connect();
      await client.query('BEGIN');
      await expectNotEnqueued({ type: receipt }, { tx: client });
      await kit.hf.enqueue(receipt, { orderId: 1 }, { tx: client });
      await expectEnqueued({ type: receipt }, { tx: client });
      await expect(expectNotEnqueued({ type: receipt }, { tx: client })).rejects.toThrow(
        /should not be/,
      );
      await client.query('ROLLBACK');
      client.release();
      await expectNotEnqueued({ type: receipt });
    });

    test('a value that is undefined is an error, and no match of anything', async () => {
      const order: { id?: number } = {};
      await kit.hf.enqueue(receipt, { orderId: 7 } as never);
      const wrong = expectEnqueued({ type: receipt, payload: { orderId: order.id } as never });
      await expect(wrong).rejects.toThrow(/payload\.orderId is undefined/);
      await expect(expectEnqueued({ type: undefined as never })).rejects.toThrow(
        /type is undefined/,
      );
    });

    test('a field that it does not know is an error', async () => {
      const wrong = expectEnqueued({ typ: 'send_receipt' } as never);
      await expect(wrong).rejects.toThrow(/has no field typ/);
      await expect(expectEnqueued(receipt as never)).rejects.toThrow(/type: sendReceipt/);
      await expect(expectEnqueued(undefined as never)).rejects.toThrow(/match is undefined/);
      const noClient = expectEnqueued({ type: receipt }, { tx: {} as never });
      await expect(noClient).rejects.toThrow(/tx has no query\(\)/);
    });
  });

  describe('makeJob', () => {
    test.each<[MadeState, object]>([
      ['pending', { status: 'pending', attempts: 0 }],
      ['delayed', { status: 'pending', attempts: 0 }],
      ['leased', { status: 'processing', attempts: 1, leaseGeneration: 1 }],
      [
        'retrying',
        { status: 'pending', attempts: 1, lastError: expect.stringContaining('made by') },
      ],
      ['dead_letter', { status: 'dead_letter', lastError: expect.stringContaining('made by') }],
      ['completed', { status: 'completed', attempts: 1 }],
      ['cancelled', { status: 'cancelled', lastError: expect.stringContaining('made by') }],
      ['suspect', { status: 'pending', attempts: 0, crashes: 2 }],
    ])('makes a job that is %s', async (state, row) => {
      const made = await makeJob(state, receipt, { orderId: 1 }, { partitionKey: 'order:1' });
      expect(made).toMatchObject({ ...row, type: 'send_receipt', partitionKey: 'order:1' });
    });

    test('refuses a state that there is not', async () => {
      const last = makeJob('retrying', receipt, { orderId: 1 }, { maxAttempts: 1 });
      await expect(last).rejects.toThrow(/has an attempt left, and maxAttempts is 1/);
      const wrong = makeJob('gone' as never, receipt, { orderId: 1 });
      await expect(wrong).rejects.toThrow(/no state "gone".*Use one of pending/);
    });
  });

  test('advance moves rates, and clearJobs forgets what was used up', async () => {
    const { pool, hf } = kit;
    await pool.query(`WITH l AS (INSERT INTO holdfast.limits (queue, type, rate_limit, rate_per, rate_burst)
      VALUES ('inbox', 'send_receipt', 1, '1h', 1) RETURNING id)
      INSERT INTO holdfast.rates SELECT id, '', now() + interval '1h', now() + interval '1h' FROM l`);
    await advance(hf, '1h');
    const { rows } = await pool.query(
      'SELECT r.started_tat <= clock_timestamp() AS free FROM holdfast.rates AS r',
    );
    expect(rows).toEqual([{ free: true }]);
    await clearJobs(hf);
    expect((await pool.query('SELECT FROM holdfast.rates')).rows).toEqual([]);
    await pool.query('DELETE FROM holdfast.limits');
  });

  test('advance lets delays pass, leases run out and idempotency keys lapse', async () => {
    await kit.hf.enqueue(receipt, { orderId: 1 }, { delay: '1h', idempotencyKey: 'once' });
    await advance(kit.hf, '59m');
    expect((await expectEnqueued({ type: receipt })).delayMs).toBeGreaterThan(0);
    await advance(kit.hf, '1m');
    expect((await expectEnqueued({ type: receipt })).delayMs).toBe(0);
    const worker = kit.hf.worker().handle(receipt, () => undefined);
    await drain(kit.hf, { worker });
    const again = { idempotencyKey: 'once' };
    expect((await kit.hf.enqueue(receipt, { orderId: 1 }, again)).deduplicated).toBe(true);
    await advance(kit.hf, '8d');
    expect((await kit.hf.enqueue(receipt, { orderId: 1 }, again)).deduplicated).toBe(false);
  });

  test('wrong calls of testJob say what is wrong', async () => {
    const run = () => undefined;
    const order = { orderId: 1 };
    await expect(testJob({} as never, run, order)).rejects.toThrow(/first argument is not a job/);
    await expect(testJob(receipt, 'x' as never, order)).rejects.toThrow(
      /second argument is not a handler/,
    );
    await expect(testJob(receipt, run, order, { attempt: 4 })).rejects.toThrow(
      /attempt is 4 .* maxAttempts, which is 3/,
    );
    await expect(testJob(receipt, run, order, { fault: 'fire' as never })).rejects.toThrow(
      /no fault "fire".*crash/,
    );
    await expect(testJob(receipt, run, order, { fault: 'marker_lost' })).rejects.toThrow(
      /got to none/,
    );
    await kit.hf.pause();
    await expect(testJob(receipt, run, order)).rejects.toThrow(/"inbox" is paused/);
    await kit.hf.resume();
    await expectNotEnqueued({});
  });
});

describe('PGlite', () => {
  const kit = kitOn(() => startPglite({ logger: quietLogger }));

  test('an attempt takes less than 50 ms of processor time', async () => {
    const usedMs: number[] = [];
    for (let n = 0; n < 20; n++) {
      const from = process.cpuUsage();
      await testJob(receipt, () => undefined, { orderId: n }, { hf: kit.hf });
      const { user, system } = process.cpuUsage(from);
      usedMs.push((user + system) / 1000);
    }
    // Others, the compiler of WebAssembly among them, can only add to it.
    expect(Math.min(...usedMs)).toBeLessThan(50);
  });

  test('fake timers of a test do not stop it', async () => {
    vi.useFakeTimers();
    try {
      const handler = ({ once }: HandlerContext<Order>) => once('mail', () => Date.now());
      const fault = 'delivered_twice';
      const result = await testJob(receipt, handler, { orderId: 1 }, { hf: kit.hf });
      expect(result.outcome).toBe('completed');
      const twice = await testJob(receipt, handler, { orderId: 1 }, { hf: kit.hf, fault });
      expect(twice.outcome).toBe('lost');
    } finally {
      vi.useRealTimers();
    }
  });

  test('its errors are those of pg', async () => {
    await kit.pool.query('CREATE TABLE receipts (order_id bigint PRIMARY KEY)');
    const insert = 'INSERT INTO receipts VALUES (1), (1)';
    const error = await kit.pool.query(insert).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(pg.DatabaseError);
    expect(error).toMatchObject({ code: '23505', constraint: 'receipts_pkey', table: 'receipts' });
  });
});

test('on PGlite, a statement that waits for a transaction which waits for it is told why', async () => {
  const { hf, pool, close } = await startPglite({ logger: quietLogger });
  const handler = ({ transaction }: HandlerContext<Order>) =>
    transaction(async () => void (await pool.query('SELECT 1')));
  const { outcome, error } = await testJob(receipt, handler, { orderId: 1 }, { hf });
  expect(outcome).toBe('retry');
  expect(String(error)).toMatch(/PGlite has a single session.*use the transaction for it/);
  await expect(hf.worker().handle(receipt, handler).run()).rejects.toThrow(
    /cannot run on PGlite.*drain/,
  );
  await close();
  await close(); // as `await using` does after it
});
