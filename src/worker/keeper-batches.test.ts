/** What the keeper's thread is told of the jobs that are held, when, and what it makes of it. */
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { claimAs, heldOf } from '../../test/support/claiming.js';
import { INBOX, testDatabase } from '../../test/support/database.js';
import { until } from '../../test/support/until.js';
import { job } from '../index.js';
import type { Held } from '../lease/renew.js';
import { complete } from '../settle/complete.js';
import { release } from '../settle/release.js';
import { Batches, type Holding } from './keeper-batches.js';
import { Leases } from './keeper-leases.js';
import { type FromKeeper, pack, type ToKeeper, unpack } from './keeper-protocol.js';

const SMALLEST_RENEW_MS = 10;

/** A main thread that holds jobs; what it says is kept. Its clock is moved by hand. */
function mainThread(renewMs = 30_000) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const held = new Set<Holding>();
  const told: { at: number; message: ToKeeper }[] = [];
  const from = performance.now();
  const send = (message: ToKeeper) => told.push({ at: performance.now() - from, message });
  const batches = new Batches({ renewMs, send, held: () => held });
  return {
    batches,
    told,
    messages: () => told.splice(0).map(({ message }) => message),
    hold(...ids: string[]): Holding[] {
      const jobs = ids.map((id) => ({ id, generation: 1, queue: 'inbox', batch: null }));
      batches.hold('inbox', jobs);
      for (const one of jobs) held.add(one);
      return jobs;
    },
    drop(...jobs: Holding[]): void {
      for (const one of jobs) held.delete(one);
      for (const one of jobs) batches.drop(one);
    },
  };
}

const textOf = (...ids: string[]) => pack(ids.map((id) => ({ id, generation: 1 })));

describe('the main thread', () => {
  test('tells jobs at once, and of those that leave soon only that their batch is over', () => {
    const main = mainThread();
    const jobs = main.hold('a', 'b');
    expect(main.messages()).toEqual([
      { kind: 'hold', queue: 'inbox', batch: 1, jobs: textOf('a', 'b'), over: [] },
    ]);
    main.drop(...jobs);
    main.hold('c');
    expect(main.messages()).toMatchObject([{ kind: 'hold', batch: 2, over: [1] }]);
    vi.advanceTimersByTime(60_000);
    expect(main.messages()).toEqual([]);
  });

  test('tells that a batch is over also when no other follows', () => {
    const main = mainThread();
    main.drop(...main.hold('a'));
    main.messages();
    vi.advanceTimersByTime(1_000);
    expect(main.messages()).toEqual([{ kind: 'left', over: [1], jobs: [] }]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('tells what is left of a batch that lasts, and then every job that leaves', () => {
    const main = mainThread();
    const [a, b, c, d] = main.hold('a', 'b', 'c', 'd') as [Holding, Holding, Holding, Holding];
    main.drop(a);
    main.messages();
    vi.advanceTimersByTime(900);
    main.drop(c);
    expect(main.messages()).toEqual([]);
    vi.advanceTimersByTime(100);
    expect(main.messages()).toEqual([{ kind: 'rest', batch: 1, jobs: textOf('b', 'd') }]);
    main.drop(b);
    vi.advanceTimersByTime(1);
    expect(main.messages()).toEqual([
      { kind: 'left', over: [], jobs: [{ batch: 1, jobs: textOf('b') }] },
    ]);
    main.drop(d);
    vi.advanceTimersByTime(1);
    expect(main.messages()).toEqual([{ kind: 'left', over: [1], jobs: [] }]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('tells at once when the first job leaves a batch late', () => {
    const main = mainThread();
    const [a] = main.hold('a', 'b') as [Holding, Holding];
    const alone = main.hold('c');
    vi.advanceTimersByTime(20_000);
    main.messages();
    main.drop(a, ...alone);
    vi.advanceTimersByTime(1);
    expect(main.messages()).toEqual([
      { kind: 'left', over: [2], jobs: [{ batch: 1, jobs: textOf('a') }] },
    ]);
  });

  test('has told everything before a renewal is due, with the shortest interval, too', () => {
    for (const renewMs of [30_000, 200, SMALLEST_RENEW_MS]) {
      const main = mainThread(renewMs);
      const batches: Holding[][] = [];
      const droppedAt = new Map<number, number>();
      for (let n = 0; n < 40; n++) {
        batches.push(main.hold(`${n}-a`, `${n}-b`, `${n}-c`));
        vi.advanceTimersByTime(renewMs / 50);
        // An older one than that which has started the timer, among others.
        const number = Math.floor((n * 7) % batches.length);
        const [first] = batches[number] as [Holding];
        if (first.batch) main.drop(first);
        if (!droppedAt.has(number)) droppedAt.set(number, performance.now());
      }
      vi.advanceTimersByTime(renewMs);
      const heldAt = new Map<number, number>();
      const told = new Set<number>();
      for (const { at, message } of main.told) {
        if (message.kind === 'hold') heldAt.set(message.batch, at);
        else if (message.kind === 'rest') {
          told.add(message.batch);
          expect(at - (heldAt.get(message.batch) as number)).toBeLessThan(renewMs / 2);
        } else if (message.kind === 'left') {
          for (const { batch } of message.jobs) told.add(batch);
        }
      }
      expect(told.size).toBe(droppedAt.size);
      vi.useRealTimers();
    }
  });

  test('tells a new thread what is held, and nothing of it goes with what left before', () => {
    const main = mainThread();
    const [a, b] = main.hold('a', 'b') as [Holding, Holding];
    const [c] = main.hold('c') as [Holding];
    main.drop(a);
    main.messages();
    main.batches.tellAnew();
    expect(main.messages()).toEqual([
      { kind: 'hold', queue: 'inbox', batch: 3, jobs: textOf('b', 'c'), over: [] },
    ]);
    vi.advanceTimersByTime(60_000);
    expect(main.messages()).toEqual([]);
    main.drop(b);
    expect(main.batches.drop(b)).toBe(false);
    main.drop(c);
    vi.advanceTimersByTime(1);
    expect(main.messages()).toEqual([{ kind: 'left', over: [3], jobs: [] }]);
  });
});

describe('the thread', () => {
  const db = testDatabase();
  const noop = job('noop');
  const OWNER = 'owner';
  type Mine = ReturnType<typeof heldOf>;
  beforeEach(() => db.rows('DELETE FROM holdfast.inbox'));

  function thread(renewMs: number) {
    const lost: string[] = [];
    const tell = (message: FromKeeper) => {
      if (message.kind === 'lost') lost.push(...message.ids);
    };
    const ground = { schema: INBOX.schema, queues: [INBOX.queue], leaseMs: 90_000, renewMs };
    const leases = new Leases({ ...ground, workerId: () => OWNER, tell });
    const hold = (batch: number, jobs: readonly Held[]) =>
      leases.hold({ kind: 'hold', queue: INBOX.queue, batch, jobs: pack(jobs), over: [] });
    const renew = () => leases.renew({ executor: async () => db.engine });
    return { leases, lost, hold, renew };
  }

  async function claimed(count: number) {
    await db.hf.enqueueMany(Array.from({ length: count }, () => noop.of({})));
    return (await claimAs(db.engine, OWNER, { types: ['noop'], leaseMs: 60_000 })).map(heldOf);
  }

  /** Leases are claimed for a minute and renewed for longer. */
  const renewed = async () => {
    const text = `SELECT id FROM holdfast.inbox WHERE lease_expires_at > now() + interval '75 s'`;
    return new Set((await db.rows<{ id: string }>(text)).map(({ id }) => id));
  };

  test('renews what is left of a batch when it is due since the claim, and nothing that has left', async () => {
    const { leases, hold, renew, lost } = thread(400);
    const [a, b, c, d] = (await claimed(4)) as [Mine, Mine, Mine, Mine];
    const at = performance.now();
    hold(1, [a, b, c]);
    hold(2, [d]);
    await renew();
    expect(await renewed()).toEqual(new Set());
    await until('half of the interval is nearly over', () => performance.now() - at > 150);
    leases.rest({ kind: 'rest', batch: 1, jobs: pack([b, c]) });
    leases.left({ kind: 'left', over: [2], jobs: [{ batch: 1, jobs: pack([c]) }] });
    // Had these words made the lease look fresh, it would not be due now.
    await until('it is over', () => performance.now() - at > 210);
    await renew();
    expect(await renewed()).toEqual(new Set([b.id]));
    expect(lost).toEqual([]);
    expect(leases.size).toBe(1);
  });

  test('what is left is told of a batch that it has renewed already, when the main thread was late', async () => {
    const { leases, hold, renew } = thread(0);
    const [a, b] = (await claimed(2)) as [Mine, Mine];
    hold(1, [a, b]);
    await renew();
    leases.rest({ kind: 'rest', batch: 1, jobs: pack([b]) });
    expect(leases.size).toBe(1);
    leases.left({ kind: 'left', over: [], jobs: [{ batch: 1, jobs: pack([b]) }] });
    expect(leases.size).toBe(0);
  });

  test('keeps the lease of a job that was claimed again while its first batch was not over', async () => {
    const { leases, hold, renew, lost } = thread(0);
    const [first, other] = (await claimed(2)) as [Mine, Mine];
    hold(1, [first, other]);
    await renew();
    await release(db.engine, INBOX, OWNER, [first]);
    const again = await claimAs(db.engine, OWNER, { types: ['noop'], leaseMs: 60_000 });
    const [second] = again.map(heldOf) as [Mine];
    expect(second).toMatchObject({ id: first.id, generation: first.generation + 1 });
    hold(2, [second]);
    leases.left({ kind: 'left', over: [], jobs: [{ batch: 1, jobs: pack([first]) }] });
    await renew();
    expect(await renewed()).toEqual(new Set([first.id, other.id]));
    leases.left({ kind: 'left', over: [1], jobs: [] });
    expect(leases.size).toBe(1);
    await renew();
    expect(lost).toEqual([]);
  });

  test('hands back what is held; a job that was settled and not told stays as it is', async () => {
    const { leases, hold } = thread(30_000);
    const [done, returned, held] = (await claimed(3)) as [Mine, Mine, Mine];
    hold(1, [done, returned, held]);
    await complete(db.engine, INBOX, OWNER, [done]);
    await release(db.engine, INBOX, OWNER, [returned]);
    const [theirs] = (await claimAs(db.engine, 'other', { types: ['noop'] })).map(heldOf);
    expect(theirs?.id).toBe(returned.id);
    expect(await leases.handBack(db.engine)).toBe(1);
    const rows = await db.rows<{ id: string; status: string; claimed_by: string | null }>(
      'SELECT id, status::text, claimed_by FROM holdfast.inbox',
    );
    const by = new Map(rows.map(({ id, ...row }) => [id, row]));
    expect(by.get(held.id)).toEqual({ status: 'pending', claimed_by: null });
    expect(by.get(returned.id)).toEqual({ status: 'processing', claimed_by: 'other' });
    expect(by.get(done.id)?.status ?? 'completed').toBe('completed');
  });

  test('knows nothing any more of what a dead incarnation held', async () => {
    const { leases, hold, renew, lost } = thread(0);
    const jobs = await claimed(2);
    hold(1, jobs);
    leases.clear();
    leases.rest({ kind: 'rest', batch: 1, jobs: pack(jobs) });
    leases.left({ kind: 'left', over: [1], jobs: [{ batch: 1, jobs: pack(jobs) }] });
    await renew();
    expect(leases.size).toBe(0);
    expect(lost).toEqual([]);
    expect(await renewed()).toEqual(new Set());
  });
});

test('ids and generations come out of a text as they went in', () => {
  const jobs = Array.from({ length: 3 }, (_, n) => ({ id: `id-${n}`, generation: 10 ** n }));
  expect([...unpack(pack(jobs))]).toEqual(jobs);
});
