/**
 * Order probes: where a worker reads next among jobs that wait for their key. Pure: the time comes as
 * an argument.
 *
 * A worker goes round its keys in a circle, bucket by bucket and key by key. Every claim reads on behind
 * the last key of the claim before, so keys take turns however long their lines are. A circle that found
 * plenty is followed by the next at once, and one that found something soon; while there is nothing, looks
 * back off to `pollMs`. A claim that took long for the jobs it found was for looking: it is followed by a
 * pause four times as long.
 *
 * Buckets that somebody hints at are read first, from their start; when claims come back full they take
 * turns with the circle. Keys with long lines are read on from the head that was last seen, so that what
 * was finished before is not walked over again. That cannot harm the order: what stood before a head is
 * gone for ever. Only a job that was committed late lies there, so it is forgotten once per `rewindMs`.
 */
import { BUCKETS } from '../job/key.js';
import type { OrderedClaim, OrderProbe } from './claim-ordered.js';
import {
  between,
  compare,
  endOf,
  type Place,
  type Range,
  ranges,
  skipping,
  startOf,
} from './order-places.js';
import type { ClaimedJob } from './taking.js';

const SOON_MS = 10;
/** A circle of many separate stretches costs more, and comes less soon. */
const SOON_MS_PER_STRETCH = 0.03;
/** Looking, beyond what the jobs are worth that it finds, takes at most a fifth of the time. */
const PAUSE = 4;
/** What a claim may take for each job before it counts as looking: about what a claim for it alone would. */
const LOOK_MS_PER_JOB = 1;
/** What it may take for each job, and beyond, before it counts as slow. */
const MS_PER_JOB = 0.2;
const SLOW_MS = 25;
const REWIND_MS = 1_000;
const RELAXED_MS = 30_000;
/** A circle that found what a claim asks for, and so many at least, is followed by the next at once. */
const PLENTY = 32;
/** A key that gives so many jobs in one claim has a long line. */
const LONG_RUN = 16;
const MAX_LONG = 64;
/** At most so many buckets are read first in one claim. */
const MAX_HINTED = 64;
const EVERY_BUCKET = Array.from({ length: BUCKETS }, (_, bucket) => bucket);
const NEVER = Number.NEGATIVE_INFINITY;

export interface OrderProbeOptions {
  /** The buckets that this worker reads, ascending. Default: all. */
  readonly buckets?: readonly number[];
  /** How often an idle worker looks. */
  readonly pollMs: number;
}

interface Taken {
  readonly hinted: readonly number[];
  /** How many of the probes are those of the hinted buckets; they come first. */
  readonly first: number;
  readonly count: number;
  /** Where the circle stands if all was read; null when the circle was not read. */
  readonly end: Place | null;
}

interface LongLine extends Place {
  readonly since: number;
}

export class OrderProbes {
  readonly #pollMs: number;
  /** New jobs will be hinted at, so that there is no need to look often. */
  asleep = false;
  #owned: readonly number[];
  #hints = new Set<number>();
  #long = new Map<string, LongLine>();
  /** How far the circle has come, and where it began. */
  #hand: Place;
  #goal: Place;
  #found = 0;
  /** Of these, what was not of hinted buckets. */
  #circled = 0;
  #nextAt = NEVER;
  #waitMs = SOON_MS;
  /** How many buckets of the circle one claim may read, and how often long lines are read whole. */
  #reach = BUCKETS;
  #rewindMs = REWIND_MS;
  #circleNext = false;
  #told = false;
  #taken: Taken | null = null;
  /** The quickest claim of late: the way to the server and back, which says nothing of the index. */
  #floorMs = Number.POSITIVE_INFINITY;

  constructor({ buckets = EVERY_BUCKET, pollMs }: OrderProbeOptions) {
    this.#pollMs = pollMs;
    this.#owned = buckets;
    // Workers that start together should not all begin at the same bucket.
    this.#hand = this.#goal = this.#anywhere();
  }

  /** The buckets have other owners now: what stays goes on, what is new is read at once. */
  own(buckets: readonly number[]): void {
    const before = new Set(this.#owned);
    const now = new Set(buckets);
    this.#owned = buckets;
    for (const bucket of this.#hints) if (!now.has(bucket)) this.#hints.delete(bucket);
    for (const [key, { bucket }] of this.#long) if (!now.has(bucket)) this.#long.delete(key);
    this.hint(buckets.filter((bucket) => !before.has(bucket)));
  }

  /** Somebody says that there is something in these buckets: read them, from their start, at once. */
  hint(buckets: readonly number[]): void {
    const owned = new Set(this.#owned);
    for (const bucket of buckets) if (owned.has(bucket)) this.#hints.add(bucket);
  }

  /** Look everywhere at the next claim: after a change of owners, or on a hint. */
  rewind(): void {
    this.#told = true;
    this.#lookNow();
  }

  /** The probes of the next claim. Empty when there is nothing to read now. */
  take(now: number): OrderProbe[] {
    this.#told = false;
    this.#taken = null;
    const due = now >= this.#nextAt;
    const hinted = due && this.#circleNext ? [] : [...this.#hints].slice(0, MAX_HINTED);
    if (this.#owned.length === 0 || (!due && hinted.length === 0)) return [];
    for (const bucket of hinted) this.#hints.delete(bucket);
    hinted.sort((a, b) => a - b);
    for (const [key, { since }] of this.#long)
      if (now - since >= this.#rewindMs) this.#long.delete(key);
    const first = this.#skipped(between(startOf(0), startOf(BUCKETS), ranges(hinted)));
    const circle = due ? this.#nextStretch(hinted, now) : null;
    const rest = this.#skipped(circle?.probes ?? []);
    const count = first.length + rest.length;
    this.#taken = { hinted, first: first.length, count, end: circle?.end ?? null };
    return [...first, ...rest];
  }

  #skipped(probes: readonly OrderProbe[]): OrderProbe[] {
    let all = [...probes];
    for (const place of this.#long.values()) all = skipping(all, place);
    return all;
  }

  /** Where the hand stands there may be nothing of ours: then it goes on, and no claim is needed for it. */
  #nextStretch(
    without: readonly number[],
    now: number,
  ): { probes: OrderProbe[]; end: Place } | null {
    for (;;) {
      const circle = this.#circle(without);
      if (circle.probes.length > 0) return circle;
      const closes = compare(circle.end, this.#goal) === 0;
      this.#hand = circle.end;
      if (!closes) continue;
      this.#nextAt = now + this.#closed(0, 0);
      return null;
    }
  }

  /** The rest of the circle, or as much of it as one claim may read. */
  #circle(without: readonly number[]): { probes: OrderProbe[]; end: Place } {
    const out = new Set(without);
    const within: Range[] = ranges(this.#owned.filter((bucket) => !out.has(bucket)));
    const [hand, goal] = [this.#hand, this.#goal];
    const top = startOf(BUCKETS);
    // Counted in buckets of ours: a worker of many owns few, far apart.
    const ahead = this.#owned.filter((bucket) => bucket >= hand.bucket);
    const far = startOf(ahead[this.#reach] ?? BUCKETS);
    if (compare(hand, goal) < 0) {
      const end = this.#reach < BUCKETS && compare(far, goal) < 0 ? far : goal;
      return { probes: between(hand, end, within), end };
    }
    if (this.#reach < BUCKETS) {
      return { probes: between(hand, far, within), end: compare(far, top) < 0 ? far : startOf(0) };
    }
    return {
      probes: [...between(hand, top, within), ...between(startOf(0), goal, within)],
      end: goal,
    };
  }

  /** What the claim of the last `take` returned, and how long it took. */
  learn(claim: OrderedClaim, limit: number, now: number, tookMs: number): void {
    const taken = this.#taken;
    if (!taken) return;
    const { jobs, stop, wanted } = claim;
    const full = wanted >= limit && jobs.length > 0;
    this.#found += jobs.length;
    const hinted = new Set(taken.hinted);
    this.#circled += jobs.filter((job) => !hinted.has(job.partitionBucket)).length;
    this.#sawRuns(jobs, now);
    // After a full claim that began with hints the circle comes first.
    this.#circleNext = full && taken.hinted.length > 0;
    const lookMs = this.#lookMs(jobs.length, tookMs);
    if (stop && stop.probe < taken.first) {
      // What was not read comes back; a bucket too large to be read at once is left to the circle.
      const from = full ? stop.bucket : stop.bucket + 1;
      for (const bucket of taken.hinted) if (bucket >= from) this.#hints.add(bucket);
      this.#nextAt = Math.min(this.#nextAt, now + lookMs);
    } else if (taken.end) {
      this.#hand = stop ? endOf(stop.bucket, stop.key) : taken.end;
      if (compare(this.#hand, this.#goal) === 0)
        this.#nextAt = now + this.#closed(taken.count, lookMs, Math.max(limit, PLENTY));
      else this.#nextAt = full ? now : now + lookMs;
      // Others read the same keys at the same time: go somewhere else.
      if (wanted >= limit && jobs.length * 2 < limit) this.#hand = this.#goal = this.#anywhere();
    }
    this.#pace(claim, tookMs);
    if (this.#told) this.#lookNow();
  }

  /** How many milliseconds until `take` has something to read, or 0. Infinite when nothing is owned. */
  idleMs(now: number): number {
    if (this.#owned.length === 0) return Number.POSITIVE_INFINITY;
    return this.#hints.size > 0 ? 0 : Math.max(0, this.#nextAt - now);
  }

  /** It found nothing for long, and nobody has told of anything. */
  get atRest(): boolean {
    return this.#waitMs >= this.#pollMs && this.#hints.size === 0 && !this.#told;
  }

  /** Another claim has seen that there are no ordered jobs at all. For a reader at rest that was its look. */
  sawNone(now: number): void {
    if (!this.atRest) return;
    this.#hand = this.#goal;
    this.#nextAt = now + this.#closed(0, 0);
  }

  /** A circle is closed: how long to wait for the next. After one with plenty, not at all. */
  #closed(stretches: number, lookMs: number, plenty = Number.POSITIVE_INFINITY): number {
    const enough = this.#circled >= plenty && !this.asleep;
    this.#circled = 0;
    if (enough) {
      this.#found = 0;
      this.#waitMs = SOON_MS;
      return lookMs;
    }
    const soonMs = Math.max(SOON_MS, stretches * SOON_MS_PER_STRETCH);
    const waitMs = this.#found > 0 && !this.asleep ? soonMs : this.#waitMs * 2;
    this.#waitMs = Math.min(waitMs, this.#pollMs);
    this.#found = 0;
    return Math.max(this.#waitMs, lookMs);
  }

  #lookNow(): void {
    this.#long.clear();
    this.#goal = this.#hand;
    this.#waitMs = SOON_MS;
    this.#nextAt = NEVER;
  }

  #lookMs(jobs: number, tookMs: number): number {
    const beyond = tookMs - Math.min(this.#floorMs, tookMs) - jobs * LOOK_MS_PER_JOB;
    return Math.max(0, beyond * PAUSE);
  }

  #sawRuns(jobs: readonly ClaimedJob[], now: number): void {
    let first = 0;
    for (let next = 1; next <= jobs.length; next++) {
      const head = jobs[first] as ClaimedJob;
      if (jobs[next]?.partitionKey === head.partitionKey) continue;
      if (next - first >= LONG_RUN) this.#sawLong(head, now);
      first = next;
    }
  }

  #sawLong(
    { partitionKey: key, partitionBucket: bucket, cursorPosition }: ClaimedJob,
    now: number,
  ) {
    const since = this.#long.get(key)?.since ?? now;
    this.#long.set(key, { bucket, key, position: cursorPosition - 1, since });
    const [oldest] = this.#long.keys();
    if (this.#long.size > MAX_LONG && oldest !== undefined) this.#long.delete(oldest);
  }

  /** Claims that turn out slow read less at a time, until they are quick again. */
  #pace({ jobs, stop }: OrderedClaim, tookMs: number): void {
    // The way may have become longer, but a claim that walked as far as it may says nothing of that.
    this.#floorMs = Math.min(tookMs, stop ? this.#floorMs : this.#floorMs * 1.01 + 0.1);
    const slow = tookMs - this.#floorMs > SLOW_MS + jobs.length * MS_PER_JOB;
    this.#reach = slow ? Math.max(1, this.#reach >> 1) : Math.min(this.#reach * 2, BUCKETS);
    this.#rewindMs = slow
      ? Math.min(this.#rewindMs * 2, RELAXED_MS)
      : Math.max(this.#rewindMs / 2, REWIND_MS);
  }

  #anywhere(): Place {
    return startOf(this.#owned[Math.floor(Math.random() * this.#owned.length)] ?? 0);
  }
}
