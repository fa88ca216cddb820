/** The courses of the journeys: acts one after the other, for Play and for Step. */
import type { Act, Settings } from './engine/frame.js';

export interface Course {
  readonly id: string;
  readonly title: string;
  readonly settings?: Settings;
  readonly acts: readonly Act[];
}

/** A verb, or a verb with its words. */
type Step = string | readonly [verb: string, words: Omit<Act, 'do'>];
const course = (
  id: string,
  title: string,
  steps: readonly Step[],
  settings?: Settings,
): Course => ({
  ...{ id, title, ...(settings && { settings }) },
  acts: steps.map((step) =>
    typeof step === 'string' ? { do: step } : ({ do: step[0], ...step[1] } as Act),
  ),
});
const wait = (seconds: number): Step => ['wait', { ms: 1_000 * seconds }];
const repeated = <Item>(times: number, of: (n: number) => readonly Item[]): Item[] =>
  Array.from({ length: times }, (_, n) => of(n)).flat();

const failing = (times: number): Step[] =>
  repeated(times, (n) => [...(n > 0 ? ['due'] : []), 'claim', 'fail']);
const crashed = (when: string): Step[] => [
  'enqueue',
  'enqueue',
  ['claim', { by: 'worker-a' }],
  ['kill', { when }],
  ['claim', { by: 'worker-b' }],
  'expire',
  'recover',
  ['claim', { by: 'worker-b' }],
  'handle',
  'wake',
];
const poisoned = repeated<Step>(5, (n) => [
  ['claim', { by: n % 2 === 0 ? 'worker-a' : 'worker-b' }],
  ['kill', { when: 'before' }],
  'expire',
  'recover',
]);

/** The crashes of a checkout, in parts of which none takes long. */
const PARTS = 12;
const everywhere = repeated<Step>(PARTS, (n) => [['part', { n, of: PARTS }]]);

export const COURSES: Readonly<Record<string, readonly Course[]>> = {
  receipt: [
    course('success', 'It succeeds', ['enqueue', 'claim', wait(1), 'succeed']),
    course('dead-letter', 'It fails until it is a dead letter', ['enqueue', ...failing(5)]),
    course('second', 'A second claimer', ['enqueue', 'claim', 'second', 'succeed']),
    course('stale', 'A completion with an old generation', [
      'enqueue',
      ...failing(1),
      ...['due', 'claim', 'stale', 'succeed'],
    ]),
  ],
  crash: [
    course('after', 'Killed after the mail, no guard', crashed('after')),
    course('guard', 'Killed after the mail, with the guard', crashed('after'), { guard: true }),
    course('before', 'Killed before the mail', crashed('before')),
    course('between', 'Killed between the mail and its marker', crashed('between'), {
      guard: true,
    }),
    course('poison', 'It kills whoever runs it', ['enqueue', ...poisoned], { maxAttempts: 1 }),
  ],
  ring: [
    course('tour', 'A worker joins, another leaves', [
      ['key', { key: 'order:9182' }],
      'add',
      'add',
      ['remove', { id: 'worker-2' }],
      ['points', { points: 1 }],
      ['bounded', { on: false }],
      ['points', { points: 200 }],
      ['bounded', { on: true }],
    ]),
  ],
  // With times to wait between: the fleet goes on by itself.
  fleet: [
    course('tour', 'A burst, a kill, a freeze, a drain', [
      'burst',
      wait(2),
      ['kill', { who: 'worker-2' }],
      wait(5),
      'burst',
      'add',
      wait(3),
      ['freeze', { who: 'worker-1' }],
      wait(14),
      ['drain', { who: 'worker-3' }],
      wait(6),
    ]),
    course('hot', 'A hot key, then eight shards of it', ['hot', wait(16), 'shards', wait(6)]),
    course('poison', 'A poison job among others', ['burst', 'poison', wait(40)]),
  ],
  checkout: [
    course('every', 'Crashed at every statement', everywhere),
    course('undo', 'It cannot be shipped, and undoes', everywhere, { fails: true }),
    course('careless', 'The bank is given no keys', everywhere, { keys: false }),
  ],
};
