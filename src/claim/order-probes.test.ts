/** Where a worker reads next among ordered jobs: pure, so a long life can be tried in a moment. */
import { describe, expect, test } from 'vitest';
import type { OrderedClaim, OrderProbe } from './claim-ordered.js';
import { between, endOf, ranges, skipping, startOf } from './order-places.js';
import { OrderProbes } from './order-probes.js';
import type { ClaimedJob } from './taking.js';

const POLL_MS = 500;

interface Line {
  readonly bucket: number;
  readonly key: string;
  positions: number[];
  blocked: boolean;
}

const before = (a: readonly (number | string)[], b: readonly (number | string)[]) => {
  for (const [index, value] of a.entries()) {
    const other = b[index] as number | string;
    if (value !== other) return value < other;
  }
  return false;
};

/** A queue in memory that answers probes as the ordered claim does. */
class Queue {
  lines: Line[] = [];
  /** How many heads the last claims looked at. */
  looked = 0;
  walk = 1_000;
  #position = 0;

  add(bucket: number, key: string, count = 1, blocked = false): Line {
    let line = this.lines.find((one) => one.key === key);
    if (!line) {
      line = { bucket, key, positions: [], blocked };
      this.lines.push(line);
      this.lines.sort((a, b) => (before([a.bucket, a.key], [b.bucket, b.key]) ? -1 : 1));
    }
    for (let n = 0; n < count; n++) line.positions.push(++this.#position);
    return line;
  }

  claim(probes: readonly OrderProbe[], limit: number, run: number): OrderedClaim {
    const jobs: ClaimedJob[] = [];
    let seen = 0;
    for (const [probe, asked] of probes.entries()) {
      for (const line of this.lines) {
        const head = line.positions.find((position) =>
          before(
            [asked.bucket, asked.afterKey, asked.afterPosition],
            [line.bucket, line.key, position],
          ),
        );
        const inside = before([line.bucket, line.key], [asked.untilBucket, asked.untilKey]);
        if (head === undefined || !inside) continue;
        seen++;
        this.looked++;
        const free = line.blocked ? 0 : Math.min(run, limit - jobs.length);
        const from = line.positions.indexOf(head);
        for (const position of line.positions.splice(from, free)) {
          const { key: partitionKey, bucket: partitionBucket } = line;
          jobs.push({ partitionKey, partitionBucket, cursorPosition: position } as ClaimedJob);
        }
        const stop = { probe, bucket: line.bucket, key: line.key };
        if (jobs.length >= limit || seen >= this.walk) {
          return { epoch: 1, clock: 0, jobs, stop, wanted: jobs.length };
        }
      }
    }
    return { epoch: 1, clock: 0, jobs, stop: null, wanted: jobs.length };
  }

  get left(): number {
    return this.lines.reduce((sum, line) => sum + line.positions.length, 0);
  }
}

class Life {
  readonly queue = new Queue();
  readonly probes: OrderProbes;
  readonly limit = 25;
  run = 10;
  now = 0;
  claims = 0;

  constructor(buckets?: readonly number[]) {
    this.probes = new OrderProbes({ pollMs: POLL_MS, ...(buckets && { buckets }) });
  }

  /** One claim, or the wait until there is something to read. */
  step(tookMs = 1): readonly ClaimedJob[] {
    const probes = this.probes.take(this.now);
    if (probes.length === 0) {
      this.now += Math.max(1, this.probes.idleMs(this.now));
      return [];
    }
    this.claims++;
    const claim = this.queue.claim(probes, this.limit, this.run);
    this.now += tookMs;
    this.probes.learn(claim, this.limit, this.now, tookMs);
    return claim.jobs;
  }

  idle(): void {
    for (let claims = 0; claims < 50; claims++) this.step();
    while (this.probes.take(this.now).length > 0) this.step();
  }
}

const EVERY = Array.from({ length: 1024 }, (_, bucket) => bucket);

describe('every key is found', () => {
  test.each([
    [undefined],
    [[3]],
    [[1, 5, 6, 7, 900, 1023]],
    [Array.from({ length: 300 }, (_, n) => n * 3)],
  ])('whatever its bucket, and nothing of buckets that are not owned (%#)', (buckets) => {
    const life = new Life(buckets);
    for (const bucket of buckets ?? EVERY) {
      life.queue.add(bucket, `a${bucket}`, 3);
      life.queue.add(bucket, `b${bucket}`, 30);
    }
    if (buckets) life.queue.add(2, 'not mine');
    for (let claims = 0; claims < 4_000 && life.queue.left > (buckets ? 1 : 0); claims++)
      life.step();
    expect(life.queue.left).toBe(buckets ? 1 : 0);
  });

  test('a claim does not read a key twice', () => {
    const life = new Life();
    for (let n = 0; n < 200; n++) life.queue.add((n * 7) % 1024, `k${n}`, 2, true);
    life.step();
    for (let round = 0; round < 20; round++) {
      life.probes.hint([7, 14, 15, 700]);
      life.now += POLL_MS;
      life.queue.looked = 0;
      life.step();
      expect(life.queue.looked).toBe(200);
    }
  });

  test('of buckets that are gained, at once; of buckets that are lost, no more', () => {
    const life = new Life([1, 2, 3]);
    life.idle();
    for (const bucket of [1, 3, 5]) life.queue.add(bucket, `k${bucket}`);
    life.probes.own([1, 2, 5]);
    expect(life.step().map((job) => job.partitionKey)).toEqual(['k5']);
    life.now += POLL_MS;
    expect(life.step().map((job) => job.partitionKey)).toEqual(['k1']);
    expect(life.queue.left).toBe(1);
    life.probes.own([]);
    expect(life.probes.idleMs(life.now)).toBe(Number.POSITIVE_INFINITY);
    expect(life.probes.take(life.now + POLL_MS)).toEqual([]);
  });
});

describe('fairness', () => {
  test('keys take turns, however long their lines are', () => {
    const life = new Life();
    life.queue.add(5, 'hot', 50_000);
    for (let n = 0; n < 100; n++) life.queue.add(n * 10, `k${n}`, 40);
    const counts = new Map<string, number>();
    // Three turns of each of the 101 keys, while all of them have more.
    for (let claims = 0; claims < 3 * 41; claims++) {
      for (const { partitionKey: key } of life.step()) counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    expect(counts.size).toBe(101);
    expect(Math.min(...counts.values())).toBeGreaterThanOrEqual(15);
    expect(counts.get('hot')).toBeLessThanOrEqual(40);
  });

  test('after a circle with plenty there is no rest, after one with little there is', () => {
    const life = new Life([1, 2, 3]);
    for (let n = 0; n < 30; n++) life.queue.add(1 + (n % 3), `k${n}`, 100);
    // Nearly ten circles of 300 jobs each.
    for (let steps = 0; steps < 100; steps++) life.step(1);
    expect(life.claims).toBe(100);
    life.idle();
    life.queue.add(2, 'one', 1);
    while (life.queue.left > 0) life.step();
    expect(life.probes.idleMs(life.now)).toBeGreaterThan(0);
  });

  test('hints come first, but do not keep the circle from turning', () => {
    const life = new Life();
    for (let n = 0; n < 50; n++) life.queue.add(n, `k${n}`, 10_000);
    life.queue.add(900, 'quiet', 10);
    life.step();
    life.probes.hint([30]);
    expect(life.step()[0]?.partitionKey).toBe('k30');
    for (let claims = 0; claims < 100 && life.queue.lines.at(-1)?.positions.length; claims++) {
      life.probes.hint(EVERY.slice(0, 50));
      life.step();
    }
    expect(life.queue.lines.at(-1)?.positions).toEqual([]);
  });

  test('a hint is served at once by a worker that waits for its poll', () => {
    const life = new Life();
    life.idle();
    expect(life.probes.idleMs(life.now)).toBeGreaterThan(POLL_MS / 2);
    life.queue.add(77, 'late');
    life.probes.hint([77]);
    expect(life.probes.idleMs(life.now)).toBe(0);
    life.queue.add(78, 'later');
    expect(life.step().map((job) => job.partitionKey)).toEqual(['late']);
  });

  test('a hint that comes while a claim is under way is not lost with it', () => {
    const life = new Life();
    life.idle();
    life.now += POLL_MS;
    const probes = life.probes.take(life.now);
    life.queue.add(77, 'late');
    life.probes.hint([77]);
    life.probes.learn(new Queue().claim(probes, 25, 10), 25, life.now, 1);
    expect(life.step()).toHaveLength(1);
    life.now += POLL_MS;
    life.probes.take(life.now);
    life.probes.rewind();
    life.probes.learn(new Queue().claim([], 25, 10), 25, life.now, 1);
    expect(life.probes.idleMs(life.now)).toBe(0);
  });
});

describe('what looking costs', () => {
  test('a worker that finds nothing waits for its poll, and one that finds something looks again soon', () => {
    const life = new Life();
    life.idle();
    expect(life.probes.take(life.now)).toEqual([]);
    const waitMs = life.probes.idleMs(life.now);
    expect(waitMs).toBeGreaterThan(POLL_MS / 2);
    expect(waitMs).toBeLessThanOrEqual(POLL_MS);
    life.queue.add(5, 'k');
    while (life.queue.left > 0) life.step();
    expect(life.probes.idleMs(life.now)).toBeLessThan(50);
  });

  test('one that is told of new jobs looks once per poll, also after it found some', () => {
    const life = new Life();
    for (let looks = 0; looks < 20; looks++) life.step();
    life.probes.asleep = true;
    life.queue.add(5, 'k');
    while (life.queue.left > 0) life.step();
    while (life.probes.take(life.now).length > 0) life.step();
    expect(life.probes.idleMs(life.now)).toBeGreaterThan(POLL_MS / 2);
  });

  test('going round thousands of blocked keys takes at most about a fifth of the time', () => {
    const life = new Life();
    life.queue.walk = 100;
    life.queue.lines = Array.from({ length: 10_000 }, (_, n) => ({
      ...{ bucket: n >> 4, key: `k${String(n).padStart(6, '0')}`, positions: [n] },
      ...{ blocked: n !== 7_777 },
    }));
    let spentMs = 0;
    const from = life.now;
    for (let claims = 0; claims < 3 || life.queue.left === 10_000; claims++) {
      const was = life.claims;
      life.step(claims < 3 ? 1 : 10);
      spentMs += claims < 3 || life.claims === was ? 0 : 10;
    }
    expect(life.queue.left).toBe(9_999);
    // The pause after the last one is still to come.
    expect((spentMs - 10) / (life.now - from)).toBeLessThan(0.25);
  });

  test('a circle that finds jobs here and there goes on without a pause', () => {
    const life = new Life();
    life.queue.walk = 100;
    // One in ten is ready: a claim that walks over a hundred keys finds ten, and takes ten milliseconds.
    life.queue.lines = Array.from({ length: 10_000 }, (_, n) => ({
      ...{ bucket: n >> 4, key: `k${String(n).padStart(6, '0')}`, positions: [n] },
      ...{ blocked: n % 10 !== 0 },
    }));
    for (let claims = 0; claims < 3; claims++) life.step(1);
    const [from, before] = [life.now, life.claims];
    while (life.queue.left > 9_000) life.step(10);
    expect(life.now - from).toBeLessThan((life.claims - before) * 10 * 1.2);
  });

  test('claims that turn out slow read less at a time, until they are quick again', () => {
    const life = new Life();
    const covered = () => {
      life.now += 60_000;
      const probes = life.probes.take(life.now);
      return probes.reduce((sum, probe) => sum + probe.untilBucket - probe.bucket, 0);
    };
    for (let claims = 0; claims < 5; claims++) life.step(1);
    expect(covered()).toBeGreaterThanOrEqual(1_024);
    for (let claims = 0; claims < 40; claims++) life.step(200);
    expect(covered()).toBeLessThanOrEqual(64);
    for (let claims = 0; claims < 4_000; claims++) life.step(1);
    expect(covered()).toBeGreaterThanOrEqual(1_024);
  });

  test('a worker that meets others at every key goes somewhere else', () => {
    const life = new Life();
    const probes = life.probes.take(0);
    const stop = { probe: 0, bucket: probes[0]?.bucket ?? 0, key: 'k' };
    life.probes.learn({ epoch: 1, clock: 0, jobs: [], stop, wanted: 25 }, 25, 1, 1);
    const places = new Set<number>();
    for (let now = 1; now < 100; now++) {
      const [probe] = life.probes.take(now);
      places.add(probe?.bucket ?? -1);
      life.probes.learn({ epoch: 1, clock: 0, jobs: [], stop, wanted: 25 }, 25, now, 1);
    }
    expect(places.size).toBeGreaterThan(20);
  });
});

describe('long lines', () => {
  test('are read on from the head that was last seen, and whole once a second', () => {
    const life = new Life();
    life.run = 25;
    life.queue.add(5, 'hot', 5_000);
    const froms = new Set<number>();
    for (let claims = 0; claims < 60; claims++) {
      const [head] = life.queue.lines[0]?.positions ?? [];
      const probes = life.probes.take(life.now);
      const hot = probes.find((probe) => probe.bucket === 5 && probe.afterKey === 'hot');
      const from = hot && hot.afterPosition < Number.MAX_SAFE_INTEGER ? hot.afterPosition : -1;
      // Never beyond the head: what is skipped is gone.
      if (head !== undefined) expect(from).toBeLessThan(head);
      froms.add(from);
      const claim = life.queue.claim(probes, 25, 25);
      life.now += 1;
      life.probes.learn(claim, 25, life.now, 1);
      life.probes.hint([5]);
    }
    expect(froms.size).toBeGreaterThan(30);
    // Committed late, behind the head.
    life.queue.lines[0]?.positions.unshift(0.5);
    const from = life.now;
    while (life.queue.lines[0]?.positions[0] === 0.5) {
      life.step(5);
      life.probes.hint([5]);
    }
    expect(life.now - from).toBeLessThan(1_500);
  });
});

describe('places', () => {
  const probe = (bucket: number, afterKey: string, untilBucket: number, untilKey: string) => ({
    ...{ bucket, afterKey, afterPosition: afterKey === '' ? -1 : Number.MAX_SAFE_INTEGER },
    ...{ untilBucket, untilKey },
  });

  test('neighbouring buckets are one stretch', () => {
    expect(ranges([1, 2, 3, 7, 9, 10])).toEqual([
      { from: 1, to: 3 },
      { from: 7, to: 7 },
      { from: 9, to: 10 },
    ]);
    expect(between(startOf(2), endOf(9, 'k'), ranges([1, 2, 3, 7, 9, 10]))).toEqual([
      probe(2, '', 4, ''),
      probe(7, '', 8, ''),
      probe(9, '', 9, 'k\u0001'),
    ]);
    expect(between(endOf(3, 'm'), startOf(7), ranges([1, 2, 3, 7]))).toEqual([
      probe(3, 'm', 4, ''),
    ]);
  });

  test('keys compare by their bytes, as in the index', () => {
    // U+1F600 is behind U+FFEE by its bytes, and before it by UTF-16 units.
    const within = ranges([4]);
    expect(between(endOf(4, '\uffee'), endOf(4, '😀'), within)).toHaveLength(1);
    expect(between(endOf(4, '😀'), endOf(4, '\uffee'), within)).toHaveLength(0);
  });

  test('a stretch is split before the key that is read from further on', () => {
    const hot = { bucket: 5, key: 'hot', position: 70 };
    expect(skipping([probe(1, '', 9, '')], hot)).toEqual([
      probe(1, '', 5, 'hot'),
      { ...probe(5, 'hot', 9, ''), afterPosition: 70 },
    ]);
    for (const other of [probe(1, '', 5, ''), probe(5, 'hot', 9, ''), probe(6, '', 9, '')])
      expect(skipping([other], hot)).toEqual([other]);
  });
});
