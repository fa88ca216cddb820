/**
 * What a worker reads of a queue that is read by key, against a table in memory: every key has its turn, hints are
 * followed at once where the ring prefers this worker and a moment later elsewhere, and nothing is never read.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BUCKETS } from '../../job/key.js';
import type { KeyedClaim, KeyStretch } from './claim.js';
import { KeyScanner } from './key-scanner.js';
import { bucketsOf } from './stretches.js';

const EVERY = Array.from({ length: BUCKETS }, (_, bucket) => bucket);

interface Taken {
  readonly bucket: number;
  readonly key: string;
  readonly at: number;
}

/** Lines of jobs by key; claims take the head of each. */
class Queue {
  readonly reader: KeyScanner;
  readonly taken: Taken[] = [];
  readonly #lines = new Map<string, { bucket: number; key: string; jobs: number; held: boolean }>();

  constructor(owned = EVERY, turns = false) {
    this.reader = new KeyScanner(1_000, () => 0);
    this.reader.own(owned, turns);
  }

  get left(): number {
    return [...this.#lines.values()].reduce((sum, { jobs }) => sum + jobs, 0);
  }

  add(bucket: number, key: string, jobs = 1): void {
    const line = this.#lines.get(`${bucket} ${key}`);
    if (line) line.jobs += jobs;
    else this.#lines.set(`${bucket} ${key}`, { bucket, key, jobs, held: false });
  }

  /** Somebody has the head of this key in hand. */
  hold(bucket: number, key: string, held: boolean): void {
    const line = this.#lines.get(`${bucket} ${key}`);
    if (line) line.held = held;
  }

  /** The buckets that this claim read. */
  claim(now: number, limit = 10, { maxKeys = 1_000, tookMs = 1 } = {}): number[] {
    const stretches = this.reader.take(now);
    if (stretches.length === 0) return [];
    let [jobs, keys] = [0, 0];
    let stop: KeyedClaim['stop'] = null;
    for (const [number, stretch] of stretches.entries()) {
      for (const line of this.#within(stretch)) {
        keys++;
        if (line.jobs > 0 && !line.held) {
          jobs++;
          line.jobs--;
          this.taken.push({ bucket: line.bucket, key: line.key, at: now });
        }
        if (jobs < limit && keys < maxKeys) continue;
        stop = { stretch: number, bucket: line.bucket, key: line.key };
        break;
      }
      if (stop) break;
    }
    const claim = { stop, wanted: jobs, jobs: Array.from({ length: jobs }), due: [] };
    this.reader.record(claim as unknown as KeyedClaim, limit, now + tookMs, tookMs);
    return bucketsOf(stretches);
  }

  #within({ bucket, afterKey, untilBucket }: KeyStretch) {
    return [...this.#lines.values()]
      .filter((line) => line.bucket < untilBucket)
      .filter((line) => line.bucket > bucket || (line.bucket === bucket && line.key > afterKey))
      .sort((a, b) => a.bucket - b.bucket || (a.key < b.key ? -1 : 1));
  }
}

/** A reader that has read everything just now. */
function rested(now: number, owned = EVERY): Queue {
  const queue = new Queue(owned);
  while (queue.reader.readAt(now) <= now) queue.claim(now);
  return queue;
}

describe('a walk', () => {
  test('gives every key its turn, with as many claims as it needs', () => {
    const queue = new Queue();
    for (let n = 0; n < 100; n++) queue.add((n * 37) % BUCKETS, `k${n}`, 3);
    let now = 0;
    for (; queue.taken.length < 100; now += 2) queue.claim(now);
    expect(new Set(queue.taken.map(({ key }) => key)).size).toBe(100);
    for (; queue.left > 0 && now < 1_000; now += 2) queue.claim(now);
    expect(queue.left).toBe(0);
  });

  test('begins with the buckets that the ring gives to this worker', () => {
    const queue = new Queue([500, 501]);
    for (const bucket of [3, 500, 501, 900]) queue.add(bucket, 'k');
    queue.claim(0, 3);
    expect(queue.taken.map(({ bucket }) => bucket)).toEqual([500, 501, 3]);
  });

  test('of a queue in which little stands reads it as it lies: the ring has hundreds of stretches', () => {
    const odd = EVERY.filter((bucket) => bucket % 2 === 1);
    const queue = rested(0, odd);
    expect(queue.reader.take(2_000)).toEqual([
      { bucket: 0, afterKey: '', untilBucket: BUCKETS, untilKey: '' },
    ]);
    queue.reader.failed();
    for (const bucket of [2, 3, 4, 5]) queue.add(bucket, 'k', 2);
    for (let now = 2_000; now < 3_000; now += 2) queue.claim(now, 3);
    // The first claim was full: from then on workers read their own first, or all would stand at the same place.
    expect(queue.taken.map(({ bucket }) => bucket)).toEqual([2, 3, 4, 3, 5, 2, 4, 5]);
  });

  test('of a small queue begins anywhere, and reads every bucket once', () => {
    const reader = new KeyScanner(1_000, () => 0.25);
    reader.own([7], false);
    const nothing = { stop: null, wanted: 0, jobs: [], due: [] } as unknown as KeyedClaim;
    reader.take(0);
    reader.record(nothing, 10, 1, 1);
    const again = reader.take(2_000);
    expect(again.map(({ bucket }) => bucket)).toEqual([BUCKETS / 4, 0]);
    expect(bucketsOf(again).sort((a, b) => a - b)).toEqual(EVERY);
  });

  test('goes on behind keys that are blocked, however many', () => {
    const queue = new Queue();
    for (let n = 0; n < 500; n++) {
      queue.add(n, 'blocked');
      queue.hold(n, 'blocked', true);
    }
    queue.add(1_000, 'free');
    for (let now = 0; queue.taken.length === 0 && now < 1_000; now += 2)
      queue.claim(now, 10, { maxKeys: 100 });
    expect(queue.taken).toMatchObject([{ key: 'free' }]);
  });

  test('that brought plenty is followed by another at once, however long it took', () => {
    const queue = new Queue();
    for (let n = 0; n < 40; n++) queue.add(n, 'k', 2);
    for (let claims = 0; claims < 4; claims++) queue.claim(claims * 500, 10, { tookMs: 400 });
    expect(queue.left).toBe(40);
    queue.claim(2_000, 10, { tookMs: 400 });
    expect(queue.reader.readAt(2_400)).toBeLessThanOrEqual(2_400);
    queue.claim(2_500, 10, { tookMs: 400 });
    expect(queue.left).toBeLessThan(40);
  });

  test('in vain is followed by the next after a second, or after 30 times what it took', () => {
    const cheap = rested(0);
    expect(cheap.reader.readAt(10)).toBeGreaterThanOrEqual(1_000);
    const dear = new Queue();
    dear.claim(0, 10, { tookMs: 100 });
    dear.claim(10_000, 10, { tookMs: 100 });
    expect(dear.reader.readAt(10_100)).toBe(13_100);
  });

  test('in vain rests for a few seconds where one claim read all, and longer where many keys are blocked', () => {
    const hidden = new Queue();
    for (const now of [0, 100_000]) hidden.claim(now, 10, { tookMs: 1_000 });
    expect(hidden.reader.readAt(101_000)).toBe(106_000);
    for (const now of [200_000, 300_000]) hidden.claim(now, 10, { tookMs: 2_500 });
    expect(hidden.reader.readAt(302_500)).toBe(312_500);
    const blocked = new Queue();
    for (let n = 0; n < 200; n++) {
      blocked.add(n, 'k');
      blocked.hold(n, 'k', true);
    }
    for (const now of [0, 100_000])
      for (let claims = 0; claims < 3; claims++)
        blocked.claim(now + claims, 10, { maxKeys: 100, tookMs: 1_000 });
    expect(blocked.reader.readAt(101_002)).toBeGreaterThan(150_000);
  });
});

describe('a hint', () => {
  test('for a bucket of ours is read at once, and nothing else', () => {
    const queue = rested(0);
    queue.add(7, 'k');
    queue.reader.hint([7, 9], 100);
    expect(queue.reader.readAt(100)).toBe(100);
    expect(queue.claim(100)).toEqual([7, 9]);
    expect(queue.taken).toHaveLength(1);
    expect(queue.reader.readAt(101)).toBeGreaterThan(101);
  });

  test('for a bucket of another is read when its owner has had its chance', () => {
    const queue = rested(0, [1, 2, 3]);
    queue.add(7, 'k');
    queue.reader.hint([7], 100);
    const at = queue.reader.readAt(100);
    expect(at).toBeGreaterThan(100);
    expect(at).toBeLessThanOrEqual(300);
    expect(queue.claim(at)).toEqual([7]);
    expect(queue.taken).toHaveLength(1);
  });

  test('that comes while a claim is in flight is not lost', () => {
    const queue = rested(0);
    queue.reader.hint([7], 100);
    const stretches = queue.reader.take(100);
    expect(bucketsOf(stretches)).toEqual([7]);
    queue.reader.hint([7], 101);
    const empty = { stop: null, wanted: 0, jobs: [], due: [] };
    queue.reader.record(empty as unknown as KeyedClaim, 10, 102, 2);
    expect(queue.reader.readAt(102)).toBe(102);
  });

  test('whose claim failed is read again', () => {
    const queue = rested(0);
    queue.reader.hint([7, 8], 100);
    queue.reader.take(100);
    queue.reader.failed();
    expect(queue.claim(200)).toEqual([7, 8]);
  });

  test('for more than one claim takes goes on with the next', () => {
    const queue = rested(0);
    for (let n = 0; n < 25; n++) queue.add(7 + (n % 2), `k${n}`);
    queue.reader.hint([7, 8], 100);
    for (let claims = 0; claims < 4; claims++) queue.claim(100 + claims);
    expect(queue.left).toBe(0);
  });

  test('of any bucket hastens the next walk', () => {
    const queue = rested(0);
    queue.add(77, 'k');
    queue.reader.hint(null, 100);
    expect(queue.reader.readAt(100)).toBeLessThanOrEqual(130);
    queue.claim(130);
    expect(queue.taken).toHaveLength(1);
  });

  test('alternates with a walk that goes on and brings little', () => {
    const queue = new Queue();
    for (let n = 0; n < 1_000; n++) {
      queue.add(n, 'blocked');
      queue.hold(n, 'blocked', true);
    }
    queue.claim(0, 10, { maxKeys: 50 });
    const read: number[] = [];
    for (let now = 1; now <= 40; now++) {
      // There is always another.
      queue.reader.hint([1_020], now);
      read.push(queue.claim(now, 10, { maxKeys: 50 })[0] as number);
    }
    expect(read.filter((bucket) => bucket === 1_020).length).toBeGreaterThan(10);
    expect(read.filter((bucket) => bucket < 1_020).length).toBeGreaterThan(10);
  });
});

const news: [string, (reader: KeyScanner) => void][] = [
  ['a hint of any bucket', (reader) => reader.hint(null, 2_001)],
  ['another setting of the queue', (reader) => reader.own(EVERY)],
];

test.each(news)('%s that comes while a walk is under way is not lost', (_, hear) => {
  const { reader } = rested(0);
  reader.take(2_000);
  hear(reader);
  const empty = { stop: null, wanted: 0, jobs: [], due: [] };
  reader.record(empty as unknown as KeyedClaim, 10, 2_002, 2);
  expect(reader.readAt(2_002)).toBeLessThan(2_100);
  reader.take(2_100);
  reader.record(empty as unknown as KeyedClaim, 10, 2_102, 2);
  expect(reader.readAt(2_102)).toBeGreaterThan(3_000);
});

test('rounds whose jobs somebody has locked do not follow each other at once', () => {
  const { reader } = new Queue(EVERY, true);
  const stop = { stretch: 0, bucket: 7, key: '["", "k", 0]' };
  const locked = { stop, wanted: 1, jobs: [], due: [] };
  const nothing = { stop: null, wanted: 0, jobs: [], due: [] };
  for (const [n, claim] of [locked, nothing, locked, nothing].entries()) {
    reader.take(2 * n);
    reader.record(claim as unknown as KeyedClaim, 1, 2 * n + 2, 2);
  }
  expect(reader.readAt(8)).toBeGreaterThan(100);
});

describe('a key that became free', () => {
  test('is read at once if something is known to stand behind', () => {
    const queue = rested(0);
    queue.reader.freed(7, 50, true);
    expect(queue.claim(100)).toEqual([7]);
  });

  test.each([
    ['of its bucket', [7]],
    ['of any bucket', null],
  ])('is read at once if a hint %s has come since its claim', (_, buckets) => {
    const queue = rested(0);
    queue.reader.hint(buckets, 60);
    // Read while the key was blocked.
    queue.claim(100);
    queue.reader.freed(7, 50, false);
    expect(queue.reader.readAt(101)).toBe(101);
    expect(queue.claim(101)).toEqual([7]);
  });

  test('is not read if nothing has come: most keys have one job', () => {
    const queue = rested(0);
    queue.reader.hint([7], 40);
    queue.claim(45);
    queue.reader.freed(7, 50, false);
    expect(queue.reader.readAt(101)).toBeGreaterThan(101);
  });
});

describe('where keys take turns', () => {
  test('no hint gives a key another turn while rounds bring plenty', () => {
    const queue = new Queue(EVERY, true);
    for (const bucket of [3, 500, 900]) queue.add(bucket, 'k', 20);
    for (let now = 0; queue.taken.length < 30; now += 2) {
      queue.claim(now, 1);
      // A job of the first key has ended, and more of it wait.
      queue.reader.freed(3, now, true);
    }
    const turns = queue.taken.map(({ bucket }) => bucket);
    expect(turns).toEqual(Array.from({ length: 10 }, () => [3, 500, 900]).flat());
  });

  test('a hint is read at once while there is nothing else to do', () => {
    const queue = new Queue(EVERY, true);
    while (queue.reader.readAt(0) <= 0) queue.claim(0);
    queue.add(7, 'k');
    queue.reader.hint([7], 5);
    expect(queue.claim(5)).toEqual([7]);
    expect(queue.taken).toHaveLength(1);
  });

  test('a claim knows whether it reads all that there is', () => {
    const queue = new Queue(EVERY, true);
    for (let n = 0; n < 4; n++) queue.add(n, 'k', 2);
    queue.claim(0, 3);
    expect(queue.reader.readsAll).toBe(true);
    queue.claim(2, 3);
    expect(queue.reader.readsAll).toBe(false);
  });
});

test.each([false, true])(
  'whatever happens, nothing is left unread for longer than a scan allows (turns: %s)',
  (turns) => {
    const bucket = fc.integer({ min: 0, max: BUCKETS - 1 });
    const step = fc.record({
      afterMs: fc.integer({ min: 1, max: 400 }),
      jobs: fc.array(fc.tuple(bucket, fc.constantFrom('a', 'b', 'c')), { maxLength: 8 }),
      hint: fc.constantFrom('none', 'all', 'exact'),
      limit: fc.integer({ min: 1, max: 6 }),
      owned: fc.option(fc.uniqueArray(bucket, { maxLength: 20 })),
      fails: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const queue = new Queue(EVERY, turns);
        let now = 0;
        for (const { afterMs, jobs, hint, limit, owned, fails } of steps) {
          now += afterMs;
          if (owned)
            queue.reader.own(
              owned.sort((a, b) => a - b),
              turns,
            );
          for (const [where, key] of jobs) queue.add(where, key);
          if (hint === 'all') queue.reader.hint(null, now);
          if (hint === 'exact')
            queue.reader.hint(
              jobs.map(([where]) => where),
              now,
            );
          if (fails && queue.reader.take(now).length > 0) queue.reader.failed();
          queue.claim(now, limit, { maxKeys: 7 });
        }
        const end = now + 3_000;
        while (queue.left > 0 && now < end) {
          now = Math.max(now + 1, Math.min(end, queue.reader.readAt(now)));
          queue.claim(now, 5, { maxKeys: 7 });
        }
        expect(queue.left).toBe(0);
      }),
    );
  },
);
