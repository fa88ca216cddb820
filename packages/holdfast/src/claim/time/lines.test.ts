/**
 * The lines of a queue that is read by time, against a table in memory: whatever commits late, comes back or is hinted
 * at, nothing that is due is left unread, jobs come in the exact order, and what was read is read again only by scans.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ClaimedJob } from '../take.js';
import type { LineRequest, TimeClaim } from './claim.js';
import { LAG_MS, Lines } from './lines.js';

const OPEN: (type: string) => boolean = () => true;

const EPOCH = Date.parse('2030-01-01T00:00:00Z');
/** As Postgres writes it. */
const text = (ms: number) =>
  new Date(EPOCH + ms).toISOString().replace('T', ' ').replace('Z', '+00');

interface Row {
  readonly position: number;
  readonly type: string;
  readonly priority: number;
  readonly due: number;
  /** When it is visible: at its commit. */
  readonly visible: number;
}

const inOrder = (a: Row, b: Row) =>
  a.priority - b.priority || a.due - b.due || a.position - b.position;
const VERSIONS = { a: 1, b: 2 };

/** A queue, and lines that are read as the source does. */
class Queue {
  rows: Row[] = [];
  readonly taken: number[] = [];
  readonly lines = new Lines(VERSIONS);
  /** How many rows the last claim read. */
  read = 0;
  /** Types that no limit allows. */
  refused = new Set<string>();
  #position = 0;

  add(due: number, { type = 'a', priority = 2, visible = due } = {}): number {
    this.#position++;
    this.rows.push({ position: this.#position, type, priority, due, visible });
    return this.#position;
  }

  #rowsOf({ type, version, priority, afterAt, afterPosition, rows }: LineRequest, now: number) {
    return this.rows
      .filter((row) => row.type === type && version === 1 && row.priority === priority)
      .filter(({ visible, due }) => visible <= now && due <= now)
      .filter(({ due, position }) => {
        const at = text(due);
        return at > afterAt || (at === afterAt && position > afterPosition);
      })
      .sort(inOrder)
      .slice(0, rows);
  }

  /** As the statement does it (claim.ts): true while there may be more. */
  claim(now: number, limit: number, { all = false, open = OPEN, tookMs = 1 } = {}): boolean {
    const lines = this.lines.take(now, limit, open, all);
    const seen = new Set<number>();
    const found: Row[] = [];
    let cut: { line: number; row: Row } | null = null;
    for (const [nth, line] of lines.entries()) {
      const rows = this.#rowsOf(line, now);
      found.push(...rows);
      if (rows.length > 0) seen.add(nth);
      const row = rows[line.rows - 1];
      if (row && (cut === null || inOrder(row, cut.row) < 0)) cut = { line: nth, row };
    }
    this.read = found.length;
    const picked = found
      .filter((row) => cut === null || inOrder(row, cut.row) <= 0)
      .sort(inOrder)
      .slice(0, limit);
    const ok = picked.filter(({ type }) => !this.refused.has(type));
    this.rows = this.rows.filter((row) => !ok.includes(row));
    this.taken.push(...ok.map(({ position }) => position));
    const claimed = {
      jobs: ok.map((row) => ({
        ...{ type: row.type, version: 1, priority: row.priority },
        ...{ cursorAt: text(row.due), cursorPosition: row.position },
      })) as ClaimedJob[],
      ...{ seenUntil: text(now - LAG_MS), found: picked.length, seen },
      cut: cut && { line: cut.line, at: text(cut.row.due), position: cut.row.position },
      refused: Object.fromEntries([...this.refused].map((type) => [type, null])),
    };
    this.lines.record(claimed as unknown as TimeClaim, limit, now + tookMs, tookMs);
    return picked.length === limit || cut !== null;
  }
}

describe('lines', () => {
  test('bring the jobs of a backlog in exact order, each of them once', () => {
    const queue = new Queue();
    // Types come in blocks, so that one line has what another lacks.
    const rows = Array.from({ length: 1_000 }, (_, n) => ({
      due: (n * 37) % 1_000,
      type: n % 300 < 250 ? 'a' : 'b',
      priority: 1 + (n % 3),
    }));
    for (const { due, ...row } of rows) queue.add(due, row);
    const order = queue.rows.toSorted(inOrder).map(({ position }) => position);
    let now = 5_000;
    while (queue.claim(now, 30)) now += 2;
    expect(queue.taken).toEqual(order);
  });

  test('are read on from the last job while there are more, and not from the front', () => {
    const queue = new Queue();
    for (let n = 0; n < 100; n++) queue.add(n);
    queue.claim(5_000, 30);
    const lines = queue.lines.take(5_002, 30, () => true, false);
    // Of those without a job nothing is wanted.
    expect(lines).toMatchObject([{ type: 'a', priority: 2, afterAt: text(29), afterPosition: 30 }]);
  });

  test('of which most is taken are not read far beyond that', () => {
    const queue = new Queue();
    for (let n = 0; n < 2_000; n++) queue.add(n, { type: n % 10 ? 'a' : 'b' });
    let [now, read] = [5_000, 0];
    for (let n = 0; n < 20; n++, now += 2) {
      queue.claim(now, 50);
      if (n > 0) read += queue.read;
    }
    expect(queue.taken.length).toBeGreaterThan(900);
    expect(read / queue.taken.length).toBeLessThan(1.6);
  });

  test('are all read when all are asked for', () => {
    const queue = new Queue();
    queue.claim(5_000, 30);
    queue.add(4_900, { type: 'b', priority: 4 });
    expect(queue.claim(5_010, 30, { all: true })).toBe(false);
    expect(queue.taken).toHaveLength(1);
  });

  test('show what commits a little late without a scan', () => {
    const queue = new Queue();
    queue.claim(10_000, 10);
    queue.add(10_000 - LAG_MS + 10, { visible: 10_100 });
    queue.claim(10_100, 10);
    expect(queue.taken).toHaveLength(1);
  });

  test('show what was released far behind the cursor within a second', () => {
    const queue = new Queue();
    queue.claim(10_000, 10);
    queue.add(2_000, { visible: 10_010 });
    queue.claim(10_020, 10);
    expect(queue.taken).toHaveLength(0);
    queue.claim(11_002, 10);
    expect(queue.taken).toHaveLength(1);
  });

  test('go back to where a hint says that jobs are, and to the front for one of any age', () => {
    const queue = new Queue();
    queue.claim(10_000, 10);
    queue.add(8_050, { visible: 10_010 });
    queue.lines.hint(new Date(EPOCH + 8_000), ['a'], 10_015);
    queue.claim(10_020, 10);
    expect(queue.taken).toHaveLength(1);
    queue.add(1, { visible: 10_030 });
    queue.lines.hint(null, null, 10_040);
    queue.claim(10_060, 10);
    expect(queue.taken).toHaveLength(2);
  });

  test('are read alone when a hint names their type', () => {
    const queue = new Queue();
    queue.claim(10_000, 10);
    queue.lines.hint(new Date(EPOCH + 10_000), ['b'], 10_005);
    const lines = queue.lines.take(10_010, 10, () => true, false);
    expect(new Set(lines.map(({ type }) => type))).toEqual(new Set(['b']));
  });

  test('are not moved forward by a hint', () => {
    const queue = new Queue();
    for (let n = 0; n < 20; n++) queue.add(n);
    queue.claim(10_000, 10);
    queue.lines.hint(new Date(EPOCH + 9_999), ['a'], 10_001);
    queue.claim(10_002, 10);
    expect(queue.taken).toHaveLength(20);
  });

  test('of lower priorities are not passed over while higher ones bring plenty', () => {
    const queue = new Queue();
    const low = queue.add(1, { priority: 4 });
    for (let n = 0; n < 100; n++) queue.add(2 + n, { priority: 1 });
    for (let now = 5_000; queue.rows.length > 0; now += 2) queue.claim(now, 30);
    expect(queue.taken.at(-1)).toBe(low);
  });

  test('of a type that no limit allows keep their place, and others go on', () => {
    const queue = new Queue();
    const held = Array.from({ length: 50 }, (_, n) => queue.add(n));
    const others = Array.from({ length: 50 }, (_, n) => queue.add(n, { type: 'b' }));
    queue.refused.add('a');
    queue.claim(5_000, 20);
    for (let now = 5_001; queue.claim(now, 20, { open: (type) => type === 'b' }); now++);
    expect(queue.taken).toEqual(others);
    // It was closed, and so nothing of it was read.
    expect(queue.read).toBeLessThanOrEqual(20);
    queue.refused.clear();
    for (let now = 5_100; queue.claim(now, 20); now++);
    expect(queue.taken.slice(50)).toEqual(held);
  });

  test('that take several claims to be read from the front are one scan, and its whole time counts', () => {
    const lines = new Lines({ a: 1 });
    const none = { jobs: [], refused: {}, merges: true, news: null, epoch: 0, clock: 0 };
    const record = (now: number, cutAt: number | null, tookMs: number) =>
      lines.record(
        {
          ...{ ...none, found: 0, seen: new Set([0]), seenUntil: text(10_000) },
          cut: cutAt === null ? null : { line: 0, at: text(cutAt), position: 1 },
        },
        10,
        now,
        tookMs,
      );
    const scanned = (now: number) => {
      lines.take(now, 10, OPEN, false);
      return lines.scanning;
    };
    // Two scans, because the cheaper of the last two counts. The running jobs in front take three claims of 20 ms.
    for (const from of [0, 10_000]) {
      expect(scanned(from)).toBe(true);
      record(from + 20, 1_000, 20);
      // It goes on although another scan would be due by now, and was asked for.
      lines.hint(null, null, from + 1_500);
      expect(scanned(from + 1_500)).toBe(false);
      record(from + 1_520, 2_000, 20);
      expect(scanned(from + 1_530)).toBe(false);
      record(from + 1_550, null, 20);
    }
    // 60 ms make a scan every 1.8 s; the one that was asked for comes then.
    expect(scanned(11_550 + 1_790)).toBe(false);
    expect(scanned(11_550 + 1_801)).toBe(true);
  });

  test('of a type that was closed while a scan was due are scanned when it is open', () => {
    const queue = new Queue();
    queue.claim(10_000, 10);
    queue.add(2_000, { visible: 10_010 });
    queue.claim(11_002, 10, { open: (type) => type === 'b' });
    queue.claim(11_010, 10);
    expect(queue.taken).toHaveLength(1);
  });
});

test('whatever happens, nothing that is due is left unread for longer than a scan and the next one', () => {
  const step = fc.record({
    afterMs: fc.integer({ min: 1, max: 900 }),
    jobs: fc.array(
      fc.record({
        ageMs: fc.integer({ min: -500, max: 5_000 }),
        priority: fc.integer({ min: 1, max: 4 }),
        type: fc.constantFrom('a', 'b'),
      }),
      { maxLength: 6 },
    ),
    hint: fc.constantFrom('none', 'any', 'exact'),
    refused: fc.subarray(['a', 'b']),
    closed: fc.subarray(['a', 'b']),
    limit: fc.integer({ min: 1, max: 5 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const queue = new Queue();
      let now = 10_000;
      for (const { afterMs, jobs, hint, refused, closed, limit } of steps) {
        now += afterMs;
        for (const { ageMs, ...row } of jobs) {
          queue.add(now - ageMs, { ...row, visible: now });
          if (hint === 'exact') queue.lines.hint(new Date(EPOCH + now - ageMs), [row.type], now);
        }
        if (hint === 'any') queue.lines.hint(null, null, now);
        queue.refused = new Set(refused);
        queue.claim(now, limit, { open: (type: string) => !closed.includes(type) } as never);
      }
      queue.refused.clear();
      // Everything is due now. A scan may be under way: what it has passed already is found by the next one.
      for (const _ of ['this scan', 'the next one']) {
        now += 2_000;
        // A claim that is not full and not cut short has read to the end.
        for (let claims = 0; queue.claim(now, 5) && claims < 1_000; claims++) now += 10;
      }
      expect(queue.rows).toEqual([]);
      expect(new Set(queue.taken).size).toBe(queue.taken.length);
    }),
  );
});
