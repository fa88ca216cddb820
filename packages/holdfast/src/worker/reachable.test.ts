/** The start of a worker while the database is away, and what counts as away. */
import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { recordingLogger } from '../../../../test/support/logger.js';
import { outageOf, untilReachable, wasAway } from './reachable.js';

const INBOX = { schema: 'holdfast', queue: 'inbox' };
const away = () => Object.assign(new Error('connect ECONNREFUSED'), { syscall: 'connect' });

test('however often it tries, it leaves one listener behind, and no warning of a leak', async () => {
  const { signal: halt } = new AbortController();
  const listeners: number[] = [];
  await untilReachable({ halt, reportError: () => undefined }, 'starting', async () => {
    listeners.push(getEventListeners(halt, 'abort').length);
    if (listeners.length < 4) throw away();
  });
  expect(new Set(listeners).size).toBe(1);
});

test('a slow statement is no outage of a database that has confirmed a heartbeat meanwhile', () => {
  const late = new Error('Query read timeout');
  expect(wasAway(late, 29_000, 30_000)).toBe(false);
  // Frozen, it answered nobody.
  expect(wasAway(late, 31_000, 30_000)).toBe(true);
  expect(wasAway(away(), 0, 30_000)).toBe(true);
  expect(wasAway(Object.assign(new Error('lock'), { code: '55P03' }), 31_000, 30_000)).toBe(false);
});

test('the end of an outage is said once, at the first answer', async () => {
  const log = recordingLogger();
  const outage = outageOf(log);
  let there = true;
  const engine = outage.watch({
    run: async () => {
      if (!there) throw away();
      return [];
    },
  });
  const ask = () => engine.run({ name: 'ask', text: '', columns: {} }, INBOX, []);
  await ask();
  expect(log.lines).toEqual([]);
  there = false;
  for (let n = 0; n < 3; n++) {
    outage.record();
    await expect(ask()).rejects.toThrow(/ECONNREFUSED/);
  }
  there = true;
  await ask();
  await ask();
  expect(log.lines).toMatchObject([{ level: 'info', message: 'the database answers again' }]);
});
