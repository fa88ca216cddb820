/**
 * What the next claim of a queue that is read by key reads: hinted buckets, or the next part of a walk.
 *
 * A walk goes through all keys, first those of the buckets that the ring gives to this worker. While walks bring plenty,
 * every key has its turn and hints are left for later. Otherwise hinted buckets are read at once if they are ours. Those of
 * others are read a moment later: by then their owner has taken what it can, and what is left is for whoever has a free
 * handler. So the ring is a preference, and never keeps a job waiting. A queue in which little stood is read as it lies, by
 * one claim; once that is full, a walk begins.
 *
 * Where keys take turns a walk is a round: while rounds bring plenty, no hint gives a key another turn in between.
 */
import { BUCKETS } from '../../job/key.js';
import { CHECK_MS } from '../pace.js';
import { ScanTimer } from '../scan-timer.js';
import type { KeyedClaim, KeyStretch } from './claim.js';
import { bucketsOf, rest, stretchesOf } from './stretches.js';

/** How long the owner of a bucket has for a hint before others follow it. */
const OWNER_FIRST_MS = CHECK_MS / 5;

/** Walks are no rarer than this where they cost little. What is due within this time is remembered. */
export const RARE_MS = 5 * CHECK_MS;

/**
 * One claim read the whole queue: few rows stand in it that this user may see. If that was dear, policies may hide the
 * rest, and nobody tells when they no longer do. So the next scan comes soon, at a fifth of the time at most.
 */
const rarestMs = (walkMs: number) => Math.max(RARE_MS, 4 * walkMs);

const EVERY_BUCKET = Array.from({ length: BUCKETS }, (_, bucket) => bucket);

/** From somewhere in the middle to the end, and then what stands before it. */
function turned<T>(list: readonly T[], share: number): T[] {
  const from = Math.floor(share * list.length);
  return [...list.slice(from), ...list.slice(0, from)];
}

export class KeyScanner {
  readonly #scan: ScanTimer;
  readonly #random: () => number;
  #owned: ReadonlySet<number> = new Set(EVERY_BUCKET);
  /** Keys take turns. */
  #turns = false;
  #hints = new Set<number>();
  /** Buckets to read at a time, the earliest of each; and the earliest of all. */
  readonly #later = new Map<number, number>();
  #laterAt = Number.POSITIVE_INFINITY;
  /** When the hinted buckets of others are read: all of a moment together. */
  #foreignAt = Number.NEGATIVE_INFINITY;
  readonly #hintedAt = new Map<number, number>();
  #allHintedAt = Number.NEGATIVE_INFINITY;
  /** From when on all are to be read, if that was asked for and no walk has begun since. */
  #askedAt = Number.POSITIVE_INFINITY;
  #walk: readonly KeyStretch[] = [];
  /** The last claim of the walk took all it was asked for. */
  #plenty = false;
  /** Of this walk: whether a claim did, whether one brought jobs, and how long those took that brought none. */
  #so = { plenty: false, brought: false, tookMs: 0 };
  /** The last walk was one claim that took less than it could. */
  #small = false;
  #taken: readonly KeyStretch[] = [];
  /** What was taken last is part of a walk, which comes again. */
  walking = false;
  /** What was taken last is all that there is to read, and not the rest of a walk. */
  readsAll = false;

  constructor(everyMs: number, random: () => number) {
    this.#scan = new ScanTimer(everyMs);
    this.#random = random;
  }

  /** A walk has more to read. */
  get goesOn(): boolean {
    return this.#walk.length > 0;
  }

  /** The buckets that the ring prefers this worker for. */
  own(buckets: readonly number[], turns = false): void {
    this.#owned = new Set(buckets);
    this.#turns = turns;
    this.later(null, Number.NEGATIVE_INFINITY);
  }

  /** Jobs were written to these buckets; null: jobs of any bucket came back. */
  hint(buckets: readonly number[] | null, now: number): void {
    if (buckets === null) this.later(null, now);
    for (const bucket of buckets ?? []) {
      this.#hintedAt.set(bucket, now);
      if (this.#owned.has(bucket)) this.#hints.add(bucket);
      else {
        if (this.#foreignAt <= now) this.#foreignAt = now + OWNER_FIRST_MS;
        this.later([bucket], this.#foreignAt);
      }
    }
  }

  /** Read these buckets at this time; null: all of them. What is due in one of them later is read then, or by a walk. */
  later(buckets: readonly number[] | null, at: number): void {
    if (buckets === null) {
      this.#allHintedAt = Math.max(this.#allHintedAt, at);
      this.#askedAt = Math.min(this.#askedAt, at);
      this.#scan.hasten(at);
    }
    for (const bucket of buckets ?? []) {
      this.#later.set(bucket, Math.min(at, this.#later.get(bucket) ?? at));
      this.#laterAt = Math.min(at, this.#laterAt);
    }
  }

  /**
   * A key of this bucket became free; `more`: something is known to stand behind. A hint that came after the claim
   * of the job was sent may be of one that the claim did not see.
   */
  freed(bucket: number, sentAt: number, more: boolean): void {
    const hintedAt = Math.max(this.#hintedAt.get(bucket) ?? sentAt - 1, this.#allHintedAt);
    if (more || hintedAt >= sentAt) this.#hints.add(bucket);
  }

  /** The next claim; none when there is nothing to read now. */
  take(now: number): readonly KeyStretch[] {
    if (now >= this.#laterAt) this.#bringForward(now);
    // A walk and hints alternate, unless the walk brings plenty.
    const walkable = this.#walk.length > 0 || this.#scan.due(now);
    const again = this.#turns && this.#so.plenty;
    this.walking = this.#plenty || this.#hints.size === 0 || (walkable && (!this.walking || again));
    this.readsAll = !this.walking || this.#walk.length === 0;
    const begins = this.walking && this.#walk.length === 0 && this.#scan.due(now);
    if (begins) {
      if (this.#askedAt <= now) this.#askedAt = Number.POSITIVE_INFINITY;
      this.#begin();
    }
    this.#taken = this.walking ? this.#walk : stretchesOf([...this.#hints].sort((a, b) => a - b));
    // A round reads all of them.
    if (!this.walking || (begins && this.#turns)) this.#hints.clear();
    return this.#taken;
  }

  record(
    { stop, wanted, jobs }: Pick<KeyedClaim, 'stop' | 'wanted' | 'jobs'>,
    limit: number,
    now: number,
    tookMs: number,
  ): void {
    const left = stop ? rest(this.#taken, stop) : [];
    const full = wanted >= limit;
    if (!this.walking) {
      // A bucket too large to be read at once is left to the walk; so is one of which others hold what stands in front.
      const again = full && jobs.length > 0 ? left : left.slice(1);
      for (const bucket of bucketsOf(again)) this.#hints.add(bucket);
      if (left.length > 0) this.#scan.hasten(now);
    } else {
      this.#walk = left;
      this.#plenty = full && left.length > 0;
      if (this.#plenty && this.#small) this.#begin(false);
      this.#so.plenty ||= full;
      // A claim that brought jobs was no overhead.
      if (jobs.length > 0) this.#so.brought = true;
      else this.#so.tookMs += tookMs;
      if (left.length === 0) this.#end(now);
    }
  }

  /** The claim failed: read the same again. */
  failed(): void {
    if (!this.walking) for (const bucket of bucketsOf(this.#taken)) this.#hints.add(bucket);
  }

  /** When there is something to read. */
  readAt(now: number, idle = false): number {
    if (this.#walk.length > 0 || this.#hints.size > 0) return now;
    // A scan that was asked for comes as soon as its share of the time allows.
    const scans = !idle || this.#askedAt < Number.POSITIVE_INFINITY;
    return Math.min(scans ? this.#scan.at : Number.POSITIVE_INFINITY, this.#laterAt);
  }

  /** What was to be read later and is due now becomes a hint. */
  #bringForward(now: number): void {
    this.#laterAt = Number.POSITIVE_INFINITY;
    for (const [bucket, at] of this.#later) {
      if (at > now) this.#laterAt = Math.min(at, this.#laterAt);
      else {
        this.#later.delete(bucket);
        this.#hints.add(bucket);
        this.#hintedAt.set(bucket, now);
      }
    }
  }

  /**
   * The ring cuts the buckets into hundreds of stretches, and each is a step of the claim, also an empty one. Workers that
   * start together should not all begin at the same bucket.
   */
  #begin(small = this.#small): void {
    this.#small = small;
    const share = this.#random();
    const [mine = [], others = []] = [true, false].map((ours) =>
      stretchesOf(EVERY_BUCKET.filter((bucket) => this.#owned.has(bucket) === ours)),
    );
    this.#walk = small
      ? stretchesOf(turned(EVERY_BUCKET, share))
      : [...turned(mine, share), ...others];
    this.#so = { plenty: false, brought: false, tookMs: 0 };
  }

  #end(now: number): void {
    const { plenty, brought } = this.#so;
    this.#small = this.readsAll && !plenty;
    // A round that brought plenty was no overhead, although its last claim may have found nothing.
    const tookMs = this.#turns && plenty && brought ? 0 : this.#so.tookMs;
    this.#scan.record(now, tookMs, this.readsAll ? rarestMs(tookMs) : undefined);
    // Asked for while this one was under way, which may have read there before.
    this.#scan.hasten(this.#askedAt);
    // There was plenty, and keys that were passed may be free by now.
    if (plenty) this.#scan.hasten(now);
  }
}
