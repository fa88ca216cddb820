/** What the keeper's thread hears of the held jobs, and which leases it renews. */
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { claimAs, heldOf } from '../../../../../test/support/claiming.js';
import { INBOX, testDatabase } from '../../../../../test/support/database.js';
import { until } from '../../../../../test/support/until.js';
import { job } from '../../index.js';
import type { Lease } from '../../lease/renew.js';
import type { Executor } from '../../postgres/queryable.js';
import { complete } from '../../settle/complete.js';
import { release } from '../../settle/release.js';
import { type BatchedJob, newBatches } from './batches.js';
import { newLeases } from './leases.js';
import { monotonicMs, pack, type Tell, type ToKeeper, unpack } from './protocol.js';

/** A main thread that holds jobs; its messages are recorded and its timers are moved by hand. */
function mainThread(renewMs = 30_000) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const sent: ToKeeper[] = [];
  const batches = newBatches({ renewMs, heartbeatMs: 10_000 }, (message) => sent.push(message));
  return {
    batches,
    messages: () => sent.splice(0),
    hold(...ids: string[]): BatchedJob[] {
      const jobs = ids.map((id) => ({ id, generation: 1, batch: null }));
      batches.hold('inbox', jobs);
      return jobs;
    },
  };
}

const textOf = (...ids: string[]) => pack(ids.map((id) => ({ id, generation: 1 })));

describe('the main thread', () => {
  test('sends one message for a claim, at once, and one in a quarter of the renewal interval after jobs have left', () => {
    const main = mainThread();
    const jobs = [...main.hold('a', 'b'), ...main.hold('c')];
    expect(main.messages()).toMatchObject([
      { kind: 'hold', batch: { queue: 'inbox', number: 1, jobs: textOf('a', 'b') } },
      { kind: 'hold', batch: { queue: 'inbox', number: 2, jobs: textOf('c') } },
    ]);
    for (const job of jobs) main.batches.drop(job);
    vi.advanceTimersByTime(7_499);
    expect(main.messages()).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(main.messages()).toEqual([{ kind: 'held', batches: [] }]);
    vi.advanceTimersByTime(60_000);
    expect(main.messages()).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('soon says what has left, however long leases are: until then the thread keeps it', () => {
    const main = mainThread(8 * 3_600_000);
    for (const job of main.hold('a', 'b')) main.batches.drop(job);
    main.messages();
    vi.advanceTimersByTime(10_000);
    expect(main.messages()).toEqual([{ kind: 'held', batches: [] }]);
  });

  test('sends what is left of a batch that lasts, in time for its first renewal', () => {
    for (const renewMs of [30_000, 10]) {
      const main = mainThread(renewMs);
      const [a, , c] = main.hold('a', 'b', 'c') as [BatchedJob, BatchedJob, BatchedJob];
      main.messages();
      main.batches.drop(a);
      main.batches.drop(a);
      main.batches.drop(c);
      vi.advanceTimersByTime(renewMs / 4 + 1);
      expect(main.messages()).toMatchObject([
        { kind: 'held', batches: [{ number: 1, jobs: textOf('b') }] },
      ]);
    }
  });

  test('sends a new thread what is held, with the time of its claim', () => {
    const main = mainThread();
    const [a] = main.hold('a', 'b') as [BatchedJob, BatchedJob];
    const [c] = main.hold('c') as [BatchedJob];
    const [first] = main.messages() as [Extract<ToKeeper, { kind: 'hold' }>];
    main.batches.drop(a);
    main.batches.drop(c);
    main.batches.sendAll();
    const batches = [{ ...first.batch, jobs: textOf('b') }];
    expect(main.messages()).toEqual([{ kind: 'held', batches }]);
    vi.advanceTimersByTime(60_000);
    expect(main.messages()).toEqual([]);
  });

  test('holds nothing under a new id', () => {
    const main = mainThread();
    const [a] = main.hold('a', 'b') as [BatchedJob, BatchedJob];
    main.messages();
    main.batches.clear();
    main.batches.drop(a);
    main.batches.sendAll();
    vi.advanceTimersByTime(60_000);
    expect(main.messages()).toEqual([{ kind: 'held', batches: [] }]);
  });
});

describe('the thread', () => {
  const db = testDatabase();
  const noop = job('noop');
  const OWNER = 'owner';
  const RENEW_MS = 30_000;
  type Mine = ReturnType<typeof heldOf>;
  beforeEach(() => db.rows('DELETE FROM holdfast.inbox'));

  function thread(renewMs = RENEW_MS) {
    const lost: Lease[] = [];
    const tell: Tell = (kind, ...args) => {
      if (kind === 'lost') lost.push(...(args[1] as Lease[]));
    };
    const { schema, queue } = INBOX;
    const deps = { schema, leaseMs: 90_000, renewMs };
    const leases = newLeases({ ...deps, workerId: () => OWNER, tell });
    /** Claimed so long ago. */
    const batch = (number: number, jobs: readonly Lease[], agoMs = RENEW_MS / 2) => ({
      ...{ number, queue, heldAt: monotonicMs() - agoMs, jobs: pack(jobs) },
    });
    const hold = (...held: Parameters<typeof batch>) => leases.hold(batch(...held));
    const renew = async () => {
      let statements = 0;
      while (await leases.renew(db.engine)) statements++;
      return statements;
    };
    return { leases, lost, batch, hold, renew };
  }

  async function claimed(count: number) {
    await db.hf.enqueueMany(Array.from({ length: count }, () => noop.item({})));
    const options = { types: ['noop'], leaseMs: 60_000, limit: count };
    return (await claimAs(db.engine, OWNER, options)).map(heldOf);
  }

  /** Leases are claimed for a minute and renewed for longer. */
  const renewed = async () => {
    const text = `SELECT id FROM holdfast.inbox WHERE lease_expires_at > now() + interval '75 s'`;
    return new Set((await db.rows<{ id: string }>(text)).map(({ id }) => id));
  };
  const shorten = () =>
    db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() + interval '60 s'`);

  test('renews what is left of a batch when half of the interval is over, and not before', async () => {
    const { leases, batch, hold, renew, lost } = thread();
    const [a, b, c, d] = (await claimed(4)) as [Mine, Mine, Mine, Mine];
    hold(1, [a, b]);
    hold(2, [c]);
    const third = batch(3, [d], RENEW_MS / 2 - 1_000);
    leases.hold(third);
    leases.held([batch(1, [b]), third]);
    await renew();
    expect(await renewed()).toEqual(new Set([b.id]));
    expect(leases.size).toBe(2);
    await shorten();
    // It was renewed just now, whenever it was claimed.
    leases.held([batch(1, [b]), third]);
    await renew();
    expect(await renewed()).toEqual(new Set());
    expect(lost).toEqual([]);
  });

  test('tries a row that somebody has locked again soon, and not in a hot loop', async () => {
    const { hold, renew, lost } = thread(2_000);
    const [a, b] = (await claimed(2)) as [Mine, Mine];
    hold(1, [a, b], 1_000);
    const lock = await db.pool.connect();
    await lock.query('BEGIN');
    await lock.query('SELECT FROM holdfast.inbox WHERE id = $1 FOR UPDATE', [a.id]);
    expect(await renew()).toBe(1);
    await lock.query('COMMIT');
    lock.release();
    expect(await renewed()).toEqual(new Set([b.id]));
    await until('it is due again', async () => (await renew()) === 1);
    expect(await renewed()).toEqual(new Set([a.id, b.id]));
    expect(lost).toEqual([]);
  });

  test('renews the jobs of other queues while one queue is locked', async () => {
    const { leases, batch } = thread();
    const [a, b] = (await claimed(2)) as [Mine, Mine];
    leases.hold({ ...batch(1, [a]), queue: 'locked' });
    leases.hold(batch(2, [b]));
    const locked: Executor = {
      async run(statement, names, params) {
        if (names.queue === 'locked') throw new Error('lock timeout');
        return db.engine.run(statement, names, params);
      },
    };
    await expect(leases.renew(locked)).rejects.toThrow('lock timeout');
    expect(await leases.renew(locked)).toBe(true);
    expect(await renewed()).toEqual(new Set([b.id]));
    await expect(leases.renew(locked)).rejects.toThrow('lock timeout');
  });

  test('renews many jobs in several statements, so that others come in between', async () => {
    const { hold, renew, lost } = thread();
    const jobs = await claimed(2_500);
    for (let n = 0; n < 5; n++) hold(n, jobs.slice(n * 500, (n + 1) * 500));
    expect(await renew()).toBe(3);
    expect((await renewed()).size).toBe(2_500);
    expect(lost).toEqual([]);
  });

  test('reports each job that is not ours any more, once', async () => {
    const { leases, hold, renew, lost } = thread();
    const [done, returned, held] = (await claimed(3)) as [Mine, Mine, Mine];
    hold(1, [done, returned, held]);
    await complete(db.engine, INBOX, OWNER, [done]);
    await release(db.engine, INBOX, OWNER, [returned]);
    await renew();
    const ids = (jobs: readonly Lease[]) => jobs.map(({ id }) => id).sort();
    expect(ids(lost)).toEqual(ids([done, returned]));
    expect(leases.size).toBe(1);
    expect(await renewed()).toEqual(new Set([held.id]));
  });

  test('keeps the lease of a job that was claimed again while its first batch was not over', async () => {
    const { leases, batch, hold, renew, lost } = thread();
    const [first, other] = (await claimed(2)) as [Mine, Mine];
    hold(1, [first, other]);
    await release(db.engine, INBOX, OWNER, [first]);
    const again = await claimAs(db.engine, OWNER, { types: ['noop'], leaseMs: 60_000 });
    const [second] = again.map(heldOf) as [Mine];
    expect(second).toMatchObject({ id: first.id, generation: first.generation + 1 });
    hold(2, [second]);
    await renew();
    expect(await renewed()).toEqual(new Set([first.id, other.id]));
    leases.held([batch(2, [second])]);
    expect(leases.size).toBe(1);
    expect(lost).toEqual([]);
  });

  test('renews nothing that a dead id held', async () => {
    const { leases, hold, renew, lost } = thread();
    const jobs = await claimed(2);
    hold(1, jobs);
    leases.clear();
    await renew();
    expect(leases.size).toBe(0);
    expect(lost).toEqual([]);
    expect(await renewed()).toEqual(new Set());
  });
});

test('ids and generations come out of a text as they went in', () => {
  const jobs = Array.from({ length: 3 }, (_, n) => ({ id: `id-${n}`, generation: 10 ** n }));
  expect(unpack(pack(jobs))).toEqual(jobs);
  expect(unpack(pack([]))).toEqual([]);
});
