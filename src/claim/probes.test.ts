/** Where a worker reads next: pure, so every step of a long life can be tried in a moment. */
import { describe, expect, test } from 'vitest';
import type { ClaimedJob, Probe } from './claim.js';
import { Probes } from './probes.js';

const POLL_MS = 500;

/** A queue in memory that answers probes as the claim does: in their order, up to a limit. */
class Queue {
  readonly jobs: { bucket: number; priority: number; position: number }[] = [];
  #position = 0;

  add(bucket: number, priority = 2, count = 1): void {
    for (let n = 0; n < count; n++)
      this.jobs.push({ bucket, priority, position: ++this.#position });
  }

  claim(probes: readonly Probe[], limit: number): ClaimedJob[] {
    const taken: typeof this.jobs = [];
    for (const probe of probes) {
      const inside = this.jobs
        .filter(
          (job) =>
            job.priority === probe.priority && job.bucket >= probe.from && job.bucket <= probe.to,
        )
        .filter((job) => probe.from !== probe.to || job.position > probe.afterPosition)
        .sort((a, b) => a.bucket - b.bucket || a.position - b.position);
      for (const job of inside) if (taken.length < limit && !taken.includes(job)) taken.push(job);
    }
    for (const job of taken) this.jobs.splice(this.jobs.indexOf(job), 1);
    return taken.map((job) => ({
      partitionBucket: job.bucket,
      priority: job.priority,
      cursorAt: 'then',
      cursorPosition: job.position,
    })) as unknown as ClaimedJob[];
  }
}

interface Life {
  readonly probes: Probes;
  readonly queue: Queue;
  now: number;
}

/** One claim, or the wait until there is something to read. */
function step(life: Life, limit: number, tookMs = 1): ClaimedJob[] {
  const probes = life.probes.take(life.now);
  if (probes.length === 0) {
    life.now += Math.max(1, life.probes.idleMs(life.now));
    return [];
  }
  const jobs = life.queue.claim(probes, limit);
  life.now += tookMs;
  life.probes.learn(jobs, limit, life.now, tookMs);
  return jobs;
}

const newLife = (buckets?: readonly number[]): Life => ({
  probes: new Probes({ pollMs: POLL_MS, ...(buckets && { buckets }) }),
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
    life.queue.jobs.push({ bucket: 7, priority: 2, position: 0.5 });
    const from = life.now;
    while (life.queue.jobs.some((job) => job.position === 0.5)) step(life, 25, 5);
    expect(life.now - from).toBeLessThan(2_000);
  });

  test('a new job elsewhere is found within a poll of a worker that is busy with one bucket', () => {
    const life = newLife();
    life.queue.add(7, 2, 100_000);
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

  test('claims that turn out slow make runs shorter, until they are quick again', () => {
    const life = newLife();
    for (let claims = 0; claims < 5; claims++) step(life, 25, 1);
    for (let claims = 0; claims < 20; claims++) step(life, 25, 200);
    life.now += 60_000;
    expect(life.probes.take(life.now).length).toBeGreaterThan(8);
    for (let claims = 0; claims < 400; claims++) step(life, 25, 1);
    life.now += 60_000;
    expect(life.probes.take(life.now).length).toBeLessThan(10);
  });
});
