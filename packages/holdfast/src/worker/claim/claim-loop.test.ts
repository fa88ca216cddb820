/** The claim loop on a simulated clock: it acts when it should, and the same run comes out every time. */
import { describe, expect, test } from 'vitest';
import { testDatabase } from '../../../../../test/support/database.js';
import { handClock } from '../../../../../test/support/hand-clock.js';
import { simulatedTime } from '../../../../../test/support/time.js';
import { job } from '../../job/job.js';
import { bucketOf } from '../../job/key.js';
import type { Executor } from '../../postgres/queryable.js';
import { complete } from '../../settle/complete.js';
import { resolveOptions } from '../options.js';
import { LeasedJob } from '../run/leased-job.js';
import { type ClaimLoop, type ClaimLoopDeps, newClaimLoop } from './claim-loop.js';

const db = testDatabase();
const work = job('work');

interface Simulation {
  readonly loop: ClaimLoop;
  /** When claims ended, by the simulated clock, and what they brought. */
  readonly claims: { at: number; jobs: number }[];
  /** Lets timers fire, one after the other, until so many claims have ended. */
  until(claims: number): Promise<void>;
}

function simulate(seed: number, deps: Partial<ClaimLoopDeps> = {}): Simulation {
  const time = simulatedTime(seed);
  const claims: { at: number; jobs: number }[] = [];
  let found = 0;
  let ended: () => void = () => {};
  const loop = newClaimLoop({
    queue: 'inbox',
    names: { schema: 'holdfast', queue: 'inbox' },
    engine: db.engine,
    settings: resolveOptions({}),
    versions: { work: 1 },
    wakeups: {
      listening: () => false,
      getsHints: () => false,
      isQuiet: () => true,
      want: () => undefined,
    },
    time,
    workerId: () => `simulated-${seed}`,
    mayClaim: () => true,
    room: () => 10,
    free: () => true,
    run: () => 1,
    suspectsAt: () => Number.POSITIVE_INFINITY,
    receive: ({ jobs }) => {
      found += jobs.length;
    },
    ended: () => {
      claims.push({ at: time.now(), jobs: found });
      found = 0;
      ended();
    },
    recordEpoch: () => undefined,
    recordRound: () => undefined,
    emit: () => undefined,
    reportError: (_, error) => {
      throw error;
    },
    ...deps,
  });
  return {
    loop,
    claims,
    async until(count) {
      while (claims.length < count) {
        const claimed = new Promise<void>((resolve) => {
          ended = resolve;
        });
        if (!loop.claiming && !time.step()) throw new Error('nothing is planned');
        if (loop.claiming) await claimed;
      }
    },
  };
}

describe('a claim loop without notifications', () => {
  test('polls more and more rarely while it finds nothing, and then leaves its polls to others', async () => {
    const { loop, claims, until } = simulate(1);
    loop.pump();
    await expect(until(12)).rejects.toThrow('nothing is planned');
    expect(loop.idle).toBe(true);
    const gaps = claims.slice(1).map(({ at }, n) => at - (claims[n]?.at ?? 0));
    expect(gaps[0]).toBeLessThan(100);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(1_250);
    const news = { suspects: false, maintainedMs: null, recount: false };
    loop.record({ ...news, dueInMs: null });
    expect(loop.claiming).toBe(false);
    loop.record({ ...news, dueInMs: 0 });
    expect(loop.claiming).toBe(true);
    await until(claims.length + 1);
    loop.stop();
  });

  test('does the same at the same times when it is run again', async () => {
    const times: number[][] = [];
    for (let n = 0; n < 2; n++) {
      const { loop, claims, until } = simulate(42);
      loop.pump();
      await until(5);
      loop.stop();
      times.push(claims.map(({ at }) => at));
    }
    expect(times[0]).toEqual(times[1]);
  });

  test('reads on at once after a claim that took all it asked for', async () => {
    await db.hf.enqueueMany(Array.from({ length: 25 }, (_, n) => work.item({ n })));
    const { loop, claims, until } = simulate(3);
    loop.pump();
    await until(3);
    loop.stop();
    expect(claims).toEqual([
      { at: 0, jobs: 10 },
      { at: 0, jobs: 10 },
      { at: 0, jobs: 5 },
    ]);
  });

  test('claims nothing while it may not, and goes on when it is woken', async () => {
    let may = false;
    const { loop, claims, until } = simulate(4, { mayClaim: () => may });
    loop.pump();
    expect(loop.claiming).toBe(false);
    may = true;
    loop.wake();
    await until(1);
    loop.stop();
    expect(claims).toHaveLength(1);
  });
});

const HEARS = {
  ...{ listening: () => true, getsHints: () => true },
  ...{ isQuiet: () => false, want: () => undefined },
};

describe('a claim loop that gets hints', () => {
  test('asks when the next job is due as soon as hints arrive: nobody told it of earlier ones', async () => {
    await db.rows('DELETE FROM holdfast.inbox');
    const { loop, claims, until } = simulate(5, { wakeups: HEARS });
    loop.pump();
    await until(1);
    await db.hf.enqueue(work, { n: 1 }, { delay: '1s' });
    loop.listening();
    await until(3);
    loop.stop();
    // A poll would come after a second and a half at the earliest.
    expect(claims[2]?.at).toBeLessThan(1_100);
  });

  test('reads a key that became free again if a hint of it crossed the answer of its claim', async () => {
    await db.hf.createQueue('lines', { ordering: 'key' });
    const names = { schema: 'holdfast', queue: 'lines' };
    const step = job<{ n: number }>('step', { queue: 'lines' });
    await db.hf.enqueue(step, { n: 1 }, { partitionKey: 'k' });
    const { time, advance } = handClock();
    const taken: LeasedJob[] = [];
    let ended = () => {};
    let claims = 0;
    const engine: Executor = {
      async run(statement, on, params) {
        const rows = await db.engine.run(statement, on, params);
        if (statement.name !== 'claim_keyed' || claims > 0) return rows;
        // The first claim did not see this one, and its answer is still on its way.
        await db.hf.enqueue(step, { n: 2 }, { partitionKey: 'k' });
        advance(1);
        loop.hint({ since: new Date(), buckets: [bucketOf('k')], types: null });
        advance(1);
        return rows;
      },
    };
    const { loop } = simulate(6, {
      ...{ queue: 'lines', names, engine, versions: { step: 1 }, wakeups: HEARS, time },
      run: () => 10,
      receive: ({ jobs, ...claim }) => {
        const facts = { queue: 'lines', claimedAt: time.now(), ...claim };
        for (const row of jobs) taken.push(new LeasedJob(row, facts));
      },
      ended: () => {
        claims++;
        ended();
      },
    });
    const claimed = (count: number) =>
      new Promise<void>((resolve) => {
        ended = () => claims >= count && resolve();
      });
    loop.assign('key', [bucketOf('k')]);
    // The hint is followed while the key is held: that claim finds nothing.
    await claimed(2);
    advance(100);
    const [first] = taken as [LeasedJob];
    await complete(db.engine, names, first.workerId, [first]);
    first.how = 'completed';
    const third = claimed(3);
    loop.left(first);
    expect(loop.claiming).toBe(true);
    await third;
    loop.stop();
    expect(taken.map(({ row }) => JSON.parse(row.payload).n)).toEqual([1, 2]);
  });

  test('remembers when jobs are due without a timer for each of them', async () => {
    await db.hf.createQueue('later', { ordering: 'key' });
    const names = { schema: 'holdfast', queue: 'later' };
    const step = job<{ n: number }>('step', { queue: 'later' });
    await db.hf.enqueue(step, { n: 1 }, { partitionKey: 'k', delay: '4s' });
    const { time, advance, timers } = handClock();
    const claims: number[] = [];
    let ended = () => {};
    const { loop } = simulate(7, {
      ...{ queue: 'later', names, versions: { step: 1 }, wakeups: HEARS, time },
      ended: () => {
        claims.push(time.now());
        ended();
      },
    });
    const claimed = () =>
      new Promise<void>((resolve) => {
        ended = resolve;
      });
    const first = claimed();
    loop.assign('key', [bucketOf('k')]);
    await first;
    // The bucket is read again and again, and its head waits for its time.
    for (let n = 0; n < 20; n++) {
      advance(10);
      const again = claimed();
      loop.hint({ since: null, buckets: [bucketOf('k')], types: null });
      loop.dueIn(3_000 + n, [bucketOf('other')]);
      await again;
    }
    expect(timers.size).toBeLessThanOrEqual(2);
    const due = claimed();
    advance(4_000);
    await due;
    expect(claims.at(-1)).toBe(4_200);
    loop.stop();
  });
});
