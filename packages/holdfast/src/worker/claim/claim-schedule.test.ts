/** When a worker claims: which hints it answers at once, and which it leaves to others for a moment. */
import { describe, expect, test } from 'vitest';
import { simulatedTime } from '../../../../../test/support/time.js';
import { ClaimSchedule } from './claim-schedule.js';

const NEVER = Number.POSITIVE_INFINITY;
const LIMIT = 16;

/** A schedule at rest, whose last two claims were long ago. */
function schedule() {
  const time = simulatedTime(1);
  const one = new ClaimSchedule(60_000, time);
  const claim = (found: number, waitedMs = 0, tookMs = 0, goesOn = false) => {
    one.begin(time.now());
    if (tookMs > 0) pass(tookMs);
    one.succeeded({ jobs: found, waitedMs, goesOn }, LIMIT, true);
  };
  const pass = (ms: number) => {
    let over = false;
    time.after(ms, () => {
      over = true;
    });
    while (!over) time.step();
  };
  const waitMs = (free = true) => one.nextAt(time.now(), NEVER, free) - time.now();
  claim(0);
  pass(1_000);
  claim(0);
  pass(1_000);
  return { one, claim, pass, waitMs };
}

/** A hint that somebody else has answered already. */
function loses({ one, claim, pass, waitMs }: ReturnType<typeof schedule>): void {
  pass(1_000);
  one.sharedHint();
  pass(waitMs());
  claim(0);
}

describe('a hint', () => {
  test('is answered at once, and so is the next one', () => {
    const { one, claim, waitMs } = schedule();
    expect(waitMs()).toBeGreaterThan(1_000);
    one.sharedHint();
    expect(waitMs()).toBe(0);
    claim(1);
    one.sharedHint();
    expect(waitMs()).toBe(0);
  });

  test('is answered at once however many came just before: the claim in flight is pace enough', () => {
    const { one, claim, waitMs } = schedule();
    for (let n = 0; n < 5; n++) {
      one.hint();
      expect(waitMs()).toBe(0);
      claim(1);
    }
  });

  test('waits as long as the last claim took if that was slow, within a bound', () => {
    const { one, claim, pass, waitMs } = schedule();
    for (const [tookMs, restMs] of [
      [4, 0],
      [5, 5],
      [5_000, 40],
    ] as const) {
      claim(LIMIT - 1, 0, tookMs);
      one.hint();
      expect(waitMs()).toBe(restMs);
      pass(restMs);
      expect(waitMs()).toBe(0);
    }
  });

  test('waits for no rest after a claim behind which there is more to read', () => {
    const { one, claim, waitMs } = schedule();
    claim(LIMIT, 0, 30);
    expect(waitMs()).toBe(0);
    claim(1, 0, 30, true);
    one.hint();
    expect(waitMs()).toBe(0);
  });

  test('is answered later and later by a worker that others are quicker than, within a bound', () => {
    const it = schedule();
    const waits: number[] = [];
    for (let n = 0; n < 9; n++) {
      it.pass(1_000);
      it.one.sharedHint();
      waits.push(it.waitMs());
      it.pass(it.waitMs());
      it.claim(0);
    }
    expect(waits).toEqual([0, 1, 2, 4, 8, 16, 32, 40, 40]);
  });

  test('that waits is one with those that come meanwhile', () => {
    const it = schedule();
    for (let n = 0; n < 9; n++) loses(it);
    it.pass(1_000);
    it.one.sharedHint();
    it.pass(30);
    it.one.sharedHint();
    expect(it.waitMs()).toBe(10);
  });

  test('is left to others while all handlers are busy', () => {
    const { one, waitMs } = schedule();
    one.sharedHint();
    expect(waitMs(false)).toBeGreaterThan(1_000);
    expect(waitMs(true)).toBe(0);
  });

  test('of what is to be read here is answered at once by everybody', () => {
    const it = schedule();
    for (let n = 0; n < 9; n++) loses(it);
    it.pass(1_000);
    it.one.hint();
    expect(it.waitMs()).toBe(0);
  });
});

test('handlers that keep the event loop after the answer are no slow claim', () => {
  const { one, pass, waitMs } = schedule();
  one.begin(0);
  pass(2);
  one.answered();
  pass(60);
  one.succeeded({ jobs: 1, waitedMs: 0 }, LIMIT, true);
  one.hint();
  expect(waitMs()).toBe(0);
});

describe('a worker that others are quicker than', () => {
  test('answers at once again when it finds a job that nobody has taken all that time', () => {
    const it = schedule();
    for (let n = 0; n < 9; n++) loses(it);
    it.pass(1_000);
    it.one.sharedHint();
    it.pass(it.waitMs());
    it.claim(1, 8);
    it.pass(1_000);
    it.one.sharedHint();
    expect(it.waitMs()).toBe(0);
  });

  test('leaves it to them also when it finds a job that has only just come', () => {
    const it = schedule();
    for (let n = 0; n < 9; n++) loses(it);
    it.pass(1_000);
    it.one.sharedHint();
    it.pass(it.waitMs());
    it.claim(1, 2);
    it.pass(1_000);
    it.one.sharedHint();
    expect(it.waitMs()).toBe(40);
  });

  test('is no slower for a poll that finds nothing', () => {
    const { one, claim, pass, waitMs } = schedule();
    claim(0);
    pass(1_000);
    one.sharedHint();
    expect(waitMs()).toBe(0);
  });
});

describe('the next due time', () => {
  const news = (dueInMs: number | null) => ({
    ...{ dueInMs, suspects: false, maintainedMs: null, recount: false },
  });

  test('that is told while a claim is on its way stands, whatever the claim has seen', () => {
    for (const seen of [10_000, null]) {
      const { one, pass, waitMs } = schedule();
      one.begin(2_000);
      one.due(2_500);
      one.record(news(seen));
      one.succeeded({ jobs: 0, waitedMs: 0 }, LIMIT, true);
      expect(waitMs()).toBe(500);
      pass(500);
      // It asks for the one after it.
      expect(one.begin(2_500)).toBe(true);
    }
  });

  test('is what the last claim says, of all that came before it', () => {
    const { one, waitMs } = schedule();
    one.due(2_500);
    one.begin(2_000);
    one.record(news(4_000));
    one.succeeded({ jobs: 0, waitedMs: 0 }, LIMIT, true);
    expect(waitMs()).toBe(4_001);
  });
});
