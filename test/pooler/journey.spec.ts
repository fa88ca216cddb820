/** One worker behind PgBouncer: every way in which a job ends, and what a handler may do under its fence. */
import type pg from 'pg';
import { describe, expect, test } from 'vitest';
import {
  DeadLetter,
  type Holdfast,
  job,
  Snooze,
  type Worker,
  type WorkerOptions,
} from '../../packages/holdfast/src/index.js';
import { age } from '../support/archive.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';
import { pooledGround, sessionErrors, testPooler, VARIANTS } from './ground.js';

const receipt = job<{ n?: number }>('receipt', { retry: () => 0, maxAttempts: 3 });
const child = job<{ n?: number }>('child');
const start = testWorkers();

const ended = (hf: Holdfast, id: string, status = 'completed') =>
  until(`job ${id} is ${status}`, async () => {
    const row = await hf.job(id);
    return row?.status === status ? row : null;
  });
const effectsOf = async (direct: pg.Pool, id: string) =>
  (await direct.query('SELECT generation FROM effects WHERE job_id = $1', [id])).rowCount;

describe.each(VARIANTS)('PgBouncer $name', ({ settings }) => {
  const pooler = testPooler(settings);

  /** A worker with these handlers; `done` stops it and demands that it left nothing behind. */
  async function serve(handlers: (worker: Worker) => Worker, options: WorkerOptions = {}) {
    const db = await pooledGround(pooler());
    const started = start(db.hf, handlers, options);
    return {
      ...db,
      ...started,
      async done() {
        await started.stop();
        expect(sessionErrors(started.events)).toEqual([]);
        await db.leavesNothing();
      },
    };
  }

  test('a job that fails is retried, and is a dead letter when its attempts are spent', async () => {
    let broken = true;
    const { hf, done } = await serve((worker) =>
      worker.handle(receipt, ({ payload, attempt }) => {
        if (payload.n === 1 && attempt < 3) throw new Error('not yet');
        if (payload.n === 2 && broken) throw new Error('never');
        if (payload.n === 3 && broken) throw new DeadLetter('no such order');
      }),
    );
    const [late, dead, given] = await hf.enqueueMany([1, 2, 3].map((n) => receipt.item({ n })));
    expect(await ended(hf, late!.id)).toMatchObject({ attempts: 3 });
    expect(await ended(hf, dead!.id, 'dead_letter')).toMatchObject({ attempts: 3 });
    expect(await ended(hf, given!.id, 'dead_letter')).toMatchObject({ attempts: 1 });

    broken = false;
    expect(await hf.retry([dead!.id])).toEqual([dead!.id]);
    expect(await hf.discard([given!.id])).toEqual([given!.id]);
    await ended(hf, dead!.id);
    await done();
  });

  test('ctx.transaction: writes, children and completion commit together or not at all', async () => {
    const { hf, done, direct } = await serve((worker) =>
      worker
        .handle(child, () => undefined)
        .handle(receipt, (ctx) =>
          ctx.transaction(async (tx) => {
            await tx.query('INSERT INTO effects VALUES ($1, $2)', [ctx.id, ctx.fenceToken]);
            await ctx.enqueue(child, { n: ctx.payload.n ?? 0 }, { partitionKey: ctx.id });
            if (ctx.attempt < 2) throw new Error('after the write');
          }),
        ),
    );
    const jobs = await hf.enqueueMany(Array.from({ length: 20 }, (_, n) => receipt.item({ n })));
    for (const { id } of jobs) {
      expect(await ended(hf, id)).toMatchObject({ attempts: 2 });
      expect(await effectsOf(direct, id)).toBe(1);
    }
    const written = 'SELECT count(*)::int AS n FROM holdfast.inbox_archive WHERE type = $1';
    await until(
      'all children are completed',
      async () => (await direct.query(written, ['child'])).rows[0].n === jobs.length,
    );
    await done();
  });

  test('ctx.once: an effect is not repeated by a later attempt', async () => {
    let effects = 0;
    const values: unknown[] = [];
    const { hf, done } = await serve((worker) =>
      worker.handle(receipt, async (ctx) => {
        values.push(await ctx.once('charge', () => `ch_${++effects}`));
        if (ctx.attempt < 3) throw new Error('after the effect');
      }),
    );
    const { id } = await hf.enqueue(receipt, {});
    await ended(hf, id);
    expect(values).toEqual(['ch_1', 'ch_1', 'ch_1']);
    await done();
  });

  test('children outside a transaction are written with the completion', async () => {
    const { hf, done, worker } = await serve((made) =>
      made
        .handle(child, () => undefined)
        .handle(receipt, async (ctx) => {
          await ctx.enqueue(child, {});
          if (ctx.attempt < 2) throw new Error('the first attempt leaves no child');
        }),
    );
    const { id } = await hf.enqueue(receipt, {});
    await ended(hf, id);
    await until('the child is completed', () => worker.stats.completed === 2);
    await done();
    expect(worker.stats).toMatchObject({ claimed: 3, completed: 2, failed: 1 });
  });

  test('a cancelled job aborts its handler, and a snoozed one runs again', async () => {
    const aborted = gate<unknown>();
    let runs = 0;
    const { hf, done } = await serve(
      (worker) =>
        worker.handle(receipt, async ({ payload, signal }) => {
          if (payload.n === 1 && ++runs === 1) throw new Snooze('10ms');
          if (payload.n !== 2) return;
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
          aborted.open(signal.reason);
        }),
      { lease: '10s', renewEvery: '100ms' },
    );
    const [snoozed, running] = await hf.enqueueMany([1, 2].map((n) => receipt.item({ n })));
    expect(await ended(hf, snoozed!.id)).toMatchObject({ attempts: 1 });
    expect(runs).toBe(2);
    await ended(hf, running!.id, 'processing');
    expect(await hf.cancel([running!.id])).toEqual([running!.id]);
    expect(await aborted.opened).toMatchObject({ code: 'LEASE_LOST' });
    await done();
    expect(await hf.job(running!.id)).toMatchObject({ status: 'cancelled' });
  });

  test('a job that lasts longer than its lease keeps it', async () => {
    const ready = gate();
    const { hf, done, direct } = await serve(
      (worker) => worker.handle(receipt, () => ready.opened),
      { lease: '3s', renewEvery: '200ms' },
    );
    const { id } = await hf.enqueue(receipt, {});
    const { leaseExpiresAt, leaseGeneration } = await ended(hf, id, 'processing');
    await until('the first lease is over', async () => {
      const { rows } = await direct.query('SELECT now() > $1 AS over', [leaseExpiresAt]);
      return rows[0].over;
    });
    ready.open();
    expect(await ended(hf, id)).toMatchObject({ leaseGeneration, attempts: 1 });
    await done();
  });

  test('a stop hands running jobs back unspent, and leaves the registry', async () => {
    const { hf, done, worker, direct } = await serve((made) =>
      made.handle(receipt, () => new Promise(() => undefined)),
    );
    const { id } = await hf.enqueue(receipt, {});
    await ended(hf, id, 'processing');
    await worker.stop({ grace: 0 });
    expect(await hf.job(id)).toMatchObject({ status: 'pending', attempts: 0, claimedBy: null });
    const { rows } = await direct.query('SELECT status, released_all FROM holdfast.workers');
    expect(rows).toEqual([{ status: 'dead', released_all: true }]);
    await done();
  });

  test('maintenance: what is past its retention goes', async () => {
    const { hf, done, direct } = await serve((worker) => worker.handle(receipt, () => undefined), {
      maintenance: '100ms',
    });
    const { id } = await hf.enqueue(receipt, {}, { idempotencyKey: 'old' });
    await ended(hf, id);
    const rows: Parameters<typeof age>[0]['rows'] = async (text, params) =>
      (await direct.query(text, params as unknown[])).rows;
    await direct.query(`UPDATE holdfast.inbox_archive SET completed_at = now() - interval '9 days';
      UPDATE holdfast.inbox_idempotency SET expires_at = now() - interval '1 day'`);
    // Its segment is closed by one round of maintenance, and dropped by a later one.
    await until('it is pruned', async () => {
      await age({ rows }, '9 days');
      return (await hf.job(id)) === null;
    });
    await until('its key is free', async () => {
      const again = await hf.enqueue(receipt, {}, { idempotencyKey: 'old' });
      return !again.deduplicated;
    });
    await done();
  });

  test('a database with other preferences for times and isolation is served all the same', async () => {
    const db = await pooledGround(pooler());
    const name = new URL(db.directUrl).pathname.slice(1);
    await db.direct.query(`ALTER DATABASE ${name} SET timezone = 'Asia/Tokyo';
      ALTER DATABASE ${name} SET datestyle = 'SQL, DMY';
      ALTER DATABASE ${name} SET default_transaction_isolation = 'serializable'`);
    // Sessions that PgBouncer has open already would keep the old preferences.
    await db.direct.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`);
    const created: Date[] = [];
    const { stop, events, worker } = start(db.hf, (made) =>
      made.handle(receipt, (ctx) => void created.push(ctx.createdAt)),
    );
    await until('enqueueing works', () =>
      db.hf.enqueueMany(Array.from({ length: 300 }, () => receipt.item({}))).catch(() => null),
    );
    await until('all are completed', () => worker.stats.completed === 300);
    await stop();
    for (const at of created) expect(Math.abs(at.getTime() - Date.now())).toBeLessThan(3_600_000);
    expect(events.filter(({ kind }) => kind === 'failed' || kind === 'lost')).toEqual([]);
  });
});
