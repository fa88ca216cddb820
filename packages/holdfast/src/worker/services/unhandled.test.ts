/** Who finds jobs that nobody handles, and how often it is said. */
import { expect, test } from 'vitest';
import { handClock } from '../../../../../test/support/hand-clock.js';
import { recordingLogger } from '../../../../../test/support/logger.js';
import type { Unhandled } from '../../inspect/fleet/unhandled.js';
import { watchUnhandled } from './unhandled.js';

const one = (type: string): Unhandled => ({
  type,
  version: 1,
  id: 'x',
  jobs: 1,
  dueForMs: 12_000,
  run: false,
});

function watch(found: () => readonly Unhandled[] | Error, isFirst = () => true) {
  const log = recordingLogger();
  const { time, advance, timers } = handClock();
  const graces: number[] = [];
  const stop = watchUnhandled({
    ...{ settings: { maintenanceMs: 10_000 }, time, log },
    membership: {
      get isFirst() {
        return isFirst();
      },
      queues: ['inbox', 'unused'].map((name) => ({ name, ordering: 'none' as const })),
    },
    meant: async (_, types) => {
      if (types.includes('unreadable')) throw new Error('canceling statement');
      return types.map((type) => (type === 'send_faks' ? ' Did you mean "send_fax"?' : ''));
    },
    used: async (queues) => new Set(queues.filter((queue) => queue !== 'unused')),
    find: async ({ name }, graceMs) => {
      expect(name).not.toBe('unused');
      graces.push(graceMs);
      const answer = found();
      if (answer instanceof Error) throw answer;
      return answer;
    },
  });
  /** The check of the timer is over when the next one is planned. */
  const check = async (ms = 20_000) => {
    advance(ms);
    while (timers.size === 0) await null;
  };
  return { log, check, graces, stop, timers };
}

test('a type is said once, and again after ten minutes if it still waits', async () => {
  const { log, check, graces } = watch(() => [one('send_fax')]);
  for (let n = 0; n < 29; n++) await check();
  expect(log.lines).toEqual([
    {
      level: 'warn',
      facts: { queue: 'inbox', type: 'send_fax', version: 1, dueForMs: 12_000, job: 'x' },
      message: 'due jobs wait for a type or a version that no live worker handles',
    },
  ]);
  // It is seen within a minute: the grace of a deploy and the longest wait for a check.
  expect(graces[0]).toBe(10_000);
  for (let n = 0; n < 3; n++) await check();
  expect(log.lines).toHaveLength(2);
});

test('of the whole fleet one checks, and who becomes the first goes on', async () => {
  let first = false;
  const { log, check, graces } = watch(
    () => [one('send_fax')],
    () => first,
  );
  await check();
  expect(graces).toEqual([]);
  first = true;
  await check();
  expect(log.lines).toHaveLength(1);
});

test('made-up types do not flood the log, and no answer is no news', async () => {
  let answer: readonly Unhandled[] | Error = Array.from({ length: 50 }, (_, n) => one(`t${n}`));
  const { log, check, stop, timers } = watch(() => answer);
  await check();
  expect(log.lines).toHaveLength(10);
  answer = new Error('canceling statement due to statement timeout');
  await check();
  expect(log.lines).toHaveLength(10);
  stop();
  expect(timers.size).toBe(0);
});

test('a type that is near a known one is said with it', async () => {
  let found = [one('send_faks'), one('other')];
  const { log, check } = watch(() => found);
  await check();
  expect(log.lines.map(({ facts }) => (facts as { hint?: string }).hint)).toEqual([
    ...['Did you mean "send_fax"?', undefined],
  ]);
  // What is not known of the others keeps no line back.
  found = [one('unreadable')];
  await check();
  expect(log.lines).toHaveLength(3);
});
