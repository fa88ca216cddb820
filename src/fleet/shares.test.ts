/** Who reads what, in fleets whose workers cannot all run the same jobs. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BUCKETS } from '../job/key.js';
import { ringOwners } from './ring.js';
import { type Member, publishedOwners, type Share, sharesOf } from './shares.js';

const EVERY_BUCKET = Array.from({ length: BUCKETS }, (_, bucket) => bucket);

const member = (id: string, handles: Record<string, number>): Member => ({ id, handles });

/** The workers that read a job of this type, version and bucket. */
function readersOf(
  shares: ReadonlyMap<string, readonly Share[]>,
  job: { type: string; version: number; bucket: number },
): string[] {
  return [...shares].flatMap(([id, list]) =>
    list
      .filter(({ versions, above, buckets }) => {
        if (!Object.hasOwn(versions, job.type)) return false;
        const isOfClass = job.version > above[job.type]! && job.version <= versions[job.type]!;
        return isOfClass && buckets.includes(job.bucket);
      })
      .map(() => id),
  );
}

const sharesOfAll = (members: readonly Member[]) =>
  new Map(members.map(({ id }) => [id, sharesOf(id, members)]));

describe('every job that somebody can run is read by exactly one worker', () => {
  // Names that every object inherits are types as good as any other.
  const types = ['mail', 'pay', 'constructor'];
  const someFleet = fc.uniqueArray(
    fc.record({
      id: fc.integer({ min: 1, max: 99 }).map((n) => `host-${n}-a1b2c3`),
      handles: fc.dictionary(fc.constantFrom(...types), fc.integer({ min: 1, max: 4 })),
    }),
    { selector: ({ id }) => id, maxLength: 7 },
  );

  test('whatever the types and versions that the workers handle, and nobody else can run it', () => {
    fc.assert(
      fc.property(someFleet, fc.nat(BUCKETS - 1), (members, bucket) => {
        const shares = sharesOfAll(members);
        for (const type of types) {
          for (let version = 1; version <= 5; version++) {
            const able = members.filter(
              ({ handles }) => Object.hasOwn(handles, type) && handles[type]! >= version,
            );
            const readers = readersOf(shares, { type, version, bucket });
            expect(readers).toHaveLength(able.length > 0 ? 1 : 0);
            expect(able.map(({ id }) => id)).toEqual(expect.arrayContaining(readers));
          }
        }
      }),
      { numRuns: 100 },
    );
  });

  test('in every bucket', () => {
    const members = [
      member('a', { mail: 1, pay: 3 }),
      member('b', { mail: 2, pay: 3 }),
      member('c', { mail: 2, pay: 1 }),
    ];
    const shares = sharesOfAll(members);
    for (const type of ['mail', 'pay']) {
      for (const version of [1, 2, 3]) {
        const readers = EVERY_BUCKET.map((bucket) => readersOf(shares, { type, version, bucket }));
        const expected = type === 'mail' && version === 3 ? 0 : 1;
        expect(readers.filter((ids) => ids.length !== expected)).toEqual([]);
      }
    }
  });

  test('every worker sees the same, whatever the order of its list', () => {
    fc.assert(
      fc.property(
        someFleet.chain((members) =>
          fc.tuple(
            fc.constant(members),
            fc.shuffledSubarray(members, { minLength: members.length }),
          ),
        ),
        ([members, shuffled]) => {
          for (const { id } of members) {
            // As text: cursors are kept for a share that reads the same as before.
            const text = JSON.stringify(sharesOf(id, members));
            expect(JSON.stringify(sharesOf(id, shuffled))).toBe(text);
          }
          expect(publishedOwners(shuffled)).toEqual(publishedOwners(members));
        },
      ),
      { numRuns: 30 },
    );
  });
});

describe('how a queue is divided', () => {
  test('workers that all run the same have one share each: their buckets of the ring', () => {
    const handles = { mail: 2, pay: 1 };
    const ids = ['a', 'b', 'c'];
    const owners = ringOwners(ids);
    for (const id of ids) {
      const members = ids.map((one) => member(one, handles));
      expect(sharesOf(id, members)).toEqual([
        {
          versions: handles,
          above: { mail: 0, pay: 0 },
          buckets: EVERY_BUCKET.filter((bucket) => owners[bucket] === id),
        },
      ]);
    }
  });

  test('the canary of a deploy has the jobs of the new version to itself, and its part of the rest', () => {
    const old = [member('a', { mail: 1, pay: 1 }), member('b', { mail: 1, pay: 1 })];
    const members = [...old, member('canary', { mail: 2, pay: 1 })];
    const owners = ringOwners(['a', 'b', 'canary']);
    expect(sharesOf('canary', members)).toEqual([
      {
        versions: { mail: 1, pay: 1 },
        above: { mail: 0, pay: 0 },
        buckets: EVERY_BUCKET.filter((bucket) => owners[bucket] === 'canary'),
      },
      { versions: { mail: 2 }, above: { mail: 1 }, buckets: EVERY_BUCKET },
    ]);
    expect(sharesOf('a', members)).toHaveLength(1);
  });

  test('the last old worker of a deploy keeps its part of the old version only', () => {
    const members = [
      member('old', { mail: 1 }),
      member('new1', { mail: 2 }),
      member('new2', { mail: 2 }),
    ];
    const [share, ...others] = sharesOf('old', members);
    expect(others).toEqual([]);
    expect(share).toMatchObject({ versions: { mail: 1 }, above: { mail: 0 } });
    expect(sharesOf('new1', members).map(({ above }) => above)).toEqual([{ mail: 0 }, { mail: 1 }]);
  });

  test('workers of different types do not take buckets from each other', () => {
    const members = [member('mailer', { mail: 1 }), member('payer', { pay: 1 })];
    expect(sharesOf('mailer', members)).toEqual([
      { versions: { mail: 1 }, above: { mail: 0 }, buckets: EVERY_BUCKET },
    ]);
  });

  test('a worker that is not in the list owns nothing, and neither does one that handles nothing', () => {
    const members = [member('a', { mail: 1 }), member('idle', {})];
    expect(sharesOf('stranger', members)).toEqual([]);
    expect(sharesOf('idle', members)).toEqual([]);
    expect(sharesOf('a', [])).toEqual([]);
  });

  test('a worker without a bucket, in a fleet of more workers than buckets, has no share', () => {
    const members = Array.from({ length: BUCKETS + 1 }, (_, n) => member(`host-${n}`, { mail: 1 }));
    const owners = new Set(ringOwners(members.map(({ id }) => id)));
    const without = members.filter(({ id }) => !owners.has(id));
    expect(without).toHaveLength(1);
    expect(sharesOf(without[0]!.id, members)).toEqual([]);
  });
});

describe('whom producers wake', () => {
  test('types that the same workers handle have one ring, of all that handle them', () => {
    const members = [member('a', { mail: 1, pay: 1 }), member('b', { mail: 2, pay: 1, scan: 1 })];
    expect(publishedOwners(members)).toEqual([
      { types: ['mail', 'pay'], owners: ringOwners(['a', 'b']) },
      { types: ['scan'], owners: ringOwners(['b']) },
    ]);
    expect(publishedOwners([])).toEqual([]);
  });

  test('it is the reader of the job, as long as producers write what every worker can run', () => {
    const members = [
      member('a', { mail: 1 }),
      member('b', { mail: 2 }),
      member('c', { mail: 3, pay: 1 }),
    ];
    const shares = sharesOfAll(members);
    for (const { types, owners } of publishedOwners(members)) {
      for (const type of types) {
        const readers = EVERY_BUCKET.map((bucket) =>
          readersOf(shares, { type, version: 1, bucket }),
        );
        expect(readers).toEqual(owners.map((owner) => [owner]));
      }
    }
  });
});
