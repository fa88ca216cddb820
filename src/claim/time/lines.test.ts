/**
 * The cursors of a queue that is read by time, against a table in memory: whatever commits late, comes back or
 * is hinted at, nothing that is due is left unread, and what was read is read again only by looks.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ClaimedByTime } from '../../claim/claim.js';
import type { ClaimedJob } from '../../claim/take.js';
import { DueReader, LAG_MS } from './due-reader.js';

const EPOCH = Date.parse('2030-01-01T00:00:00Z');
/** As Postgres writes it. */
const text = (ms: number) =>
  new Date(EPOCH + ms).toISOString().replace('T', ' ').replace('Z', '+00');

interface Row {
  readonly position: number;
  readonly priority: number;
  readonly due: number;
  /** When it is visible: at its commit. */
  readonly visible: number;
}

/** A queue, and a reader that claims from it as the loop does. */
class Queue {
  rows: Row[] = [];
  readonly taken: number[] = [];
  readonly reader = new DueReader();
  #position = 0;

  add(due: number, { priority = 2, visible = due } = {}): number {
    this.#position++;
    this.rows.push({ position: this.#position, priority, due, visible });
    return this.#position;
  }

  /** How many jobs it took. */
  claim(now: number, limit: number, tookMs = 1): number {
    const cursors = this.reader.take(now);
    const found: Row[] = [];
    for (const { priority, afterAt, afterPosition } of cursors) {
      const ahead = this.rows
        .filter((row) => row.priority === priority && row.visible <= now && row.due <= now)
        .filter(({ due, position }) => {
          const at = text(due);
          return at > afterAt || (at === afterAt && position > afterPosition);
        })
        .sort((a, b) => a.due - b.due || a.position - b.position);
      found.push(...ahead.slice(0, limit - found.length));
    }
    this.rows = this.rows.filter((row) => !found.includes(row));
    this.taken.push(...found.map(({ position }) => position));
    const jobs = found.map(({ priority, due, position }) => {
      return { priority, cursorAt: text(due), cursorPosition: position } as ClaimedJob;
    });
    const claimed = { jobs, seenUntil: text(now - LAG_MS) } as unknown as ClaimedByTime;
    this.reader.record(claimed, limit, now + tookMs, tookMs);
    return found.length;
  }
}

describe('a reader', () => {
  test('takes the jobs of a backlog oldest first, each of them once', () => {
    const queue = new Queue();
    const order = Array.from({ length: 1_000 }, (_, n) => queue.add(n));
    let now = 5_000;
    while (queue.claim(now, 30) === 30) now += 2;
    expect(queue.taken).toEqual(order);
  });

  test('reads on from its last job while there are more, and not from the front', () => {
    const queue = new Queue();
    for (let n = 0; n < 100; n++) queue.add(n);
    queue.claim(5_000, 30);
    const [, normal] = queue.reader.take(5_002);
    expect(normal).toMatchObject({ priority: 2, afterAt: text(29), afterPosition: 30 });
  });

  test('sees what commits a little late without a look', () => {
    const queue = new Queue();
    queue.claim(10_000, 10);
    queue.add(10_000 - LAG_MS + 10, { visible: 10_100 });
    expect(queue.claim(10_100, 10)).toBe(1);
  });

  test('finds what was released far behind its cursor within a second', () => {
    const queue = new Queue();
    queue.claim(10_000, 10);
    queue.add(2_000, { visible: 10_010 });
    expect(queue.claim(10_020, 10)).toBe(0);
    expect(queue.claim(11_002, 10)).toBe(1);
  });

  test('goes back to where a hint says that jobs are, and to the front for one of any age', () => {
    const queue = new Queue();
    queue.claim(10_000, 10);
    queue.add(8_050, { visible: 10_010 });
    queue.reader.hint(new Date(EPOCH + 8_000), 10_015);
    expect(queue.claim(10_020, 10)).toBe(1);
    queue.add(1, { visible: 10_030 });
    queue.reader.hint(null, 10_040);
    expect(queue.claim(10_060, 10)).toBe(1);
  });

  test('is not moved forward by a hint', () => {
    const queue = new Queue();
    for (let n = 0; n < 20; n++) queue.add(n);
    queue.claim(10_000, 10);
    queue.reader.hint(new Date(EPOCH + 9_999), 10_001);
    expect(queue.claim(10_002, 10)).toBe(10);
  });

  test('does not pass over lower priorities while higher ones bring plenty', () => {
    const queue = new Queue();
    const low = queue.add(1, { priority: 4 });
    for (let n = 0; n < 100; n++) queue.add(2 + n, { priority: 1 });
    for (let now = 5_000; queue.rows.length > 0; now += 2) queue.claim(now, 30);
    expect(queue.taken.at(-1)).toBe(low);
  });
});

test('whatever happens, nothing that is due is left unread for longer than a look', () => {
  const step = fc.record({
    afterMs: fc.integer({ min: 1, max: 900 }),
    jobs: fc.array(
      fc.record({
        ageMs: fc.integer({ min: -500, max: 5_000 }),
        priority: fc.integer({ min: 1, max: 4 }),
      }),
      { maxLength: 6 },
    ),
    hint: fc.constantFrom('none', 'any', 'exact'),
    limit: fc.integer({ min: 1, max: 5 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const queue = new Queue();
      let now = 10_000;
      for (const { afterMs, jobs, hint, limit } of steps) {
        now += afterMs;
        for (const { ageMs, priority } of jobs) {
          queue.add(now - ageMs, { priority, visible: now });
          if (hint === 'exact') queue.reader.hint(new Date(EPOCH + now - ageMs), now);
        }
        if (hint === 'any') queue.reader.hint(null, now);
        queue.claim(now, limit);
      }
      // Everything is due now. A claim that finds less than it wants has read to the end.
      now += 2_000;
      while (queue.claim(now, 5) === 5) now += 10;
      expect(queue.rows).toEqual([]);
      expect(new Set(queue.taken).size).toBe(queue.taken.length);
    }),
  );
});
