/** Who is looked for beside a long line, and when: pure, so a long life can be tried in a moment. */
import { expect, test } from 'vitest';
import type { ClaimedBeside } from './claim-beside.js';
import { LongLines } from './long-lines.js';
import type { ClaimedJob } from './taking.js';

const BUCKET = 417;
const NOTHING = {
  epoch: 1,
  clock: 0,
  jobs: [],
  seenUntil: 'seen',
  end: null,
  tookMs: 0,
} satisfies ClaimedBeside;

/** A look back from the end of the line that found nothing and did not come to where claims stand. */
const LOOKED = { ...NOTHING, end: { at: 'back', position: 9_999 } };

const jobs = (key: string, count: number, position = 0, bucket = BUCKET) =>
  Array.from({ length: count }, (_, n) => ({
    ...{ partitionKey: key, partitionBucket: bucket, priority: 2 },
    ...{ cursorAt: 'then', cursorPosition: position + n + 1 },
  })) as unknown as ClaimedJob[];

/** A line that has been there long enough to be passed. */
function withLine(): LongLines {
  const lines = new LongLines(() => true);
  lines.saw(jobs('hot', 100), 50, -500);
  return lines;
}

/** The next stretch of a pass. Looks at the end of the line find nothing. */
function next(lines: LongLines, now: number) {
  const probe = lines.take(now);
  if (!probe?.atEnd) return probe;
  lines.learn(LOOKED, 50, now);
  return lines.take(now);
}

test('a bucket of many keys has no line; one that a key fills has one, from where claims stand', () => {
  const lines = new LongLines(() => true);
  const crowd = Array.from({ length: 1_000 }, (_, n) => jobs(`order:${n % 3}`, 1)).flat();
  lines.saw(crowd, 50, 0);
  expect(lines.take(0)).toBe(null);
  // In small claims, with others between them.
  for (let n = 0; n < 50; n++) lines.saw([...jobs('hot', 4, n * 4), ...jobs('order:1', 1)], 50, 0);
  expect(lines.take(0)).toMatchObject({ bucket: BUCKET, priority: 2, without: ['hot'] });
});

test('a bucket that was read to its end has no line, and one that has gone loses it', () => {
  const read = new LongLines(() => false);
  read.saw(jobs('hot', 1_000), 50, 0);
  expect(read.take(0)).toBe(null);
  let more = true;
  const lines = new LongLines(() => more);
  lines.saw(jobs('hot', 100), 50, 0);
  more = false;
  expect(lines.take(0)).toBe(null);
  more = true;
  expect(lines.take(0)).toBe(null);
});

test('a line that may be gone in a moment is not passed yet; its end is looked at', () => {
  const lines = new LongLines(() => true);
  lines.saw(jobs('hot', 100), 50, 0);
  for (let now = 0; now < 500; now++) {
    const probe = lines.take(now);
    if (probe) expect(probe.atEnd).toBe(true);
    if (probe) lines.learn(LOOKED, 50, now);
  }
  expect(next(lines, 500)).toMatchObject({ atEnd: false });
});

test('a look at the end goes back to what was seen there before, if it left nothing', () => {
  const lines = new LongLines(() => true);
  lines.saw(
    jobs('hot', 100).map((job) => ({ ...job, cursorAt: '2026-01-01' })),
    50,
    0,
  );
  const look = (now: number, claim: Partial<ClaimedBeside>) => {
    let probe = lines.take(now);
    if (probe && !probe.atEnd) {
      // The pass has its turn as well; here it comes no further.
      const end = { at: probe.afterAt, position: probe.afterPosition };
      lines.learn({ ...NOTHING, tookMs: 10, end }, 10, now);
      probe = lines.take(now);
    }
    expect(probe?.atEnd).toBe(true);
    lines.learn({ ...LOOKED, ...claim }, 10, now);
    return [probe?.afterAt, probe?.afterPosition];
  };
  // It came to where claims stand, so the next goes as far; then the line is longer than a look.
  expect(look(0, { end: null, seenUntil: '2026-01-03' })).toEqual(['2026-01-01', 100]);
  expect(look(100, { seenUntil: '2026-01-04' })).toEqual(['2026-01-01', 100]);
  // As many as could be taken: there may be more of them.
  expect(look(200, { seenUntil: '2026-01-05', jobs: jobs('order:1', 10) })).toEqual([
    '2026-01-04',
    0,
  ]);
  expect(look(200, { seenUntil: '2026-01-06', end: null })).toEqual(['2026-01-04', 0]);
  // Once in a second as far as at first, for what was put back or committed late.
  expect(look(1_100, { seenUntil: '2026-01-06' })).toEqual(['2026-01-01', 100]);
  expect(look(1_700, { seenUntil: '2026-01-06' })).toEqual(['2026-01-06', 0]);
});

test('a look at the end goes no further back than claims have come', () => {
  const lines = new LongLines(() => true);
  const hot = (position: number, cursorAt: string) =>
    jobs('hot', 100, position).map((job) => ({ ...job, cursorAt }));
  lines.saw(hot(0, '2026-01-01'), 50, 0);
  lines.take(0);
  lines.learn({ ...LOOKED, seenUntil: '2026-01-04' }, 10, 0);
  lines.saw(hot(100, '2026-01-07'), 50, 100);
  expect(lines.take(300)).toMatchObject({ atEnd: true, afterAt: '2026-01-07', afterPosition: 200 });
});

test('a pass goes from stretch to stretch, and rests at the end', () => {
  const lines = withLine();
  expect(next(lines, 0)).toMatchObject({ afterAt: 'then', afterPosition: 100 });
  lines.learn({ ...NOTHING, tookMs: 4, end: { at: 'there', position: 5 } }, 50, 4);
  expect(next(lines, 4)).toBe(null);
  // A quarter of the time, because it found nothing.
  expect(next(lines, 16)).toMatchObject({ afterAt: 'there', afterPosition: 5 });
  lines.learn({ ...NOTHING, tookMs: 4 }, 50, 20);
  expect(next(lines, 100)).toBe(null);
  // On from the end, a little behind the clock.
  expect(lines.take(140)).toMatchObject({ afterAt: 'seen', afterPosition: 0, atEnd: false });
});

test('while claims bring jobs of other buckets a pass takes a fortieth of the time', () => {
  const lines = withLine();
  const others = Array.from({ length: 40 }, (_, n) => jobs(`order:${n}`, 1, n, 12)).flat();
  lines.saw([...jobs('hot', 10, 100), ...others], 50, 0);
  next(lines, 0);
  lines.learn({ ...NOTHING, tookMs: 4, end: { at: 'there', position: 5 } }, 50, 4);
  expect(next(lines, 159)).toBe(null);
  expect(next(lines, 160)).toMatchObject({ afterAt: 'there', afterPosition: 5 });
  // They are done, and only the line is left.
  lines.saw(jobs('hot', 50, 110), 50, 160);
  lines.learn({ ...NOTHING, tookMs: 4, end: { at: 'there', position: 9 } }, 50, 164);
  expect(next(lines, 176)).toMatchObject({ afterAt: 'there', afterPosition: 9 });
});

test('what is full is read on at once from its last job', () => {
  const lines = withLine();
  next(lines, 0);
  lines.learn({ ...NOTHING, tookMs: 4, jobs: jobs('order:1', 10, 500) }, 10, 4);
  expect(next(lines, 4)).toMatchObject({ afterAt: 'then', afterPosition: 510 });
});

test('after a while the whole line is passed again, from where claims stand then', () => {
  const lines = withLine();
  next(lines, 0);
  lines.learn({ ...NOTHING, tookMs: 1 }, 50, 1);
  lines.saw(jobs('hot', 100, 9_000), 50, 500);
  next(lines, 1_001);
  lines.learn({ ...NOTHING, tookMs: 1 }, 50, 1_002);
  expect(next(lines, 1_100)).toMatchObject({ afterAt: 'then', afterPosition: 9_100 });
});

test('a second key that fills the bucket is stepped over, too', () => {
  const lines = withLine();
  for (let n = 0; n < 7; n++) {
    next(lines, n);
    lines.learn({ ...NOTHING, jobs: jobs('warm', 10, n * 10) }, 10, n);
  }
  expect(next(lines, 10)?.without).toEqual(['hot', 'warm']);
});

test('stretches get shorter when they are slow and longer when they are quick', () => {
  const lines = withLine();
  let now = 0;
  const reach = () => {
    now += 10_000;
    return next(lines, now)?.reach ?? 0;
  };
  const first = reach();
  lines.learn({ ...NOTHING, tookMs: 100, end: { at: 'there', position: 5 } }, 50, now);
  const second = reach();
  expect(second).toBeLessThan(first);
  lines.learn({ ...NOTHING, tookMs: 0.5, end: { at: 'there', position: 5 } }, 50, now);
  expect(reach()).toBeGreaterThan(second);
});

test('lines of several buckets take turns', () => {
  const lines = new LongLines(() => true);
  lines.saw([...jobs('hot', 100), ...jobs('other', 100, 0, 12)], 50, 0);
  const seen: (number | undefined)[] = [];
  for (let n = 0; n < 4; n++) {
    seen.push(lines.take(n * 1_000)?.bucket);
    lines.learn({ ...NOTHING, tookMs: 1, end: { at: 'there', position: n } }, 50, n * 1_000);
  }
  expect(seen).toEqual([BUCKET, 12, BUCKET, 12]);
});

test('its end is looked at first, again after a find, and then rarely until the pass has come there', () => {
  const lines = withLine();
  expect(lines.take(0)).toMatchObject({ atEnd: true, afterAt: 'then', afterPosition: 100 });
  lines.learn({ ...LOOKED, tookMs: 1, jobs: jobs('order:1', 3, 900) }, 50, 1);
  // In turns with the pass, which must not wait until there is nothing more to be found there.
  expect(lines.take(1)).toMatchObject({ atEnd: false, afterAt: 'then', afterPosition: 100 });
  lines.learn({ ...NOTHING, tookMs: 20, end: { at: 'there', position: 5 } }, 50, 21);
  expect(lines.take(21)).toMatchObject({ atEnd: true });
  lines.learn({ ...LOOKED, tookMs: 1 }, 50, 22);
  // The look took one millisecond, and may take a thirtieth of the time.
  expect(lines.take(51)).toBe(null);
  expect(lines.take(52)).toMatchObject({ atEnd: true, afterAt: 'there' });
  lines.learn({ ...LOOKED, tookMs: 1 }, 50, 53);
  expect(lines.take(81)).toMatchObject({ atEnd: false });
  lines.learn({ ...NOTHING, tookMs: 1 }, 50, 82);
  for (let now = 82; now < 1_000; now++) expect(lines.take(now)?.atEnd ?? false).toBe(false);
});

test('looks at its end that find nothing come more rarely, and soon again after a find', () => {
  const lines = withLine();
  /** When the next look at the end is due; stretches of the pass go on meanwhile. */
  const nextLook = (from: number) => {
    for (let now = from; ; now++) {
      const probe = lines.take(now);
      if (probe?.atEnd) return now;
      if (probe) lines.learn({ ...NOTHING, end: { at: 'there', position: now } }, 50, now);
    }
  };
  let now = nextLook(0);
  const waits: number[] = [];
  for (let looks = 0; looks < 8; looks++) {
    lines.learn(LOOKED, 50, now);
    const at = nextLook(now);
    waits.push(at - now);
    now = at;
  }
  expect(waits).toEqual([20, 40, 80, 160, 320, 500, 500, 500]);
  lines.learn({ ...LOOKED, jobs: jobs('order:1', 1, 900) }, 50, now);
  now = nextLook(now);
  lines.learn(LOOKED, 50, now);
  expect(nextLook(now) - now).toBe(20);
});

test('a line that a look at its end went over is not passed', () => {
  const lines = withLine();
  expect(lines.take(0)).toMatchObject({ atEnd: true });
  lines.learn(NOTHING, 50, 0);
  for (let now = 0; now < 500; now++) {
    const probe = lines.take(now);
    if (probe) expect(probe.atEnd).toBe(true);
    if (probe) lines.learn(NOTHING, 50, now);
  }
});

test('a pass that is under way goes on although looks at the end find jobs all the time', () => {
  const lines = withLine();
  next(lines, 0);
  lines.learn({ ...NOTHING, tookMs: 1, end: { at: 'there', position: 5 } }, 50, 1);
  let stretches = 0;
  for (let now = 1; now < 10_000; now++) {
    const probe = lines.take(now);
    if (!probe) continue;
    if (probe.atEnd) lines.learn({ ...NOTHING, jobs: jobs('order:1', 1, now) }, 50, now);
    else {
      stretches++;
      lines.learn({ ...NOTHING, tookMs: 1, end: { at: 'there', position: now } }, 50, now);
    }
  }
  expect(stretches).toBeGreaterThan(100);
});

test('a look that got no answer is tried again', () => {
  const lines = withLine();
  expect(lines.take(0)).toMatchObject({ atEnd: true });
  expect(lines.take(1)).toMatchObject({ atEnd: false });
  expect(lines.take(2)).toBe(null);
  expect(lines.take(1_000)).toMatchObject({ atEnd: true });
});

test('what comes in at the end all the time does not keep a pass from going on', () => {
  const lines = withLine();
  let passed = 0;
  for (let now = 0; now < 1_000; now += 2) {
    const probe = lines.take(now);
    if (!probe) continue;
    if (!probe.atEnd) passed++;
    const found = probe.atEnd ? jobs(`order:${now}`, 3, 900) : [];
    lines.learn(
      { ...NOTHING, tookMs: 2, jobs: found, end: { at: 'there', position: 5 } },
      50,
      now + 2,
    );
  }
  expect(passed).toBeGreaterThan(50);
});
