/**
 * The ring: which worker owns which bucket. A pure function of the set of worker ids, so that all who see the same list
 * know the same owners. It is consistent hashing with bounded load: workers stand on a circle of 2^32 places at many
 * points, bucket b at b * 2^22, and the first point clockwise names the owner. A worker that got more than its cap keeps
 * the buckets nearest to its points; the others go on to the next worker that has room. When a worker joins or leaves, its
 * share moves and little else. The ring only says where a worker reads jobs; the row decides who gets them.
 */
import { BUCKETS, hash32 } from '../job/key.js';

const CIRCLE = 2 ** 32;
const SLOT = CIRCLE / BUCKETS;
/** Of each worker. With half of them the bound below is broken four times as often; with more, as rarely. */
const POINTS = 320;
/**
 * By how much the busiest may exceed the mean. At 1.2 a newcomer's share and the few buckets that move
 * between others stay together within 1.25 / (N + 1): a higher cap leaves no room for the latter, a lower
 * one is met more often and moves more of them. The bound is not proven: of 8,000 random fleets that grew
 * from 1 to 17 workers, two went a few buckets beyond it in one of their steps.
 */
const LOAD = 1.2;

/**
 * The owner of each of the 1024 buckets, or [] without workers. Another ring than the product's is there to be compared;
 * a load of Infinity: whoever comes first clockwise, however much it has.
 */
export function ringOwners(
  ids: readonly string[],
  { points = POINTS, load = LOAD }: { readonly points?: number; readonly load?: number } = {},
): readonly string[] {
  // Plain sort: by code units, the same in every process whatever its locale.
  const workers = [...new Set(ids)].sort();
  if (workers.length === 0) return [];
  const mean = BUCKETS / workers.length;
  const cap = Math.max(Math.ceil(mean), Math.floor(load * mean));
  return assign(circleOf(workers, points), workers.length, cap).map((worker) => workers[worker]!);
}

/** Where a bucket stands on the circle. */
export const positionOf = (bucket: number): number => bucket * SLOT;

/** How many buckets have another owner than before. */
export function movedBuckets(before: readonly string[], after: readonly string[]): number {
  let moved = 0;
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    if (before[bucket] !== after[bucket]) moved += 1;
  }
  return moved;
}

/** All points, clockwise. Two at the same place stand in the order of their workers' ids. */
interface Circle {
  readonly places: Float64Array;
  readonly workers: Int32Array;
}

function circleOf(ids: readonly string[], count: number): Circle {
  const points = new Float64Array(ids.length * count);
  for (const [worker, id] of ids.entries()) {
    const places = pointsOf(id, count);
    for (let n = 0; n < count; n++) {
      points[worker * count + n] = places[n]! * ids.length + worker;
    }
  }
  points.sort();
  const workers = new Int32Array(points.length);
  for (let n = 0; n < points.length; n++) {
    const point = points[n]!;
    workers[n] = point % ids.length;
    points[n] = Math.floor(point / ids.length);
  }
  return { places: points, workers };
}

/**
 * A worker's points, as even as chance allows: one in each of `count` equal arcs of the circle, and their distances from
 * the place of the bucket before them are `count` equal steps, each taken once: a point just after a bucket wins it nearly
 * always, and a distant one seldom. The shares of 17 workers have a standard deviation of 9 % of the mean this way, 11 to
 * 12 % with points thrown at random, so that caps are met less often. At random, one fleet in 60 would break the bound.
 */
function pointsOf(id: string, count: number): Float64Array {
  const draws = new Float64Array(count);
  for (let n = 0; n < count; n++) draws[n] = hash32(`${id}#${n}`) * count + n;
  // The order of the hashes says which arc gets which distance; their low bits say where in either.
  draws.sort();
  return draws.map((draw, step) => {
    const hash = Math.floor(draw / count);
    const inArc = (hash & 0xfff) / 0x1000;
    const inStep = ((hash >>> 12) & 0xfff) / 0x1000;
    const slot = Math.floor((((draw % count) + inArc) * BUCKETS) / count);
    return slot * SLOT + Math.floor(((step + inStep) * SLOT) / count);
  });
}

/** The number of the worker that owns each bucket. */
function assign({ places, workers }: Circle, workerCount: number, cap: number): number[] {
  const owned = new Int32Array(workerCount);
  const firstPoints: number[] = [];
  const owners: number[] = [];
  const byDistance = new Float64Array(BUCKETS);
  for (let bucket = 0, point = 0; bucket < BUCKETS; bucket++) {
    while (point < places.length && places[point]! < bucket * SLOT) point += 1;
    const beyond = point === places.length;
    const first = beyond ? 0 : point;
    const distance = places[first]! + (beyond ? CIRCLE : 0) - bucket * SLOT;
    const owner = workers[first]!;
    firstPoints.push(first);
    owners.push(owner);
    byDistance[bucket] = distance * BUCKETS + bucket;
    owned[owner]! += 1;
  }
  // Farthest first: those are what the next worker to join would most likely take in any case.
  const homeless: number[] = [];
  for (const entry of byDistance.sort().reverse()) {
    const bucket = entry % BUCKETS;
    const owner = owners[bucket]!;
    if (owned[owner]! <= cap) continue;
    owned[owner]! -= 1;
    homeless.push(bucket);
  }
  for (const bucket of homeless.sort((a, b) => a - b)) {
    let point = firstPoints[bucket]!;
    while (owned[workers[point]!]! >= cap) point = (point + 1) % places.length;
    owners[bucket] = workers[point]!;
    owned[workers[point]!]! += 1;
  }
  return owners;
}
