/**
 * Sources: where the next claim of a queue reads.
 *
 * A source is a share of the queue: some types, the buckets of them that this worker owns, and the
 * cursors of what it has read there. Nearly always there is one for jobs without order and, if the queue
 * has ordered jobs, one for those; a fleet whose workers handle different types has more. Sources take
 * turns, and a source that has nothing to read before its next look is passed over. While there are no
 * ordered jobs at all, the look among the others says so, and is the only one that an idle worker makes.
 */
import { type Claimed, claim, type QueueNews } from '../claim/claim.js';
import { claimBeside } from '../claim/claim-beside.js';
import { claimOrdered } from '../claim/claim-ordered.js';
import { LongLines } from '../claim/long-lines.js';
import { OrderProbes } from '../claim/order-probes.js';
import { Probes } from '../claim/probes.js';
import type { Share } from '../fleet/shares.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';

const CURSOR_LAG_MS = 2_000;
/** A claim that brought so many jobs was not the last of its kind. */
const MANY = 100;
/** How often, at most, a claim asks for more than jobs, and which part of the time that may take. */
const NEWS_MS = 500;
const NEWS_SHARE = 0.05;
/** After a claim without locks that somebody kept waiting, or a death, claims take locks for so long. */
const LOCKING_MS = 60_000;

/** What every claim of this worker has in common. */
export interface ClaimTerms {
  readonly engine: Executor;
  readonly names: Names;
  readonly workerId: string;
  readonly leaseMs: number;
  readonly deadWorkers: readonly string[];
  readonly limit: number;
  /** At most so many jobs of one key in a claim of ordered jobs, and of which types more than one. */
  readonly run: number;
  readonly trusted: readonly string[];
}

type Terms = ClaimTerms & { readonly news: boolean; readonly alone: boolean };

interface Reader {
  own(buckets: readonly number[]): void;
  hint(buckets: readonly number[]): void;
  rewind(): void;
  idleMs(now: number): number;
  asleep: boolean;
}

export interface ClaimedHere extends Claimed {
  readonly ordered: boolean;
  readonly news?: QueueNews | null;
  readonly lockedOut?: boolean;
}

interface Source {
  readonly share: Share;
  readonly ordered: boolean;
  readonly reader: Reader;
  readonly lines: LongLines | null;
  /** Ordered jobs that it has looked for in vain until it looks as rarely as it may. */
  readonly atRest: () => boolean;
  /** There are no ordered jobs at all. */
  readonly sawNone: (now: number) => void;
  /** Null when there is nothing to read now. */
  claim(terms: Terms): Promise<ClaimedHere> | null;
  /** What stands behind the long line of another key; null when there is none, or not now. */
  claimBeside(terms: ClaimTerms): Promise<ClaimedHere> | null;
}

function unorderedSource(share: Share, pollMs: number): Source {
  const probes = new Probes({
    buckets: share.buckets,
    pollMs,
    hasLine: (bucket, priority) => lines.has(bucket, priority),
  });
  const lines = new LongLines((bucket, priority) => probes.hasMore(bucket, priority));
  let more = false;
  return {
    share,
    ordered: false,
    reader: probes,
    lines,
    atRest: () => false,
    sawNone: () => {},
    claim({ engine, names, run, trusted, alone, ...terms }) {
      const from = performance.now();
      const taken = probes.take(from);
      if (taken.length === 0) return null;
      const { versions, above } = share;
      const request = {
        ...{ ...terms, probes: taken, versions, above, cursorLagMs: CURSOR_LAG_MS },
        more: more && alone && !terms.news,
      };
      return claim(engine, names, request).then((claimed) => {
        const now = performance.now();
        more = claimed.jobs.length >= MANY;
        // News that took long, or a wait for others, says nothing of what reading the buckets costs.
        const dear = terms.news && now - from > NEWS_MS * NEWS_SHARE;
        // Fewer than were asked for need not mean that there are no more.
        const limit = claimed.unsure ? claimed.jobs.length : terms.limit;
        const waited = claimed.lockedOut || limit < terms.limit;
        const tookMs = dear || waited ? null : now - from;
        probes.learn(claimed, limit, now, tookMs);
        lines.saw(claimed.jobs, terms.limit, now);
        return { ...claimed, ordered: false };
      });
    },
    claimBeside({ engine, names, run, trusted, ...terms }) {
      const from = performance.now();
      const probe = lines.take(from);
      if (!probe) return null;
      const { versions, above } = share;
      const request = { ...terms, probe, versions, above, cursorLagMs: CURSOR_LAG_MS };
      return claimBeside(engine, names, request).then((claimed) => {
        lines.learn(claimed, terms.limit, performance.now());
        return { ...claimed, ordered: false };
      });
    },
  };
}

function orderedSource(share: Share, pollMs: number): Source {
  const probes = new OrderProbes({ buckets: share.buckets, pollMs });
  let more = false;
  return {
    share,
    ordered: true,
    reader: probes,
    // Ordered keys take turns: none stands behind another.
    lines: null,
    atRest: () => probes.atRest,
    sawNone: (now) => probes.sawNone(now),
    claim({ engine, names, news, alone, ...terms }) {
      const from = performance.now();
      const taken = probes.take(from);
      if (taken.length === 0) return null;
      const { versions, above } = share;
      const request = { ...terms, probes: taken, versions, above, more };
      return claimOrdered(engine, names, request).then((claimed) => {
        const now = performance.now();
        more = claimed.jobs.length >= MANY;
        probes.learn(claimed, terms.limit, now, now - from);
        return { ...claimed, ordered: true };
      });
    },
    claimBeside: () => null,
  };
}

export interface Assignment {
  readonly shares: readonly Share[];
  /** Whether the queue has ordered jobs, or may have. */
  readonly ordered: boolean;
  /** No other worker reads these shares, as long as all see the same fleet. */
  readonly alone: boolean;
}

export class Sources {
  readonly #pollMs: number;
  #sources: Source[] = [];
  #turn = 0;
  /** Somebody told of a job, and who is most likely to find it: the source that found the last one. */
  #told = false;
  #fruitful = 0;
  #preferred = false;
  #newsAt = Number.NEGATIVE_INFINITY;
  #newsMs = NEWS_MS;
  #alone = false;
  #lockingUntil = Number.NEGATIVE_INFINITY;
  #dead: readonly string[] | null = null;

  constructor(pollMs: number) {
    this.#pollMs = pollMs;
  }

  /** How many buckets this worker reads, for people to see. */
  get buckets(): number {
    return new Set(this.#sources.flatMap(({ share }) => share.buckets)).size;
  }

  /** What stays keeps its cursors; what is new is read at once. */
  assign({ shares, ordered, alone }: Assignment): void {
    this.#alone = alone;
    const kinds = ordered ? [false, true] : [false];
    this.#sources = shares.flatMap((share) =>
      kinds.map((kind) => {
        const before = this.#sources.find(
          (source) => source.ordered === kind && sameWork(source.share, share),
        );
        if (!before) return (kind ? orderedSource : unorderedSource)(share, this.#pollMs);
        before.reader.own(share.buckets);
        return { ...before, share };
      }),
    );
  }

  /** `kind`: whether it is told of ordered jobs, or of others, if that is known. */
  hint(buckets: readonly number[] | null, kind: boolean | null = null): void {
    // Which source may know it best is asked only if the kind is not known.
    this.#told ||= buckets !== null && kind === null;
    for (const { reader, ordered } of this.#sources) {
      if (kind !== null && ordered !== kind) continue;
      if (buckets === null) reader.rewind();
      else reader.hint(buckets);
    }
  }

  set asleep(asleep: boolean) {
    for (const { reader } of this.#sources) reader.asleep = asleep;
  }

  /** The next claim, or null when no source has anything to read now. */
  claim(terms: ClaimTerms): Promise<ClaimedHere> | null {
    const now = performance.now();
    const news = now - this.#newsAt >= this.#newsMs && this.#wantsNews();
    const first =
      news && this.#sources.some(({ ordered, reader }) => !ordered && !reader.idleMs(now));
    this.#mindDead(terms.deadWorkers, now);
    const alone = this.#alone && now >= this.#lockingUntil;
    // Not twice in a row: the others have their turn, however often somebody tells.
    this.#preferred = this.#told && !this.#preferred;
    const from = this.#preferred ? this.#fruitful : this.#turn;
    this.#told = false;
    for (let step = 0; step < this.#sources.length; step++) {
      const turn = (from + step) % this.#sources.length;
      const source = this.#sources[turn] as Source;
      // It need not look if the claim that is made instead says that there is nothing to be found.
      if (first && source.atRest()) continue;
      const claimed = source.claim({ ...terms, news, alone });
      if (!claimed) continue;
      this.#turn = turn + 1;
      if (news && !source.ordered) this.#newsAt = now;
      return claimed.then((claim) => {
        if (claim.jobs.length > 0) this.#fruitful = turn;
        return this.#learn(claim, now);
      });
    }
    return null;
  }

  /** One who was declared dead just now may live, and complete his jobs in an order of his own. */
  #mindDead(dead: readonly string[], now: number): void {
    if (dead === this.#dead) return;
    const known = this.#dead;
    if (known && dead.some((id) => !known.includes(id))) this.#lockingUntil = now + LOCKING_MS;
    this.#dead = dead;
  }

  /** Whether there are ordered jobs: it is not known, or they are not looked for all the time. */
  #wantsNews(): boolean {
    return !this.readsOrdered || this.#sources.some((source) => source.atRest());
  }

  #learn(claim: ClaimedHere, from: number): ClaimedHere {
    const now = performance.now();
    if (claim.lockedOut) this.#lockingUntil = now + LOCKING_MS;
    // Where many ordered jobs were finished and not cleaned up, it walks over all of them.
    if (claim.news) this.#newsMs = Math.max(NEWS_MS, (now - from) / NEWS_SHARE);
    if (claim.news?.anyOrdered === false) {
      for (const source of this.#sources) source.sawNone(now);
    }
    return claim;
  }

  get readsOrdered(): boolean {
    return this.#sources.some(({ ordered }) => ordered);
  }

  /** Is there a long line that others may stand behind? */
  get hasLine(): boolean {
    return this.#sources.some(({ lines }) => lines !== null && lines.size > 0);
  }

  /** Beside the claims: the next stretch along a long line, or null. */
  claimBeside(terms: ClaimTerms): Promise<ClaimedHere> | null {
    for (const source of this.#sources) {
      const claimed = source.claimBeside(terms);
      if (claimed) return claimed;
    }
    return null;
  }

  /**
   * How many milliseconds until there is something to read, or to read of one kind. Infinite for a worker that
   * owns nothing.
   */
  idleMs(now: number, kind: boolean | null = null): number {
    const idle = this.#sources.map(({ reader, ordered }) =>
      kind === null || ordered === kind ? reader.idleMs(now) : Number.POSITIVE_INFINITY,
    );
    return Math.min(...idle);
  }
}

const sameWork = (a: Share, b: Share) =>
  JSON.stringify([a.versions, a.above]) === JSON.stringify([b.versions, b.above]);
