/**
 * When and where to read jobs of limited types: one reader for each limited type, and one for the others of a queue
 * that has a limit of its own.
 *
 * A claim says when there may be a token or a job that is due; between such times, a poll finds places that others
 * have freed. A job of a limited type that ends here frees a place, so what waits for one is read at once. All workers
 * that wait know the same next time, and one is enough: whoever comes in vain comes later and later, up to a bound,
 * until it finds something again.
 */
import type { LimitedClaim } from '../../claim/claim-limited.js';
import type { ClaimedJob } from '../../claim/taking.js';
import type { LimitedTypes } from '../../fleet/limited.js';
import { jittered, type Time } from '../time.js';
import { DueReader } from './due-reader.js';

type Versions = Readonly<Record<string, number>>;

/** Claims of one limit come no closer together. */
const PACE_MS = 4;
const LATEST_MS = 40;
/** So often in a row others may hold the lock of a limit for too long before that is an error. */
const PATIENCE = 10;
const AGAIN_MS = 100;
const LOCK_TIMEOUT = '55P03';

export class LimitedGroup {
  /** Null: types that only the queue's limit holds for. */
  readonly ofType: string | null;
  readonly versions: Versions;
  readonly due = new DueReader();
  at = Number.NEGATIVE_INFINITY;
  #sentAt = Number.NEGATIVE_INFINITY;
  #lateMs = 0;
  /** Jobs were due and found no place or no token. */
  #waits = true;
  #lockedOut = 0;

  constructor(ofType: string | null, versions: Versions) {
    this.ofType = ofType;
    this.versions = versions;
  }

  sent(now: number): void {
    this.#sentAt = now;
    this.at = Number.POSITIVE_INFINITY;
  }

  /** Something may be due at this time. */
  readFrom(at: number): void {
    this.at = Math.min(this.at, Math.max(at, this.#sentAt + PACE_MS));
  }

  /** A place is free, if anybody waits for one. */
  freed(now: number): void {
    if (this.#waits) this.at = Math.min(this.at, now);
  }

  /** The claim failed. True: others held the lock of the limit for too long, as they may for a while. */
  failed(error: unknown, pollMs: number, time: Time): boolean {
    const busy =
      (error as { code?: unknown }).code === LOCK_TIMEOUT && ++this.#lockedOut < PATIENCE;
    this.readFrom(time.now() + jittered(busy ? AGAIN_MS : pollMs, time));
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
    this.#waits = left !== null || claim.waits;
    if (jobs.length > 0) this.#lateMs = 0;
    else if (this.#waits || claim.throttled === 0)
      this.#lateMs = Math.min(Math.max(1, 2 * this.#lateMs), LATEST_MS);
    if (claim.more || jobs.length >= asked) this.readFrom(now);
    else {
      if (againMs !== null) this.readFrom(now + Math.max(1, againMs) + this.#lateMs);
      this.readFrom(now + jittered(pollMs, time));
    }
  }
}

export class LimitedReader {
  readonly #handled: Versions;
  #groups: readonly LimitedGroup[] = [];
  #versions: Versions;
  #version: number | undefined;

  constructor(handled: Versions) {
    this.#handled = handled;
    this.#versions = handled;
  }

  /** What has no limit, and is read by ordinary claims. */
  get unlimited(): Versions {
    return this.#versions;
  }

  /** Undefined before it is known. */
  get version(): number | undefined {
    return this.#version;
  }

  get groups(): readonly LimitedGroup[] {
    return this.#groups;
  }

  /** When one of them is to be read. */
  get at(): number {
    return this.#groups.reduce((at, group) => Math.min(at, group.at), Number.POSITIVE_INFINITY);
  }

  /** True: what is limited, or how, has changed. */
  use({ version, types, whole }: LimitedTypes): boolean {
    if (version === this.#version) return false;
    this.#version = version;
    const own = Object.keys(this.#handled).filter((type) => types.includes(type));
    const others = Object.keys(this.#handled).filter((type) => !types.includes(type));
    const only = (kept: readonly string[]): Versions =>
      Object.fromEntries(kept.map((type) => [type, this.#handled[type] as number]));
    this.#versions = only(whole ? [] : others);
    this.#groups = [
      ...own.map((type) => new LimitedGroup(type, only([type]))),
      ...(whole && others.length > 0 ? [new LimitedGroup(null, only(others))] : []),
    ];
    return true;
  }

  /** Jobs were written that are due since this time; null: of any age. */
  hint(since: Date | null, now: number): void {
    for (const group of this.#groups) {
      group.due.hint(since, now);
      group.readFrom(now);
    }
  }

  readFrom(at: number): void {
    for (const group of this.#groups) group.readFrom(at);
  }

  /** A job of a limited type has left this worker. */
  left(row: ClaimedJob, released: boolean, now: number): void {
    for (const group of this.#groups) {
      if (released && row.type in group.versions) {
        group.due.returned(row);
        group.readFrom(now);
      }
      group.freed(now);
    }
  }
}
