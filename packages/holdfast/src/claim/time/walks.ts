/**
 * Walks over the keys of rates, as one worker remembers them. A type whose rate has keys is walked when a hint names it,
 * when a key has a token, and at every scan from the front; a walk that is not at its end goes on with the next claim. Jobs
 * with keys may be left of a rate that has none any more, so now and then every type is walked.
 */
import { FEW_READ, MOST_READ } from '../pace.js';
import type { Versions } from '../take.js';
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
  #taken: readonly RateWalk[] = [];
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
    if (!this.#after.has(type)) this.#after.set(type, '');
  }

  /** Walks of types that `open` does not let through wait until it does. */
  readAt(now: number, open: Open): number {
    return [...this.#after.keys()].some(open) ? now : this.#at;
  }

  /** A walk is under way. */
  goesOn(open: Open): boolean {
    return [...this.#after].some(([type, key]) => key !== '' && open(type));
  }

  take(now: number, open: Open, scanning: boolean) {
    if (now >= this.#at) {
      this.#at = Number.POSITIVE_INFINITY;
      for (const type of this.#keyed) this.#begin(type);
    }
    const all = scanning && this.#scans++ % RARELY === 0;
    const scanned = all ? Object.keys(this.#versions) : scanning ? this.#keyed : [];
    for (const type of scanned) this.#begin(type);
    this.#taken = [...this.#after]
      .filter(([type]) => open(type))
      .map(([type, afterKey]) => ({ type, afterKey, version: this.#versions[type] ?? 1 }));
    return { walks: this.#taken, keys: this.#keys };
  }

  record(claim: RatedClaim, limit: number, now: number): void {
    const { found, foundKeys, walked, walkMs } = claim;
    if (this.#taken.length === 0) return;
    // As many as had what was wanted; more and more while they have less.
    const isLong = Object.values(walked).some((key) => key !== '');
    const keys = found >= limit ? Math.ceil(1.25 * foundKeys) : isLong ? 2 * this.#keys : 0;
    this.#keys = Math.min(Math.max(keys, FEW_READ), MOST_READ);
    if (walkMs !== null) this.#at = Math.min(this.#at, now + Math.max(1, walkMs));
    for (const { type } of this.#taken) {
      const last = walked[type];
      if (last !== undefined) this.#keyed.add(type);
      // Of the keys that it read some may be left.
      if (found >= limit) continue;
      if (last === undefined || last === '') this.#after.delete(type);
      else this.#after.set(type, last);
    }
  }
}
