/** Where a worker reads next: pure, so every step of a long life can be tried in a moment. */
import { describe, expect, test } from 'vitest';
import type { Probe } from './claim.js';
import { type Answer, Probes } from './probes.js';
import type { ClaimedJob } from './taking.js';

const POLL_MS = 500;

interface Job {
  bucket: number;
  priority: number;
  at: number;
  position: number;
  /** As how many it counts when somebody walks over it. */
  weight: number;
}

const LAG_MS = 2_000;
const place = (text: string) => (text === '-infinity' ? Number.NEGATIVE_INFINITY : Number(text));

/** A queue in memory that answers probes as the claim does: in their order, up to a limit. */
class Queue {
  readonly jobs: Job[] = [];
  /** Finished jobs that nothing cleans up: a read from the start walks over them. */
  readonly dead: Job[] = [];
  walked = 0;
  #position = 0;

  add(bucket: number, priority = 2, count = 1, at = 0, weight = 1): void {
    for (let n = 0; n < count; n++) {
      this.jobs.push({ bucket, priority, at, position: ++this.#position, weight });
    }
  }

  claim(probes: readonly Probe[], limit: number, now: number): Answer {
    const taken: Job[] = [];
    for (const probe of probes) {
      const inside = (job: Job) =>
        job.priority === probe.priority &&
        job.bucket >= probe.from &&
        job.bucket <= probe.to &&
        (probe.from !== probe.to ||
          job.at > place(probe.afterAt) ||
          (job.at === place(probe.afterAt) && job.position > probe.afterPosition));
      for (const { weight } of this.dead.filter(inside)) this.walked += weight;
      const found = this.jobs
        .filter(inside)
        .sort((a, b) => a.bucket - b.bucket || a.at - b.at || a.position - b.position);
      const most = Math.min(limit, taken.length + (probe.inLine ? Math.ceil(limit / 8) : limit));
      for (const job of found) if (taken.length < most && !taken.includes(job)) taken.push(job);
    }
    for (const job of taken) this.jobs.splice(this.jobs.indexOf(job), 1);
    this.dead.push(...taken);
    const jobs = taken.map((job) => ({
      partitionBucket: job.bucket,
      priority: job.priority,
      cursorAt: String(Math.min(job.at, now - LAG_MS)),
      cursorPosition: job.at <= now - LAG_MS ? job.position : 0,
    })) as unknown as ClaimedJob[];
    return { jobs, seenUntil: String(now - LAG_MS) };
  }
}

interface Life {
  readonly probes: Probes;
  readonly queue: Queue;
  now: number;
}

/** One claim, or the wait until there is something to read. */
function step(life: Life, limit: number, tookMs = 1, msPerDead = 0): readonly ClaimedJob[] {
  const probes = life.probes.take(life.now);
  if (probes.length === 0) {
    life.now += Math.max(1, life.probes.idleMs(life.now));
    return [];
  }
  life.queue.walked = 0;
  const answer = life.queue.claim(probes, limit, life.now);
  const all = tookMs + life.queue.walked * msPerDead;
  life.now += all;
  life.probes.learn(answer, limit, life.now, all);
  return answer.jobs;
}

const newLife = (buckets?: readonly number[], lines: readonly number[] = []): Life => ({
  probes: new Probes({
    ...{ pollMs: POLL_MS, hasLine: (bucket) => lines.includes(bucket) },
    ...(buckets && { buckets }),
  }),
  queue: new Queue(),
  now: 0,
});

describe('every job is found', () => {
  test.each([
    [undefined],
    [[3]],
    [[1, 5, 6, 7, 900, 1023]],
    [Array.from({ length: 300 }, (_, n) => n * 3)],
  ])(
    'whatever its bucket and priority, and nothing of buckets that are not owned (%#)',
    (buckets) => {
      const life = newLife(buckets);
      const mine = buckets ?? Array.from({ length: 1024 }, (_, n) => n);
      for (const bucket of mine) life.queue.add(bucket, 1 + (bucket % 4), 3);
      if (buckets) life.queue.add(2);
      let found = 0;
      for (let claims = 0; claims < 2_000 && found < mine.length * 3; claims++)
        found += step(life, 25).length;
      expect(found).toBe(mine.length * 3);
      expect(life.queue.jobs).toHaveLength(buckets ? 1 : 0);
    },
  );

  test('a job that lands behind a cursor is found within two seconds of a busy worker', () => {
    const life = newLife();
    life.queue.add(7, 2, 50_000);
    for (let claims = 0; claims < 50; claims++) step(life, 25);
    life.queue.jobs.push({ bucket: 7, priority: 2, at: 0, position: 0.5, weight: 1 });
    const from = life.now;
    while (life.queue.jobs.some((job) => job.position === 0.5)) step(life, 25, 5);
    expect(life.now - from).toBeLessThan(2_000);
  });

  test('a new job elsewhere is found within a poll of a worker that is busy with one bucket', () => {
    const life = newLife();
    life.queue.add(7, 2, 10_000);
    for (let claims = 0; claims < 50; claims++) step(life, 25);
    life.queue.add(800);
    const from = life.now;
    while (life.queue.jobs.some((job) => job.bucket === 800)) step(life, 25, 5);
    expect(life.now - from).toBeLessThan(POLL_MS + 100);
  });
});

describe('fairness', () => {
  test('buckets take turns: a full one does not keep the others waiting', () => {
    const life = newLife();
    for (const bucket of [1, 2, 3]) life.queue.add(bucket, 2, 1_000);
    const counts = new Map<number, number>();
    for (let claims = 0; claims < 30; claims++) {
      for (const job of step(life, 25))
        counts.set(job.partitionBucket, (counts.get(job.partitionBucket) ?? 0) + 1);
    }
    expect(Math.min(...[1, 2, 3].map((bucket) => counts.get(bucket) ?? 0))).toBeGreaterThan(200);
  });

  test('a long line takes its turn, and little in it, while others have jobs', () => {
    const life = newLife(undefined, [500]);
    life.queue.add(500, 2, 5_000);
    for (let bucket = 0; bucket < 1_000; bucket += 10) {
      if (bucket !== 500) life.queue.add(bucket, 2, 50);
    }
    let [inLine, others, left] = [0, 0, 99 * 50];
    for (let claims = 0; claims < 200 && left > 0; claims++) {
      const jobs = step(life, 400);
      const hot = jobs.filter((job) => job.partitionBucket === 500).length;
      [inLine, others] = [inLine + hot, others + jobs.length - hot];
      left = life.queue.jobs.filter((job) => job.bucket !== 500).length;
    }
    expect(others).toBe(99 * 50);
    // The first claim may have come upon it before anything else was known to have jobs.
    expect(inLine).toBeGreaterThanOrEqual(50);
    expect(inLine).toBeLessThanOrEqual(400 + 3 * 50);
    // Alone it gives all that is asked for.
    step(life, 400);
    expect(step(life, 400)).toHaveLength(400);
  });

  test('a long line of priority 1 comes before all of priority 2, also when it gives only a part', () => {
    const life = newLife(undefined, [500]);
    life.queue.add(500, 1, 2_000);
    life.queue.add(3, 1, 1);
    life.queue.add(900, 2, 100);
    for (let claims = 0; claims < 5; claims++) {
      life.probes.hint([3, 900]);
      expect(step(life, 400).filter((job) => job.priority === 2)).toEqual([]);
    }
  });

  test('a long line of which others took all that was chosen goes on from where it was', () => {
    const life = newLife([500, 900], [500]);
    life.queue.add(500, 2, 1_000);
    step(life, 80);
    const other = { partitionBucket: 900, priority: 2, cursorAt: '0', cursorPosition: 1 };
    const answer = { jobs: [other as ClaimedJob], seenUntil: String(life.now), unsure: true };
    const take = () => {
      life.probes.hint([900]);
      return life.probes.take(life.now).filter(({ priority }) => priority === 2);
    };
    // The other comes first, and the line was not read; now it does, and gave nothing.
    take();
    life.probes.learn(answer, 1, life.now, 1);
    const before = take();
    expect(before.map(({ from, inLine }) => [from, inLine])).toEqual([
      [500, true],
      [900, false],
    ]);
    life.probes.learn(answer, 1, life.now, 1);
    expect(take()).toContainEqual(before[0]);
    // But not for ever: there may be nothing left of it.
    for (let claims = 0; claims < 12; claims++) {
      life.probes.learn(answer, 1, life.now, 1);
      take();
    }
    expect(take().map(({ from }) => from)).not.toContain(500);
  });

  test('a long line has its turn although others are told of all the time', () => {
    const life = newLife([3, 500], [500]);
    life.queue.add(500, 2, 5_000);
    let inLine = 0;
    for (let claims = 0; claims < 100; claims++) {
      life.queue.add(3);
      life.probes.hint([3]);
      inLine += step(life, 400).filter((job) => job.partitionBucket === 500).length;
    }
    expect(inLine).toBeGreaterThan(1_000);
    expect(life.queue.jobs.filter((job) => job.bucket === 3).length).toBeLessThan(3);
  });

  test('what is of priority 1 is claimed before all the rest', () => {
    const life = newLife();
    for (let bucket = 0; bucket < 1024; bucket++) life.queue.add(bucket, 2, 2);
    life.queue.add(900, 1, 10);
    expect(step(life, 25).filter((job) => job.priority === 1)).toHaveLength(10);
  });
});

describe('what looking costs', () => {
  const probesPerPoll = (life: Life, tookMs: number) => {
    for (let claims = 0; claims < 50; claims++) step(life, 25, tookMs);
    let [claims, count] = [0, 0];
    const until = life.now + 10_000;
    while (life.now < until) {
      const probes = life.probes.take(life.now);
      count += probes.length;
      claims += probes.length > 0 ? 1 : 0;
      step(life, 25, tookMs);
    }
    return count / claims;
  };

  test.each([1, 30, 200])('an idle worker %i ms away looks with a handful of probes', (tookMs) => {
    expect(probesPerPoll(newLife(), tookMs)).toBeLessThan(10);
  });

  test('hints here and there do not tear its looks apart', () => {
    const life = newLife();
    for (let claims = 0; claims < 50; claims++) step(life, 25);
    life.probes.asleep = true;
    for (let n = 0; n < 200; n++) {
      life.queue.add(n * 5, 2, 1, life.now);
      life.probes.hint([n * 5]);
      while (life.queue.jobs.length > 0) step(life, 25);
      life.now += 40;
    }
    let looks = 0;
    const until = life.now + 10 * POLL_MS;
    while (life.now < until) {
      if (life.probes.take(life.now).length > 0) looks++;
      step(life, 25);
    }
    expect(looks).toBeLessThan(40);
  });

  test('a worker that finds nothing waits for its poll, and one that finds something looks again soon', () => {
    const life = newLife();
    for (let claims = 0; claims < 50; claims++) step(life, 25);
    if (life.probes.take(life.now).length > 0) step(life, 25);
    // It has just looked and found nothing.
    expect(life.probes.take(life.now)).toEqual([]);
    expect(life.probes.idleMs(life.now)).toBeGreaterThan(POLL_MS / 2);
    expect(life.probes.idleMs(life.now)).toBeLessThanOrEqual(POLL_MS);
    life.queue.add(5);
    while (life.queue.jobs.length > 0) step(life, 25);
    expect(life.probes.idleMs(life.now)).toBeLessThan(50);
  });

  test('jobs that nobody can clean up are walked over rarely, and not at every look', () => {
    const life = newLife();
    life.now = 10_000;
    // 320,000 of them, and 0.4 µs for each that somebody walks over.
    for (let bucket = 0; bucket < 16; bucket++) life.queue.add(bucket, 2, 100, 0, 200);
    for (let claims = 0; life.queue.jobs.length > 0; claims++) {
      if (claims > 5_000) throw new Error('not drained');
      step(life, 250, 1, 0.0004);
    }
    // A steady trickle keeps it looking.
    let walked = 0;
    const from = life.now;
    for (let n = 0; n < 1_500; n++) {
      if (n % 20 === 0) life.queue.add(n % 16, 2, 1, life.now);
      // A step that only waits walks over nothing.
      life.queue.walked = 0;
      step(life, 250, 1, 0.0004);
      walked += life.queue.walked;
    }
    // Walking over all of them takes 128 ms. It may take a small part of the time, however often it looks.
    expect((walked * 0.0004) / (life.now - from)).toBeLessThan(0.08);
  });
});

describe('what changes under it', () => {
  test('a bucket that is gained is read at once, and one that is lost no more', () => {
    const life = newLife([1, 2, 3]);
    while (life.probes.take(life.now).length > 0) step(life, 25);
    life.probes.own([2, 3, 9]);
    const probes = life.probes.take(life.now);
    expect(probes.every((probe) => probe.from === 9 && probe.to === 9)).toBe(true);
    expect(probes).toHaveLength(4);
    life.queue.add(1);
    life.queue.add(9);
    for (let claims = 0; claims < 100; claims++) step(life, 25);
    expect(life.queue.jobs.map((job) => job.bucket)).toEqual([1]);
  });

  test('owners may change while a claim is under way', () => {
    const life = newLife([1, 2, 3]);
    life.queue.add(2, 2, 50);
    const probes = life.probes.take(life.now);
    const answer = life.queue.claim(probes, 25, life.now);
    life.probes.own([]);
    life.probes.learn(answer, 25, 1, 1);
    expect(life.probes.take(5_000)).toEqual([]);
    expect(life.probes.idleMs(5_000)).toBe(Number.POSITIVE_INFINITY);
    life.probes.own([7]);
    expect(life.probes.take(5_000)).toHaveLength(4);
  });

  test('a hint is followed at once, also one that comes while a claim is under way', () => {
    const life = newLife();
    for (let claims = 0; claims < 50; claims++) step(life, 25);
    while (life.probes.take(life.now).length > 0) step(life, 25);
    life.probes.hint([77]);
    expect(life.probes.idleMs(life.now)).toBe(0);
    const probes = life.probes.take(life.now);
    expect(probes.map(({ from, to }) => [from, to])).toEqual(Array(4).fill([77, 77]));
    life.probes.hint([77]);
    life.probes.learn({ jobs: [], seenUntil: '0' }, 25, life.now, 1);
    expect(life.probes.take(life.now)).toHaveLength(4);
    life.probes.learn({ jobs: [], seenUntil: '0' }, 25, life.now, 1);
    expect(life.probes.take(life.now)).toEqual([]);
    life.probes.hint([5000]);
    expect(life.probes.take(life.now)).toEqual([]);
  });

  test('one that is told of new jobs does not look again soon', () => {
    const life = newLife();
    for (let claims = 0; claims < 50; claims++) step(life, 25);
    life.probes.asleep = true;
    life.probes.hint([5]);
    life.queue.add(5, 2, 1, life.now);
    while (life.queue.jobs.length > 0) step(life, 25);
    // The look that was due at the time comes after it.
    step(life, 25);
    expect(life.probes.take(life.now)).toEqual([]);
    expect(life.probes.idleMs(life.now)).toBeGreaterThan(100);
  });

  test('what it is told of is claimed alone, and looks are put off once and not for ever', () => {
    const life = newLife();
    for (let claims = 0; claims < 50; claims++) step(life, 25);
    life.probes.asleep = true;
    life.now += POLL_MS * 2;
    const widths: number[] = [];
    for (let n = 0; n < 4; n++) {
      life.probes.hint([5]);
      life.queue.add(5, 2, 1, life.now);
      const probes = life.probes.take(life.now);
      widths.push(Math.max(...probes.map(({ from, to }) => to - from + 1)));
      life.now += 1;
      life.probes.learn(life.queue.claim(probes, 25, life.now), 25, life.now, 1);
    }
    expect(widths[0]).toBe(1);
    expect(widths[1]).toBeGreaterThan(100);
    expect(widths.slice(2)).toEqual([1, 1]);
  });
});
