/**
 * When and where to read jobs of limited types: one reader for each limited type, and one for the others of a queue
 * that has a limit of its own.
 *
 * A claim says when there may be a token or a job that is due; between such times, a poll finds places that others
 * have freed. A job of a limited type that ends here frees a place, so what waits for one is read at once. All workers
 * that wait know the same next time, and one is enough: whoever comes in vain comes later and later, up to a bound,
 * until it finds something again.
 *
 * In a queue that is read by key each of them walks the keys for itself. A rate without a token says when there is one,
 * and until then nothing is read.
 */
import type { KeyedClaim } from '../../claim/claim-keyed.js';
import type { LimitedClaim } from '../../claim/claim-limited.js';
import type { LimitedTypes } from '../../fleet/registry.js';
import type { Ordering } from '../../job/order.js';
import type { LeasedJob } from '../run/leased-job.js';
import { jittered, PACE_MS, SOON_MS, type Time } from '../time.js';
import { LATEST_MS, laterThan } from './claim-schedule.js';
import { DueReader } from './due-reader.js';
import type { KeyReader } from './key-reader.js';

type Versions = Readonly<Record<string, number>>;

/** So often in a row others may hold the lock of a limit for too long before that is an error. */
const PATIENCE = 10;
const LOCK_TIMEOUT = '55P03';

export class LimitedGroup {
  /** Null: types that only the queue's limit holds for. */
  readonly ofType: string | null;
  readonly versions: Versions;
  readonly due = new DueReader();
  readonly keys: KeyReader;
  at = Number.NEGATIVE_INFINITY;
  #keyed = false;
  /** When a claim under it last brought a job. */
  tookAt = Number.NEGATIVE_INFINITY;
  #sentAt = Number.NEGATIVE_INFINITY;
  #lateMs = 0;
  /** Jobs were due and found no place or no token. */
  #waits = true;
  /** A place was freed since the claim in flight was sent, which may have counted before. */
  #freed = false;
  #lockedOut = 0;
  /** In a queue that is read by key: before, there is no token. */
  #tokenAt = Number.NEGATIVE_INFINITY;

  constructor(ofType: string | null, versions: Versions, keys: KeyReader) {
    this.ofType = ofType;
    this.versions = versions;
    this.keys = keys;
  }

  /** What its claims ask for, where the others ask for what is not limited. */
  get terms() {
    return { versions: this.versions, under: this.ofType ?? '' };
  }

  assign(ordering: Ordering, buckets: readonly number[]): void {
    this.#keyed = ordering !== 'none';
    this.keys.own(buckets, ordering === 'turns');
    if (this.#keyed) this.#readFrom(Number.NEGATIVE_INFINITY);
  }

  sent(now: number): void {
    this.#sentAt = now;
    this.#freed = false;
    this.at = Number.POSITIVE_INFINITY;
  }

  /** Jobs were written; see `ClaimReader.hint`. */
  hint(since: Date | null, buckets: readonly number[] | null, now: number): void {
    if (this.#keyed) {
      this.keys.hint(buckets, now);
      this.#readKeys(now);
    } else {
      this.due.hint(since, now);
      this.#readFrom(now);
    }
  }

  /** Something is due at this time, in these buckets if that is known. */
  later(buckets: readonly number[] | null, at: number): void {
    if (this.#keyed) this.keys.later(buckets, at);
    this.#readFrom(at);
  }

  /** A job has left this worker. `freesKey`: the next one of its key may run. */
  left({ row, how, claim }: LeasedJob, freesKey: boolean, now: number): void {
    if (claim.limited) this.#free(now);
    if (freesKey) {
      this.keys.freed(row.partitionBucket, claim.sentAt, true);
      // Keys that jobs of other types have freed are read together.
      this.#readFrom(claim.limited ? now : now + SOON_MS);
    } else if (!this.#keyed && how === 'released' && row.type in this.versions) {
      this.due.returned(row);
      this.#readFrom(now);
    }
  }

  /** A place is free, if anybody waits for one. */
  #free(now: number): void {
    this.#freed = true;
    if (this.#waits) this.at = Math.min(this.at, Math.max(now, this.#tokenAt));
  }

  #readFrom(at: number): void {
    this.at = Math.min(this.at, Math.max(at, this.#sentAt + PACE_MS, this.#tokenAt));
  }

  /** Its keys are to be read when their reader says so. */
  #readKeys(now: number): void {
    this.#readFrom(Math.max(now, this.keys.readAt(now)));
  }

  /** The claim failed. True: others held the lock of the limit for too long, as they may for a while. */
  failed(error: unknown, pollMs: number, time: Time): boolean {
    const busy =
      (error as { code?: unknown }).code === LOCK_TIMEOUT && ++this.#lockedOut < PATIENCE;
    this.#readFrom(time.now() + jittered(busy ? LATEST_MS : pollMs, time));
    return busy;
  }

  record(claim: LimitedClaim, asked: number, pollMs: number, time: Time): void {
    const now = time.now();
    this.#lockedOut = 0;
    const { jobs, left, againMs, seenUntil } = claim;
    this.due.record(
      { jobs: left ? [{ ...left, cursorPosition: left.cursorPosition - 1 }] : [], seenUntil },
      left ? 1 : Number.POSITIVE_INFINITY,
      now,
      now - this.#sentAt,
    );
    this.#waits = claim.waits;
    if (jobs.length > 0) [this.#lateMs, this.tookAt] = [0, now];
    else if (this.#waits || claim.throttled === 0) this.#lateMs = laterThan(this.#lateMs);
    if (claim.more || jobs.length >= asked || (this.#waits && this.#freed)) this.#readFrom(now);
    else {
      if (againMs !== null) this.#readFrom(now + Math.max(1, againMs) + this.#lateMs);
      this.#readFrom(now + jittered(pollMs, time));
    }
  }

  /** A claim of its keys that asked for so many; null: there was nothing to read. */
  recordKeys(claim: KeyedClaim | null, asked: number, pollMs: number, time: Time): void {
    const now = time.now();
    this.#lockedOut = 0;
    if (claim && claim.jobs.length > 0) this.tookAt = now;
    this.#waits = claim !== null && claim.wanted >= claim.allowed;
    if (!claim || !this.#waits) {
      this.#lateMs = 0;
      this.#readKeys(now);
      return;
    }
    // All that may start was there, so more may wait: for a token, for a place, or only for a handler.
    this.#lateMs = claim.jobs.length > 0 ? 0 : laterThan(this.#lateMs);
    if (claim.againMs !== null) this.#tokenAt = now + Math.max(1, claim.againMs) + this.#lateMs;
    const places = claim.againMs === null && claim.allowed < asked;
    if (places && !this.#freed) this.#readFrom(now + jittered(pollMs, time));
    else this.#readKeys(now);
  }
}

export class LimitedReader {
  readonly #handled: Versions;
  readonly #makeKeys: () => KeyReader;
  #assigned: [Ordering, readonly number[]] = ['none', []];
  /** What has no limit, and is read by ordinary claims. */
  unlimited: Versions;
  /** Of the limits; undefined before it is known. */
  version: number | undefined;
  #groups: readonly LimitedGroup[] = [];

  constructor(handled: Versions, makeKeys: () => KeyReader) {
    this.#handled = handled;
    this.unlimited = handled;
    this.#makeKeys = makeKeys;
  }

  /** Whoever took jobs longest ago comes first: one with a long backlog would leave no handler to the others. */
  get groups(): readonly LimitedGroup[] {
    return this.#groups.toSorted((a, b) => a.tookAt - b.tookAt);
  }

  /** When one of them is to be read. */
  get at(): number {
    return this.#groups.reduce((at, group) => Math.min(at, group.at), Number.POSITIVE_INFINITY);
  }

  /** True: what is limited, or how, has changed. */
  use({ version, types, whole }: LimitedTypes): boolean {
    if (version === this.version) return false;
    this.version = version;
    const own = Object.keys(this.#handled).filter((type) => types.includes(type));
    const others = Object.keys(this.#handled).filter((type) => !types.includes(type));
    const only = (kept: readonly string[]): Versions =>
      Object.fromEntries(kept.map((type) => [type, this.#handled[type] as number]));
    this.unlimited = only(whole ? [] : others);
    const group = (type: string | null, of: readonly string[]) =>
      new LimitedGroup(type, only(of), this.#makeKeys());
    this.#groups = [
      ...own.map((type) => group(type, [type])),
      ...(whole && others.length > 0 ? [group(null, others)] : []),
    ];
    this.assign(...this.#assigned);
    return true;
  }

  /** How the queue is read, and the buckets that the ring prefers this worker for. */
  assign(ordering: Ordering, buckets: readonly number[]): void {
    this.#assigned = [ordering, buckets];
    for (const group of this.#groups) group.assign(ordering, buckets);
  }
}
