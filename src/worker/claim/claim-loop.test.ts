/** The claim loop on a simulated clock: it acts when it should, and the same run comes out every time. */
import { describe, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.js';
import { simulatedTime } from '../../../test/support/time.js';
import { job } from '../../job/job.js';
import { resolveOptions } from '../options.js';
import { ClaimLoop, type ClaimLoopDeps } from './claim-loop.js';

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
  const loop = new ClaimLoop({
    queue: 'inbox',
    names: { schema: 'holdfast', queue: 'inbox' },
    engine: db.engine,
    settings: resolveOptions({}),
    versions: { work: 1 },
    wakeups: { listening: () => false, getsHints: () => false, want: () => undefined },
    time,
    workerId: () => `simulated-${seed}`,
    mayClaim: () => true,
    room: () => 10,
    free: () => true,
    run: () => 1,
    suspectsAt: () => Number.POSITIVE_INFINITY,
    receive: ({ jobs }) => {
      found = jobs.length;
    },
    ended: () => {
      claims.push({ at: time.now(), jobs: found });
      ended();
    },
    recordEpoch: () => undefined,
    recordRound: () => undefined,
    took: () => undefined,
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
  test('polls more and more rarely while it finds nothing, up to the poll interval', async () => {
    const { loop, claims, until } = simulate(1);
    loop.pump();
    await until(12);
    loop.stop();
    const gaps = claims.slice(1).map(({ at }, n) => at - (claims[n]?.at ?? 0));
    expect(gaps[0]).toBeLessThan(100);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(1_250);
    expect(gaps.at(-1)).toBeGreaterThanOrEqual(750);
  });

  test('does the same at the same times when it is run again', async () => {
    const times: number[][] = [];
    for (let n = 0; n < 2; n++) {
      const { loop, claims, until } = simulate(42);
      loop.pump();
      await until(10);
      loop.stop();
      times.push(claims.map(({ at }) => at));
    }
    expect(times[0]).toEqual(times[1]);
  });

  test('reads on at once after a claim that took all it asked for', async () => {
    await db.hf.enqueueMany(Array.from({ length: 25 }, (_, n) => work.of({ n })));
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
