/**
 * Stretches of the order of keys: bucket by bucket, and in a bucket key by key, by the bytes of their UTF-8. A
 * walk is a list of those that are still to be read. Pure.
 */
import type { WalkStop } from '../source.js';
import type { KeyStretch } from './claim.js';

/** Neighbouring buckets as stretches; the buckets ascend. */
export function stretchesOf(buckets: readonly number[]): KeyStretch[] {
  const found: { bucket: number; afterKey: string; untilBucket: number; untilKey: string }[] = [];
  for (const bucket of buckets) {
    const last = found.at(-1);
    if (last && last.untilBucket === bucket) last.untilBucket = bucket + 1;
    else found.push({ bucket, afterKey: '', untilBucket: bucket + 1, untilKey: '' });
  }
  return found;
}

/** What is left of a walk that ended with this key. */
export function rest(stretches: readonly KeyStretch[], stop: WalkStop): KeyStretch[] {
  const [cut, ...others] = stretches.slice(stop.stretch);
  return cut ? [{ ...cut, bucket: stop.bucket, afterKey: stop.key }, ...others] : [];
}

/** Every bucket that a list of stretches touches. */
export function bucketsOf(stretches: readonly KeyStretch[]): number[] {
  return stretches.flatMap(({ bucket, untilBucket, untilKey }) => {
    const end = untilKey === '' ? untilBucket : untilBucket + 1;
    return Array.from({ length: end - bucket }, (_, n) => bucket + n);
  });
}

/** The buckets that a walk has read, at least in part. */
export function readOf(stretches: readonly KeyStretch[], stop: WalkStop | null): number[] {
  const left = new Set(stop ? bucketsOf(rest(stretches, stop)) : []);
  return bucketsOf(stretches).filter((bucket) => !left.has(bucket) || bucket === stop?.bucket);
}
