/** When a worker reads aged jobs first, and how much of its claims they get. */
import { describe, expect, test } from 'vitest';
import type { ClaimedJob } from '../take.js';
import { AgedLines } from './aged.js';
import type { TimeClaim } from './claim.js';

let position = 0;
const jobs = (count: number, priority: number) =>
  Array.from({ length: count }, () => {
    position++;
    const place = { cursorAt: `2030-01-01 ${position}`, cursorPosition: position };
    return { type: 'step', version: 1, priority, ...place } as ClaimedJob;
  });
/** A claim that could take so many jobs, and took them. */
const claim = (count: number, priority: number) =>
  ({ jobs: jobs(count, priority), found: count }) as unknown as TimeClaim;
const open = () => true;

/** Lines whose last claim of 20 was full with jobs of this priority. */
function behind(priority: number): AgedLines {
  const lines = new AgedLines({ step: 1 });
  lines.recordOrdinary(claim(20, priority), 20);
  return lines;
}

const priorities = (share: ReturnType<AgedLines['take']>) =>
  share?.lines.map(({ priority }) => priority);

describe('aged jobs are read', () => {
  test('only of priorities that a full claim did not come to', () => {
    expect(priorities(behind(1).take(0, 20, open))).toEqual([2, 3, 4]);
    expect(priorities(behind(3).take(0, 20, open))).toEqual([4]);
    expect(behind(4).take(0, 20, open)).toBeNull();
    expect(new AgedLines({ step: 1 }).take(0, 20, open)).toBeNull();
  });

  test('only of types that may start', () => {
    expect(priorities(behind(1).take(0, 20, () => false))).toEqual([]);
  });

  test('no more once a claim has come to the end of the queue', () => {
    const lines = behind(1);
    lines.recordOrdinary(claim(19, 1), 20);
    expect(lines.take(0, 20, open)).toBeNull();
  });

  test('once a second while there are none', () => {
    const lines = behind(1);
    let scans = 0;
    for (let now = 0; now < 5_000; now += 10) {
      const share = lines.take(now, 20, open);
      if (share) lines.record(claim(0, 4), share.limit, now, 1);
      if (share) scans++;
      lines.recordOrdinary(claim(20, 1), 20);
    }
    expect(scans).toBe(5);
  });

  test.each([1, 4, 20, 500])(
    'as a quarter of all that is taken while there are many, with room for %i',
    (room) => {
      const lines = behind(1);
      let [aged, others] = [0, 0];
      for (let now = 0; now < 1_000; now++) {
        const share = lines.take(now, room, open);
        if (share) lines.record(claim(share.limit, 4), share.limit, now, 1);
        const rest = room - (share?.limit ?? 0);
        aged += share?.limit ?? 0;
        if (rest === 0) continue;
        others += rest;
        lines.recordOrdinary(claim(rest, 1), rest);
      }
      expect(aged / (aged + others)).toBeGreaterThan(0.2);
      expect(aged / (aged + others)).toBeLessThanOrEqual(0.26);
    },
  );

  test('from the last one on, each line by itself', () => {
    const lines = behind(1);
    const share = lines.take(0, 8, open);
    const taken = claim(2, 4);
    lines.record(taken, share?.limit ?? 0, 0, 1);
    lines.recordOrdinary(claim(6, 1), 6);
    const next = lines.take(10, 8, open);
    expect(priorities(next)).toEqual([2, 3, 4]);
    expect(next?.lines[2]).toMatchObject({
      afterAt: taken.jobs[1]?.cursorAt,
      afterPosition: taken.jobs[1]?.cursorPosition,
    });
    expect(next?.lines[0]).toMatchObject({ priority: 2, afterAt: '-infinity' });
  });
});
