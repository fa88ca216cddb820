/**
 * Places in the order of keys: bucket by bucket, and in a bucket key by key, by the bytes of their UTF-8.
 * A place says up to where something was read; a stretch is what lies between two places, and becomes
 * a probe of the ordered claim. Pure.
 */
import { AFTER_KEY, type OrderProbe } from './claim-ordered.js';

/** Everything before it is behind; of its key, what has a greater position is still ahead. */
export interface Place {
  readonly bucket: number;
  readonly key: string;
  readonly position: number;
}

export interface Range {
  readonly from: number;
  readonly to: number;
}

export const startOf = (bucket: number): Place => ({ bucket, key: '', position: -1 });
export const endOf = (bucket: number, key: string): Place => ({ bucket, key, position: AFTER_KEY });

/** As Postgres compares them with COLLATE "C", which is not how JavaScript compares beyond U+FFFF. */
function compareKeys(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b));
}

export function compare(a: Place, b: Place): number {
  return a.bucket - b.bucket || compareKeys(a.key, b.key) || a.position - b.position;
}

/** Neighbouring buckets as ranges; the buckets ascend. */
export function ranges(buckets: readonly number[]): Range[] {
  const found: { from: number; to: number }[] = [];
  for (const bucket of buckets) {
    const last = found.at(-1);
    if (last && last.to === bucket - 1) last.to = bucket;
    else found.push({ from: bucket, to: bucket });
  }
  return found;
}

/** No text lies between a key and this one. */
const successor = (key: string) => `${key}\u0001`;

/** What to read from one place to another, as far as it lies in the ranges. */
export function between(from: Place, to: Place, within: readonly Range[]): OrderProbe[] {
  const probes: OrderProbe[] = [];
  for (const range of within) {
    const start = range.from > from.bucket ? startOf(range.from) : from;
    const end = range.to < to.bucket ? startOf(range.to + 1) : to;
    if (start.bucket > range.to || compare(start, end) >= 0) continue;
    probes.push({
      bucket: start.bucket,
      afterKey: start.key,
      afterPosition: start.position,
      untilBucket: end.bucket,
      untilKey: end.position === AFTER_KEY ? successor(end.key) : end.key,
    });
  }
  return probes;
}

/** The same, with the place named read on from there and not from the start of its key. */
export function skipping(probes: readonly OrderProbe[], place: Place): OrderProbe[] {
  return probes.flatMap((probe) => {
    const from = { bucket: probe.bucket, key: probe.afterKey, position: probe.afterPosition };
    const until = { bucket: probe.untilBucket, key: probe.untilKey, position: -1 };
    const key = { ...place, position: -1 };
    if (compare(from, key) > 0 || compare(until, endOf(place.bucket, place.key)) <= 0)
      return [probe];
    const before = { ...probe, untilBucket: place.bucket, untilKey: place.key };
    const after = {
      ...probe,
      bucket: place.bucket,
      afterKey: place.key,
      afterPosition: place.position,
    };
    return compare(from, key) < 0 ? [before, after] : [after];
  });
}
