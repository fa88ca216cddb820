import { expect, test } from 'vitest';
import type { Overview } from '../../../../packages/holdfast/src/inspect/queue/overview.js';
import type { Member } from './member.js';
import { Recoveries } from './recoveries.js';

const member = (number: number, id: string) => ({ number, id }) as Member;

/** Workers as the registry shows them: id, status, jobs in hand. */
function seen(...workers: [id: string, status: string, held: number][]): Overview {
  const rows = workers.map(([id, status, held]) => ({ worker: { id, status }, held }));
  return { queues: [], workers: rows } as unknown as Overview;
}

test('it is over when the worker is dead and holds nothing any more', () => {
  const recoveries = new Recoveries();
  recoveries.begin(member(2, 'b'), 'killed', 100);
  expect(recoveries.saw(seen(['b', 'alive', 7]), 110, 120)).toEqual([]);
  expect(recoveries.saw(seen(['b', 'dead', 3]), 1_600, 1_610)).toEqual([]);
  const [over] = recoveries.saw(seen(['b', 'dead', 0]), 2_090, 2_100);
  expect(over).toMatchObject({ number: 2, mishap: 'killed', held: 7, tookMs: 2_000 });
  expect(recoveries.open).toHaveLength(0);
});

test('a look that was begun before the mishap says nothing about it', () => {
  const recoveries = new Recoveries();
  recoveries.begin(member(1, 'a'), 'killed', 100);
  expect(recoveries.saw(seen(['a', 'dead', 0]), 99, 130)).toEqual([]);
  expect(recoveries.open[0]?.held).toBeNull();
});

test('a worker that is back before anybody missed it needed no recovery', () => {
  const recoveries = new Recoveries();
  recoveries.begin(member(1, 'a'), 'frozen', 100);
  recoveries.cameBack('a');
  recoveries.saw(seen(['a', 'alive', 2]), 200, 210);
  expect([...recoveries.open, ...recoveries.done]).toEqual([]);
});

test('a worker that is back after it was given up counts', () => {
  const recoveries = new Recoveries();
  recoveries.begin(member(1, 'a'), 'cut off', 0);
  recoveries.cameBack('a');
  recoveries.saw(seen(['a', 'dead', 0], ['a2', 'alive', 0]), 8_000, 8_000);
  expect(recoveries.done).toMatchObject([{ mishap: 'cut off', tookMs: 8_000 }]);
});

test('a worker that is drained by whoever quits is no recovery', () => {
  const recoveries = new Recoveries();
  recoveries.begin(member(1, 'a'), 'frozen', 0);
  recoveries.forget('a');
  expect(recoveries.saw(seen(['b', 'alive', 0]), 1_000, 1_000)).toEqual([]);
  expect(recoveries.done).toEqual([]);
});
