/**
 * Walks over the keys of rates, as one worker remembers them. A type whose rate has keys is walked when a hint names it,
 * when a key has a token, and at every scan from the front; a walk that is not at its end goes on with the next claim. Jobs
 * with keys may be left of a rate that has none any more, so now and then every type is walked. What comes behind a walk while
 * it is under way is found by another one, which follows at once.
 */
import { FEW_READ, MOST_READ } from '../pace.js';
import { newestOf, type Versions } from '../take.js';
import type { RatedClaim, RateWalk } from './rated.js';

/** Of so many scans one walks every type. */
const RARELY = 10;

type Open = (type: string) => boolean;

export class RateWalks {
  readonly #versions: Versions;
  /** Types whose rate has keys, or of which jobs with keys were seen. */
  readonly #keyed = new Set<string>();
  /** By type, the key behind which the walk goes on. */
  readonly #after = new Map<string, string>();
  /** Types that are walked once more when their walk has come to the end. */
  readonly #again = new Set<string>();
  #taken: readonly RateWalk[] = [];
  /** So many keys have one job that may start. */
  #keysPerJob = 1;
  #keys = FEW_READ;
  #scans = 0;
  /** When a key that was walked has a token. */
  #at = Number.POSITIVE_INFINITY;

  constructor(versions: Versions) {
    this.#versions = versions;
  }

  /** These types have rates with keys. */
  use(types: readonly string[]): void {
    for (const type of types) if (type in this.#versions) this.#keyed.add(type);
  }

  hint(types: readonly string[] | null): void {
    for (const type of this.#keyed) if (types === null || types.includes(type)) this.#begin(type);
  }

  #begin(type: string): void {
    if (this.#after.has(type)) this.#again.add(type);
    else this.#after.set(type, '');
  }

  /** Walks of types that `open` does not let through wait until it does. */
  readAt(now: number, open: Open): number {
    return [...this.#after.keys()].some(open) ? now : this.#at;
  }

  /** A job becomes due at this time, and may have a key. */
  due(at: number): void {
    if (this.#keyed.size > 0) this.#at = Math.min(this.#at, at);
  }

  /** A walk is under way. */
  goesOn(open: Open): boolean {
    return [...this.#after].some(([type, key]) => key !== '' && open(type));
  }

  take(now: number, limit: number, open: Open, scanning: boolean) {
    if (now >= this.#at) {
      this.#at = Number.POSITIVE_INFINITY;
      for (const type of this.#keyed) this.#begin(type);
    }
    const all = scanning && this.#scans++ % RARELY === 0;
    const scanned = all ? Object.keys(this.#versions) : scanning ? this.#keyed : [];
    for (const type of scanned) if (!this.#after.has(type)) this.#begin(type);
    this.#taken = [...this.#after]
      .filter(([type]) => open(type))
      .map(([type, afterKey]) => ({
        type,
        afterKey,
        version: newestOf(this.#versions[type] ?? 1),
      }));
    for (const { type, afterKey } of this.#taken) if (afterKey === '') this.#again.delete(type);
    const wanted = Math.ceil(limit * this.#keysPerJob);
    this.#keys = Math.min(Math.max(wanted, FEW_READ), MOST_READ);
    return { walks: this.#taken, keys: this.#keys };
  }

  record(claim: RatedClaim, limit: number, now: number): void {
    const { found, walked, walkMs, refused } = claim;
    if (this.#taken.length === 0) return;
    const isLong = Object.values(walked).some((key) => key !== '');
    this.#keysPerJob = isLong ? this.#keys / Math.max(found, 1) : 1;
    if (walkMs !== null) this.#at = Math.min(this.#at, now + Math.max(1, walkMs));
    for (const { type } of this.#taken) {
      const last = walked[type];
      if (last !== undefined) this.#keyed.add(type);
      // While there is that much, no hints come.
      if (found >= limit) this.#again.add(type);
      if (type in refused) continue;
      // Also where it found more than it could take: else the keys behind would wait for as long as that is so.
      if (last) this.#after.set(type, last);
      else if (this.#again.delete(type)) this.#after.set(type, '');
      else this.#after.delete(type);
    }
  }
}
