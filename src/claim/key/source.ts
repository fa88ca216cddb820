/**
 * The source of a queue that is read by key, in order or in turns. Which buckets and keys the next claim reads is decided in
 * key-scanner.ts; the two orderings differ in their statement only.
 *
 * A job that no limit allows holds its key where it stands. Its bucket is read again when its key has a token or, if all of
 * its type wait, when the type is open. A closed type is not asked for; buckets that were read meanwhile may have jobs of it.
 */
import { BUCKETS } from '../../job/key.js';
import { PACE_MS } from '../pace.js';
import type { ClaimMarks, Found, Hint, LeftJob, Source, SourceDeps } from '../source.js';
import type { ClaimTerms, Versions } from '../take.js';
import { claimTurns } from '../turns/claim.js';
import { claimKeyed, type KeyedClaim, type KeyStretch } from './claim.js';
import { KeyScanner, RARE_MS } from './key-scanner.js';
import { bucketsOf } from './stretches.js';

export class KeySource implements Source {
  readonly #deps: SourceDeps;
  readonly #keys: KeyScanner;
  readonly #turns: boolean;
  /** By closed type, buckets that may have jobs of it. */
  readonly #waiting = new Map<string, Set<number>>();
  /** A claim asks for no more: jobs that no limit allows are found and locked for nothing. */
  #most = Number.POSITIVE_INFINITY;
  /** Buckets that got a job of a limited type while others were refused: the others go first next time. */
  readonly #served = new Set<number>();
  /** So many of those are read when a type is open: each time others, so that no key has all tokens. */
  #part = 1;

  constructor(deps: SourceDeps, turns: boolean) {
    this.#deps = deps;
    this.#turns = turns;
    this.#keys = new KeyScanner(deps.pollMs, deps.clock.random);
  }

  /** The buckets that the ring prefers this worker for. */
  own(buckets: readonly number[]): void {
    this.#keys.own(buckets, this.#turns);
  }

  hint({ buckets }: Hint): void {
    this.#keys.hint(buckets, this.#deps.clock.now());
  }

  later(buckets: readonly number[] | null, at: number): void {
    this.#keys.later(buckets, at);
  }

  left({ row, freesKey, hasMore, sentAt }: LeftJob): boolean {
    if (!freesKey) return false;
    this.#keys.freed(row.partitionBucket, sentAt, hasMore);
    return this.#keys.readAt(0) === 0;
  }

  readAt(now: number, idle: boolean): number {
    let at = this.#keys.readAt(now, idle);
    for (const type of this.#waiting.keys())
      at = Math.min(at, this.#deps.allowance.opensAtOf(type));
    return at;
  }

  async read(limit: number, ask: boolean): Promise<Found> {
    const { clock, allowance, versions } = this.#deps;
    const now = clock.now();
    this.#askAgain(now);
    const stretches = this.#keys.take(now);
    if (stretches.length === 0) return { jobs: 0, waitedMs: 0, news: null };
    const open = Object.entries(versions).filter(([type]) => allowance.isOpen(type));
    const buckets = bucketsOf(stretches);
    if (!this.#keys.walking)
      for (const type of Object.keys(versions))
        if (!allowance.isOpen(type)) for (const bucket of buckets) this.#waits(type, bucket);
    if (open.length === 0 && !ask) {
      this.#keys.record({ stop: null, wanted: 0, jobs: [] }, limit, now, 0);
      return { jobs: 0, waitedMs: 0, goesOn: this.#keys.goesOn, news: null };
    }
    const claimed = await this.#claim(limit, Object.fromEntries(open), stretches, ask);
    const { jobs, refused, news, wanted } = claimed;
    allowance.record(jobs, refused);
    this.#adapt(claimed);
    const found = Math.max(jobs.length, Math.min(wanted, limit - 1));
    return { jobs: found, waitedMs: 0, goesOn: this.#keys.goesOn, news };
  }

  /** Claims as much as limits let through, and lets those go first that were refused. */
  #adapt({ jobs, refused, heldBack }: KeyedClaim): void {
    if (heldBack.length > 0) {
      this.#most = 2 * jobs.length + 2;
      this.#part = 1;
    } else if (jobs.length > 0) {
      this.#most = 2 * this.#most;
      this.#part = Math.min(2 * this.#part, BUCKETS);
    }
    if (this.#waiting.size === 0) this.#served.clear();
    for (const { bucket } of heldBack) this.#served.delete(bucket);
    for (const { type, partitionBucket } of jobs)
      if (type in refused) this.#served.add(partitionBucket);
  }

  #waits(type: string, bucket: number): void {
    this.#waiting.set(type, (this.#waiting.get(type) ?? new Set()).add(bucket));
  }

  /** There may be a token or a permit: what waits for one is read. */
  #askAgain(now: number): void {
    for (const [type, buckets] of this.#waiting) {
      if (!this.#deps.allowance.isOpen(type)) continue;
      const next = [...buckets].slice(0, this.#part);
      this.#keys.later(next, now);
      for (const bucket of next) buckets.delete(bucket);
      if (buckets.size === 0) this.#waiting.delete(type);
    }
  }

  async #claim(room: number, versions: Versions, stretches: readonly KeyStretch[], ask: boolean) {
    const { clock, send } = this.#deps;
    const limit = Math.min(room, this.#most);
    const sentAt = clock.now();
    try {
      const claimed = await send(limit, async (terms) => {
        const found = await this.#send({ ...terms, versions }, stretches, ask);
        this.#keys.record(found, limit, clock.now(), clock.now() - sentAt);
        return found;
      });
      const now = clock.now();
      // Heads that wait for their time, or for a token, are read again then.
      for (const { inMs, bucket, type } of [...claimed.due, ...claimed.heldBack]) {
        if (type !== undefined) this.#waits(type, bucket);
        else this.#keys.later([bucket], now + inMs + 1);
      }
      return claimed;
    } catch (error) {
      this.#keys.failed();
      throw error;
    }
  }

  async #send(
    terms: ClaimTerms & { readonly versions: Versions },
    stretches: readonly KeyStretch[],
    ask: boolean,
  ): Promise<KeyedClaim & ClaimMarks> {
    const { engine, names, clock, pollMs } = this.#deps;
    // What becomes due until the next walk, however rare walks are.
    const soonMs = Math.max(RARE_MS, 3 * pollMs);
    const asked = { ...terms, stretches, ask, soonMs, served: [...this.#served] };
    if (!this.#turns) {
      const run = Math.min(terms.limit, this.#deps.run());
      return { ...(await claimKeyed(engine, names, { ...asked, run })), run };
    }
    const claimed = await claimTurns(engine, names, { ...asked, again: this.#keys.readsAll });
    // Another worker was claiming from these; a claim takes about as long.
    this.#keys.later(claimed.busy, clock.now() + PACE_MS);
    if (claimed.missed) this.#keys.later(null, clock.now() + PACE_MS);
    return claimed;
  }
}
