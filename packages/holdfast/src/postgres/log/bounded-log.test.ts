import { expect, test } from 'vitest';
import { handClock } from '../../../../../test/support/hand-clock.js';
import { recordingLogger } from '../../../../../test/support/logger.js';
import { boundedLogger } from './bounded-log.js';

const FAILED = 'an attempt failed';
const sentences = (lines: { message: string | undefined }[]) => lines.map(({ message }) => message);

test('of a burst five lines are written, and at the end of the second how many more there were', () => {
  const kept = recordingLogger();
  const { time, advance } = handClock();
  const log = boundedLogger(kept, time);
  for (let n = 0; n < 1_209; n++) log.warn({ type: 'mail', n }, FAILED);
  expect(sentences(kept.lines)).toEqual(Array(5).fill(FAILED));
  advance(1_000);
  expect(kept.lines.slice(5)).toEqual([
    { level: 'warn', facts: { type: 'mail', more: 1_204 }, message: `${FAILED}: and 1,204 more` },
  ]);
  // The next second has its own five.
  for (let n = 0; n < 6; n++) log.warn({ type: 'mail' }, FAILED);
  expect(kept.lines).toHaveLength(11);
});

test('another type and another sentence are other kinds: a burst of one hides none of the others', () => {
  const kept = recordingLogger();
  const log = boundedLogger(kept, handClock().time);
  for (let n = 0; n < 100; n++) log.warn({ type: 'mail' }, FAILED);
  log.warn({ type: 'charge' }, FAILED);
  log.error({ type: 'mail' }, 'a dead letter');
  log.info({}, 'worker started');
  expect(sentences(kept.lines.slice(5))).toEqual([FAILED, 'a dead letter', 'worker started']);
});

test('a few lines now and then are all written, and nothing is said of more', () => {
  const kept = recordingLogger();
  const { time, advance, timers } = handClock();
  const log = boundedLogger(kept, time);
  for (let n = 0; n < 20; n++) {
    for (let m = 0; m < 5; m++) log.warn({}, FAILED);
    advance(1_000);
  }
  expect(sentences(kept.lines)).toEqual(Array(100).fill(FAILED));
  expect(timers.size).toBe(0);
});

test('before the end what was left out is said, once', () => {
  const kept = recordingLogger();
  const { time, advance, timers } = handClock();
  const log = boundedLogger(kept, time);
  for (let n = 0; n < 8; n++) log.warn({}, FAILED);
  log.flush();
  expect(sentences(kept.lines).at(-1)).toBe(`${FAILED}: and 3 more`);
  advance(5_000);
  expect(kept.lines).toHaveLength(6);
  expect(timers.size).toBe(0);
});

test('what a handler writes with ctx.log is its own, and all of it is written', () => {
  const kept = recordingLogger();
  const log = boundedLogger(kept, handClock().time);
  const own = log.child?.({ job: 'x' });
  for (let n = 0; n < 100; n++) own?.info({ n }, 'a line of the handler');
  expect(kept.lines).toHaveLength(100);
});
