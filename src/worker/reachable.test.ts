/** The start of a worker while the database is away. */
import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { untilReachable } from './reachable.js';

const away = () => Object.assign(new Error('connect ECONNREFUSED'), { syscall: 'connect' });

test('however often it tries, it leaves one listener behind, and no warning of a leak', async () => {
  const { signal: halt } = new AbortController();
  const listeners: number[] = [];
  await untilReachable({ halt, reportError: () => undefined }, async () => {
    listeners.push(getEventListeners(halt, 'abort').length);
    if (listeners.length < 4) throw away();
  });
  expect(new Set(listeners).size).toBe(1);
});
