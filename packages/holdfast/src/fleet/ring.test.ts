/** The ring is a pure function: whole lives of fleets are tried in a moment, without a database. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { long } from '../../../../test/support/long.js';
import { BUCKETS, hash32 } from '../job/key.js';
import { movedBuckets, ringOwners } from './ring.js';

/** Fleets that chance makes, of each property. */
const numRuns = long(30, 100);

/** Numbers from 0 to 1, the same ones for the same seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Ids as workers have them: host, process id and six hexadecimal digits. */
function fleetOf(size: number, random: () => number): string[] {
  const below = (limit: number) => Math.floor(random() * limit);
  const host = `host-${below(10)}`;
  return Array.from({ length: size }, () => {
    const digits = below(2 ** 24)
      .toString(16)
      .padStart(6, '0');
    return `${host}-${below(65_536)}-${digits}`;
  });
}

function countsOf(owners: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const owner of owners) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  return counts;
}

const busiestOf = (owners: readonly string[]) => Math.max(...countsOf(owners).values());

const someId = fc
  .tuple(fc.nat(99), fc.integer({ min: 1, max: 65_535 }), fc.nat(2 ** 24 - 1))
  .map(([host, pid, n]) => `host-${host}-${pid}-${n.toString(16).padStart(6, '0')}`);
const someFleet = (maxLength: number) =>
  fc.uniqueArray(fc.oneof(someId, fc.string({ unit: 'grapheme', maxLength: 20 })), {
    minLength: 1,
    maxLength,
  });

describe('every worker that sees the same list computes the same owners', () => {
  test('whatever the order of the list, and however often an id stands in it', () => {
    const lists = someFleet(30).chain((ids) =>
      fc.tuple(
        fc.constant(ids),
        fc.shuffledSubarray(ids, { minLength: ids.length }),
        fc.subarray(ids),
      ),
    );
    fc.assert(
      fc.property(lists, ([ids, shuffled, again]) => {
        expect(ringOwners([...shuffled, ...again])).toEqual(ringOwners(ids));
      }),
      { numRuns },
    );
  });

  test('in every release: two versions of Holdfast run side by side through a deploy', () => {
    const ids = ['host-1234-a1b2c3', 'host-1240-0f9e8d', 'host-77-beef00', 'wörker', '注文'];
    const rings = ids.map((_, n) => ringOwners(ids.slice(0, n + 1)));
    expect(rings.map((owners) => hash32(owners.join()))).toEqual([
      3204128954, 1245335266, 3146508272, 3406380415, 3611116498,
    ]);
  });
});

describe('every bucket has one owner, and it is a live worker', () => {
  test('nobody owns anything in an empty fleet, and a lone worker owns all', () => {
    expect(ringOwners([])).toEqual([]);
    expect(ringOwners(['a'])).toEqual(new Array(BUCKETS).fill('a'));
  });

  test('in any fleet', () => {
    fc.assert(
      fc.property(someFleet(64), (ids) => {
        const owners = ringOwners(ids);
        expect(owners).toHaveLength(BUCKETS);
        expect(owners.filter((owner) => !ids.includes(owner))).toEqual([]);
        const mean = BUCKETS / ids.length;
        expect(busiestOf(owners)).toBeLessThanOrEqual(Math.max(Math.ceil(mean), 1.2 * mean));
      }),
      { numRuns },
    );
  });

  test('also when there are more workers than buckets', () => {
    const owners = ringOwners(fleetOf(1_500, randomFrom(1)));
    expect(owners).toHaveLength(BUCKETS);
    expect(busiestOf(owners)).toBe(1);
  });
});

describe('the work is shared evenly', () => {
  test('the busiest of 1 to 64 workers has at most 1.25 times the mean', () => {
    const random = randomFrom(2);
    for (let size = 1; size <= 64; size++) {
      for (let fleet = 0; fleet < long(1, 2); fleet++) {
        const busiest = busiestOf(ringOwners(fleetOf(size, random)));
        expect(busiest, `${size} workers`).toBeLessThanOrEqual((1.25 * BUCKETS) / size);
      }
    }
  });

  test('none of up to 16 workers has less than half of the mean', () => {
    const random = randomFrom(3);
    for (let size = 1; size <= 16; size++) {
      for (let fleet = 0; fleet < long(3, 10); fleet++) {
        const ids = fleetOf(size, random);
        const counts = countsOf(ringOwners(ids));
        const idlest = Math.min(...ids.map((id) => counts.get(id) ?? 0));
        expect(idlest, `${size} workers`).toBeGreaterThan((0.5 * BUCKETS) / size);
      }
    }
  });
});

/** How many buckets moved between workers that were there before and after. */
function movedBetweenOthers(
  before: readonly string[],
  after: readonly string[],
  changed: string,
): number {
  return before.filter((owner, bucket) => {
    const next = after[bucket];
    return owner !== next && owner !== changed && next !== changed;
  }).length;
}

describe('little moves when the fleet changes', () => {
  // Fixed fleets: one random fleet in some thousands goes a few buckets beyond the bound.
  test('worker N+1 takes at most 1.25 / (N+1) of the buckets, and hardly any move elsewhere', () => {
    const random = randomFrom(4);
    const [fleets, steps] = [long(25, 100), 16];
    let [elsewhere, share] = [0, 0];
    for (let fleet = 0; fleet < fleets; fleet++) {
      const ids = fleetOf(steps + 1, random);
      let before = ringOwners(ids.slice(0, 1));
      for (let n = 1; n <= steps; n++) {
        const after = ringOwners(ids.slice(0, n + 1));
        const moved = movedBuckets(before, after);
        expect(moved, `${ids[n]} joins ${n}`).toBeLessThanOrEqual((1.25 * BUCKETS) / (n + 1));
        const others = movedBetweenOthers(before, after, ids[n]!);
        expect(others, `${ids[n]} joins ${n}`).toBeLessThanOrEqual(20);
        elsewhere += others;
        share += (moved / BUCKETS) * (n + 1);
        before = after;
      }
    }
    expect(elsewhere / (fleets * steps)).toBeLessThan(0.2);
    expect(share / (fleets * steps)).toBeLessThan(1.02);
  });

  test('any worker that leaves hands its buckets to many, and hardly any move elsewhere', () => {
    const random = randomFrom(5);
    for (let size = 2; size <= 17; size++) {
      for (let fleet = 0; fleet < long(2, 5); fleet++) {
        const ids = fleetOf(size, random);
        const before = ringOwners(ids);
        for (const gone of ids.slice(0, 4)) {
          const after = ringOwners(ids.filter((id) => id !== gone));
          const heirs = countsOf(after.filter((_, bucket) => before[bucket] === gone));
          const share = before.filter((owner) => owner === gone).length;
          if (size >= 8) expect(Math.max(...heirs.values())).toBeLessThan(share / 2);
          expect(movedBetweenOthers(before, after, gone)).toBeLessThanOrEqual(20);
          expect(share).toBeLessThanOrEqual((1.25 * BUCKETS) / size);
        }
      }
    }
  });

  test('one that joins a large fleet moves its share and at most three in a hundred others', () => {
    const random = randomFrom(6);
    for (let size = 17; size < 64; size += long(4, 1)) {
      const ids = fleetOf(size + 1, random);
      const [before, after] = [ringOwners(ids.slice(0, size)), ringOwners(ids)];
      expect(movedBetweenOthers(before, after, ids[size]!)).toBeLessThanOrEqual(0.03 * BUCKETS);
    }
  });

  test('all buckets move when the first worker comes', () => {
    expect(movedBuckets(ringOwners([]), ringOwners(['a']))).toBe(BUCKETS);
  });
});
