/** What waits to be handled together, by a clock that is set by hand. */
import { expect, test } from 'vitest';
import { handClock } from '../../../../../test/support/hand-clock.js';
import type { ClaimedJob } from '../../claim/take.js';
import { job } from '../../job/job.js';
import { Gather } from './gather.js';
import { type ClaimFacts, LeasedJob } from './leased-job.js';

const facts = {} as ClaimFacts;
const leased = (id: string) => new LeasedJob({ id } as ClaimedJob, facts);
/** A run for each text, with a job for each letter. */
const runsOf = (...texts: string[]) => texts.map((text) => [...text].map(leased));
const shown = (runs: readonly LeasedJob[][]) => runs.map((run) => run.map(({ id }) => id).join(''));

function gather(max: number, withinMs: number) {
  const clock = handClock();
  let ready = 0;
  const many = { max, withinMs, handler: () => undefined };
  const one = new Gather(job('row') as never, many, clock.time, () => ready++);
  const add = (...texts: string[]) => {
    for (const run of runsOf(...texts)) one.add(run);
  };
  return { one, add, clock, ready: () => ready };
}

test('the first waits for others, for so long and not longer', () => {
  const { one, add, clock, ready } = gather(10, 50);
  add('a');
  clock.advance(49);
  add('b');
  expect([one.isReady, ready()]).toEqual([false, 0]);
  clock.advance(1);
  expect([one.isReady, ready()]).toEqual([true, 1]);
  expect(shown(one.take().runs)).toEqual(['a', 'b']);
  expect([one.isReady, one.size, clock.timers.size]).toEqual([false, 0, 0]);
});

test('a timer that fires a little early loses nobody, wherever the clock goes on', () => {
  for (let reads = 0; reads < 6; reads++) {
    let [began, left, ready] = [true, reads, 0];
    const timers: (() => void)[] = [];
    const time = {
      ...handClock().time,
      // The last microsecond of its time is over after so many reads.
      now: () => (began ? 0 : left-- > 0 ? 49.999 : 50),
      after(_: number, run: () => void) {
        timers.push(run);
        return { cancel: () => undefined };
      },
    };
    const many = { max: 10, withinMs: 50, handler: () => undefined };
    const one = new Gather(job('row') as never, many, time, () => ready++);
    one.add([leased('a')]);
    began = false;
    timers.shift()?.();
    expect(ready + timers.length, `after ${reads} reads`).toBeGreaterThan(0);
  }
});

test('what is left over waits for its own time', () => {
  const { one, add, clock, ready } = gather(2, 50);
  add('a', 'b');
  expect(one.isReady).toBe(true);
  clock.advance(20);
  add('c');
  expect(shown(one.take().runs)).toEqual(['a', 'b']);
  clock.advance(49);
  expect([one.isReady, ready()]).toEqual([false, 0]);
  clock.advance(1);
  expect([one.isReady, ready()]).toEqual([true, 1]);
});

test('without a time what came together goes together', () => {
  const { one, add } = gather(10, 0);
  add('a', 'b');
  expect(one.isReady).toBe(true);
  expect(shown(one.take().runs)).toEqual(['a', 'b']);
});

test('a run that does not fit is cut, and what is cut off comes before the others', () => {
  const { one, add } = gather(3, 0);
  add('a', 'bcdef', 'g');
  const { runs, rest } = one.take();
  expect([shown(runs), shown([rest])]).toEqual([['a', 'bc'], ['def']]);
  expect(one.size).toBe(1);
  one.add(rest, true);
  expect(shown(one.take().runs)).toEqual(['def']);
  expect(shown(one.take().runs)).toEqual(['g']);
});

test('a run ends before its first lost job', () => {
  const { one } = gather(10, 0);
  const [first, second] = runsOf('abc', 'd') as [LeasedJob[], LeasedJob[]];
  (first[1] as LeasedJob).lost = true;
  (second[0] as LeasedJob).lost = true;
  one.add(first);
  one.add(second);
  expect(shown([one.dropLost()])).toEqual(['bcd']);
  expect([one.size, shown(one.take().runs)]).toEqual([1, ['a']]);
});
