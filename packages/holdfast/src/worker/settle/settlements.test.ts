import { expect, test } from 'vitest';
import type { Settled } from '../../settle/settled.js';
import { systemTime } from '../time.js';
import { newSettlements, resultsOf } from './settlements.js';

test('a job that this worker claimed again is settled once, in its newest generation', async () => {
  const sent: Settled[] = [];
  const settlements = newSettlements<Settled>(
    {
      ...{ reportError: () => {}, took: () => {}, standing: () => 'alive' as const },
      ...{ time: systemTime, abandoned: new AbortController().signal },
    },
    'complete',
    async (_workerId, items) => {
      sent.push(...items);
      return resultsOf(
        items.map(({ id }) => id),
        'completed',
        items.length,
      );
    },
  );
  const settled = await Promise.all(
    [
      { id: 'a', generation: 3 },
      { id: 'b', generation: 1 },
      { id: 'a', generation: 4 },
    ].map((item) => new Promise((resolve) => settlements.add('w', item, resolve))),
  );
  expect(settled).toEqual(['lost', 'completed', 'completed']);
  expect(sent.map(({ id, generation }) => `${id} ${generation}`)).toEqual(['a 4', 'b 1']);
});

test('what is sent again after its worker was declared dead is only searched for', async () => {
  let standing: 'alive' | 'dead' = 'alive';
  const sent: string[] = [];
  const settlements = newSettlements<Settled>(
    {
      ...{ reportError: () => {}, took: () => {}, standing: () => standing },
      ...{ time: systemTime, abandoned: new AbortController().signal },
    },
    'complete',
    async (_workerId, items) => {
      sent.push(...items.map(({ id }) => id));
      standing = 'dead';
      throw Object.assign(new Error('the connection broke'), { code: '08006' });
    },
    { afterLoss: async (_workerId, items) => resultsOf(['a'], 'completed', items.length) },
  );
  const settled = await Promise.all(
    ['a', 'b'].map(
      (id) => new Promise((resolve) => settlements.add('w', { id, generation: 1 }, resolve)),
    ),
  );
  expect(settled).toEqual(['completed', 'lost']);
  expect(sent).toEqual(['a', 'b']);
});
