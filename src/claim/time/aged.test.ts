/** When a worker reads aged jobs first, and how much of its claims they get. */
import { describe, expect, test } from 'vitest';
import type { ClaimedJob } from '../../claim/take.js';
import { AgedReader } from './aged-reader.js';

let position = 0;
const jobs = (count: number, priority: number) =>
  Array.from({ length: count }, () => {
    position++;
    return { priority, cursorAt: `2030-01-01 ${position}`, cursorPosition: position } as ClaimedJob;
  });

/** A reader whose last claim of 20 was full with jobs of this priority. */
function behind(priority: number): AgedReader {
  const reader = new AgedReader();
  reader.recordOrdinary(jobs(20, priority), 20);
  return reader;
}

const priorities = (share: ReturnType<AgedReader['take']>) =>
  share?.cursors.map(({ priority }) => priority);

describe('aged jobs are read', () => {
  test('only of priorities that a full claim did not come to', () => {
    expect(priorities(behind(1).take(20, 0))).toEqual([4, 3, 2]);
    expect(priorities(behind(3).take(20, 0))).toEqual([4]);
    expect(behind(4).take(20, 0)).toBeNull();
    expect(new AgedReader().take(20, 0)).toBeNull();
  });

  test('no more once a claim has come to the end of the queue', () => {
    const reader = behind(1);
    reader.recordOrdinary(jobs(19, 1), 20);
    expect(reader.take(20, 0)).toBeNull();
  });

  test('once a second while there are none', () => {
    const reader = behind(1);
    let looks = 0;
    for (let now = 0; now < 5_000; now += 10) {
      const share = reader.take(20, now);
      if (share) reader.record([], share.limit, now, 1);
      if (share) looks++;
      reader.recordOrdinary(jobs(20, 1), 20);
    }
    expect(looks).toBe(5);
  });

  test.each([1, 4, 20, 500])(
    'as a quarter of all that is taken while there are many, with room for %i',
    (room) => {
      const reader = behind(1);
      let [aged, others] = [0, 0];
      for (let now = 0; now < 1_000; now++) {
        const share = reader.take(room, now);
        if (share) reader.record(jobs(share.limit, 4), share.limit, now, 1);
        const rest = room - (share?.limit ?? 0);
        aged += share?.limit ?? 0;
        if (rest === 0) continue;
        others += rest;
        reader.recordOrdinary(jobs(rest, 1), rest);
      }
      expect(aged / (aged + others)).toBeGreaterThan(0.2);
      expect(aged / (aged + others)).toBeLessThanOrEqual(0.26);
    },
  );

  test('from the last one on, each priority first in its turn', () => {
    const reader = behind(1);
    const share = reader.take(8, 0);
    const taken = jobs(2, 4);
    reader.record(taken, share?.limit ?? 0, 0, 1);
    reader.recordOrdinary(jobs(6, 1), 6);
    const next = reader.take(8, 10);
    expect(priorities(next)).toEqual([3, 2, 4]);
    expect(next?.cursors[2]).toEqual({
      priority: 4,
      afterAt: taken[1]?.cursorAt,
      afterPosition: taken[1]?.cursorPosition,
    });
    expect(next?.cursors[0]).toMatchObject({ priority: 3, afterAt: '-infinity' });
  });
});
