/** The courses of the journeys: acts one after the other, for Play and for Step. */
import type { Act, Settings } from './engine/frame.js';

export interface Course {
  readonly id: string;
  readonly title: string;
  readonly settings?: Settings;
  readonly acts: readonly Act[];
}

const failing = (times: number): Act[] =>
  Array.from({ length: times }, (_, n) => [
    ...(n > 0 ? [{ do: 'due' }] : []),
    { do: 'claim' },
    { do: 'fail' },
  ]).flat();

export const RECEIPT: readonly Course[] = [
  {
    id: 'success',
    title: 'It succeeds',
    acts: [{ do: 'enqueue' }, { do: 'claim' }, { do: 'wait', ms: 1_000 }, { do: 'succeed' }],
  },
  {
    id: 'dead-letter',
    title: 'It fails until it is a dead letter',
    acts: [{ do: 'enqueue' }, ...failing(5)],
  },
  {
    id: 'second',
    title: 'A second claimer',
    acts: [{ do: 'enqueue' }, { do: 'claim' }, { do: 'second' }, { do: 'succeed' }],
  },
  {
    id: 'stale',
    title: 'A completion with an old generation',
    acts: [
      { do: 'enqueue' },
      ...failing(1),
      { do: 'due' },
      { do: 'claim' },
      { do: 'stale' },
      { do: 'succeed' },
    ],
  },
];

const crashed = (when: string): Act[] => [
  { do: 'enqueue' },
  { do: 'enqueue' },
  { do: 'claim', by: 'worker-a' },
  { do: 'kill', when },
  { do: 'claim', by: 'worker-b' },
  { do: 'expire' },
  { do: 'recover' },
  { do: 'claim', by: 'worker-b' },
  { do: 'handle' },
  { do: 'wake' },
];
const poisoned = Array.from({ length: 5 }, (_, n) => [
  { do: 'claim', by: n % 2 === 0 ? 'worker-a' : 'worker-b' },
  { do: 'kill', when: 'before' },
  { do: 'expire' },
  { do: 'recover' },
]).flat();

export const CRASH: readonly Course[] = [
  { id: 'after', title: 'Killed after the mail, no guard', acts: crashed('after') },
  {
    id: 'guard',
    title: 'Killed after the mail, with the guard',
    settings: { guard: true },
    acts: crashed('after'),
  },
  { id: 'before', title: 'Killed before the mail', acts: crashed('before') },
  {
    id: 'between',
    title: 'Killed between the mail and its marker',
    settings: { guard: true },
    acts: crashed('between'),
  },
  {
    id: 'poison',
    title: 'It kills whoever runs it',
    settings: { maxAttempts: 1 },
    acts: [{ do: 'enqueue' }, ...poisoned],
  },
];

export const RING: readonly Course[] = [
  {
    id: 'tour',
    title: 'A worker joins, another leaves',
    acts: [
      { do: 'key', key: 'order:9182' },
      { do: 'add' },
      { do: 'add' },
      { do: 'remove', id: 'worker-2' },
      { do: 'points', points: 1 },
      { do: 'bounded', on: false },
      { do: 'points', points: 200 },
      { do: 'bounded', on: true },
    ],
  },
];

/** With times to wait between: the fleet goes on by itself. */
export const FLEET: readonly Course[] = [
  {
    id: 'tour',
    title: 'A burst, a kill, a freeze, a drain',
    acts: [
      { do: 'burst' },
      { do: 'wait', ms: 2_000 },
      { do: 'kill', who: 'worker-2' },
      { do: 'wait', ms: 5_000 },
      { do: 'burst' },
      { do: 'add' },
      { do: 'wait', ms: 3_000 },
      { do: 'freeze', who: 'worker-1' },
      { do: 'wait', ms: 14_000 },
      { do: 'drain', who: 'worker-3' },
      { do: 'wait', ms: 6_000 },
    ],
  },
  {
    id: 'hot',
    title: 'A hot key, then eight shards of it',
    acts: [{ do: 'hot' }, { do: 'wait', ms: 16_000 }, { do: 'shards' }, { do: 'wait', ms: 6_000 }],
  },
  {
    id: 'poison',
    title: 'A poison job among others',
    acts: [{ do: 'burst' }, { do: 'poison' }, { do: 'wait', ms: 40_000 }],
  },
];

export const COURSES: Readonly<Record<string, readonly Course[]>> = {
  receipt: RECEIPT,
  crash: CRASH,
  ring: RING,
  fleet: FLEET,
};
