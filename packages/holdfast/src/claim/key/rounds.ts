/**
 * Rounds: which key is next where a type waits for tokens or permits. Pure.
 *
 * From the first refusal on, a type is claimed in rounds only, and no hint lets a key go first. A round goes from bucket to
 * bucket and from key to key, begins behind the key that got the last token, and after the last key comes the first. So
 * between two starts of a key this worker has asked for every other key that waits.
 *
 * A bucket without jobs of the type leaves the round when it has been read. When all have left, the type is claimed
 * like others.
 */
import { BUCKETS } from '../../job/key.js';
import type { KeyedClaim, KeyStretch } from './claim.js';
import { bucketsOf, rest, stretchesOf } from './stretches.js';

interface Round {
  /** They may have jobs of the type. */
  readonly buckets: Set<number>;
  /** The next claim begins behind this place; the key '' is the start of the bucket. */
  next: { readonly bucket: number; readonly key: string };
}

export class Rounds {
  readonly #random: () => number;
  readonly #rounds = new Map<string, Round>();

  constructor(random: () => number) {
    this.#random = random;
  }

  /** The types that are claimed in rounds. */
  get types(): string[] {
    return [...this.#rounds.keys()];
  }

  /** These buckets may have jobs of a type that is claimed in a round. */
  add(type: string, buckets: Iterable<number>): void {
    // Workers that start together should not all begin at the same bucket.
    const next = { bucket: Math.floor(this.#random() * BUCKETS), key: '' };
    const round = this.#rounds.get(type) ?? { buckets: new Set(), next };
    for (const bucket of buckets) round.buckets.add(bucket);
    if (round.buckets.size > 0) this.#rounds.set(type, round);
  }

  /** What the next claim of this type reads, all that waits. */
  stretchesOf(type: string): KeyStretch[] {
    const round = this.#rounds.get(type);
    const buckets = [...(round?.buckets ?? [])].sort((a, b) => a - b);
    const next = round?.next ?? { bucket: 0, key: '' };
    const [first, ...others] = stretchesOf(buckets.filter((bucket) => bucket >= next.bucket));
    const before = stretchesOf(buckets.filter((bucket) => bucket < next.bucket));
    if (first === undefined) return before;
    const afterKey = first.bucket === next.bucket ? next.key : '';
    return [{ ...first, afterKey }, ...others, ...before];
  }

  /** `types`: those of whose rounds the claim was. What other claims were refused begins a round. */
  record(types: readonly string[], stretches: readonly KeyStretch[], claim: KeyedClaim): void {
    const { jobs, heldBack, stop } = claim;
    if (types.length === 0 && heldBack.length === 0 && this.#rounds.size === 0) return;
    const unread = new Set(stop ? bucketsOf(rest(stretches, stop)) : []);
    const [first] = stretches;
    // Of this bucket the front was not read.
    if (first && first.afterKey !== '') unread.add(first.bucket);
    for (const type of types) {
      const round = this.#rounds.get(type);
      for (const bucket of round?.buckets ?? [])
        if (!unread.has(bucket)) round?.buckets.delete(bucket);
    }
    const refused = heldBack.flatMap(({ type, bucket }) => (type ? [{ type, bucket }] : []));
    for (const { type, bucket } of refused) this.add(type, [bucket]);
    for (const { type, partitionBucket } of jobs)
      if (this.#rounds.has(type)) this.add(type, [partitionBucket]);
    const next = nextOf(claim, refused.length > 0, first?.bucket ?? 0);
    for (const type of new Set([...types, ...refused.map((one) => one.type)])) {
      const round = this.#rounds.get(type);
      if (round && next) round.next = next;
      if (round?.buckets.size === 0) this.#rounds.delete(type);
    }
  }
}

/**
 * Behind the last key that got a token, or where the walk stopped, or else at the front of the bucket in which it began.
 * Null: as before, somebody else got them.
 */
function nextOf(claim: KeyedClaim, refused: boolean, begun: number): Round['next'] | null {
  const { stop, lastAllowed: last } = claim;
  if (!last) return refused ? null : (stop ?? { bucket: begun, key: '' });
  // The rest of a bucket that has no other key is not worth a claim.
  if (!last.shared && stop?.bucket !== last.bucket) return { bucket: last.bucket + 1, key: '' };
  return last;
}
