/** Which queues a question asks for, where there are more than one question may ask for. */
import { expect, test } from 'vitest';
import { handClock } from '../../../../../test/support/hand-clock.js';
import type { ClaimLoop } from './claim-loop.js';
import { MOST_QUEUES, newIdlePoll } from './idle-poll.js';

test('every idle queue is asked for in a circle, whatever the names', async () => {
  const { time, advance, timers } = handClock();
  const asked: string[][] = [];
  // By name, queue_9 comes behind queue_10; by number it does not.
  const names = Array.from({ length: MOST_QUEUES + 10 }, (_, n) => `queue_${n + 1}`);
  const busy = new Set<string>();
  const poll = newIdlePoll({
    ...{ schema: 'holdfast', settings: { pollMs: 1_000 }, time },
    engine: {
      run: async (_: unknown, __: unknown, [request]: readonly unknown[]) => {
        asked.push(Object.keys(JSON.parse(request as string)));
        return [];
      },
    } as never,
    queues: () =>
      names.map((queue) => ({
        ...{ queue, versions: {} },
        claims: { idle: !busy.has(queue) } as ClaimLoop,
      })),
    ...{ listening: () => false, servers: () => 1 },
    recordRound: () => undefined,
    reportError: (_, error) => {
      throw error;
    },
  });
  const round = async () => {
    advance(2_000);
    while (timers.size === 0) await null;
  };
  poll.start();
  await round();
  await round();
  expect(asked.map(({ length }) => length)).toEqual([MOST_QUEUES, MOST_QUEUES]);
  expect(new Set(asked.flat())).toEqual(new Set(names));
  // The one that was asked for last has work now: the circle goes on behind it.
  busy.add(asked[1]?.at(-1) as string);
  await round();
  await round();
  expect(new Set(asked.slice(2).flat()).size).toBe(names.length - 1);
  poll.stop();
});

test.each([
  ['without hints', false, { a: 9, b: 9 }, 1],
  ['alone', true, { a: 1, b: 1 }, 2],
  ['beside others, for the queue that has the fewest', true, { a: 3, b: 9 }, 3],
  ['in a large fleet', true, { a: 40, b: 9 }, 5],
])('a worker asks as often as it must: %s', async (_, listening, servers, polls) => {
  const { time, advance, timers } = handClock();
  let asked = 0;
  const poll = newIdlePoll({
    ...{ schema: 'holdfast', settings: { pollMs: 1_000 } },
    time: { ...time, random: () => 0.5 },
    engine: {
      run: async () => {
        asked++;
        return [];
      },
    } as never,
    queues: () =>
      ['a', 'b'].map((queue) => ({ queue, versions: {}, claims: { idle: true } as ClaimLoop })),
    listening: () => listening,
    servers: (queue) => servers[queue as 'a' | 'b'],
    recordRound: () => undefined,
    reportError: (_, error) => {
      throw error;
    },
  });
  poll.start();
  advance(polls * 1_000 - 1);
  expect(asked).toBe(0);
  advance(1);
  expect(asked).toBe(1);
  while (timers.size === 0) await null;
  poll.stop();
});
