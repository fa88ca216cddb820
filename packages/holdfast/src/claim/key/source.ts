/**
 * The source of a queue that is read by key, in order or in turns. Which buckets and keys the next claim reads is decided in
 * key-scanner.ts; the two orderings differ in their statement only.
 *
 * A job that no limit allows holds its key where it stands. Its bucket is read again when its key has a token. If all of its
 * type wait, the type has claims of its own when it is open (rounds.ts), and the others do not ask for it.
 */
import { PACE_MS } from '../pace.js';
import type { ClaimMarks, Found, Hint, LeftJob, Source, SourceDeps } from '../source.js';
import type { ClaimTerms, Versions } from '../take.js';
import { claimTurns } from '../turns/claim.js';
import { claimKeyed, type KeyedClaim, type KeyStretch } from './claim.js';
import { KeyScanner, RARE_MS } from './key-scanner.js';
import { Rounds } from './rounds.js';
import { readOf } from './stretches.js';

export class KeySource implements Source {
  readonly #deps: SourceDeps;
  readonly #keys: KeyScanner;
  readonly #turns: boolean;
  /** Of types that wait for a token or a permit. */
  readonly #rounds: Rounds;
  /** A claim of a round asks for no more: jobs that no limit allows are found and locked for nothing. */
  #most = Number.POSITIVE_INFINITY;
  /** The last claim was of a round; and how many there were. */
  #inRound = false;
  #round = 0;

  constructor(deps: SourceDeps, turns: boolean) {
    this.#deps = deps;
    this.#turns = turns;
    this.#keys = new KeyScanner(deps.pollMs, deps.clock.random);
    this.#rounds = new Rounds(deps.clock.random);
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
    for (const type of this.#rounds.types) at = Math.min(at, this.#deps.allowance.opensAtOf(type));
    return at;
  }

  async read(limit: number, ask: boolean): Promise<Found> {
    const { clock, allowance } = this.#deps;
    const now = clock.now();
    const open = this.#rounds.types.filter((type) => allowance.isOpen(type));
    // They alternate with what else there is to read.
    this.#inRound = open.length > 0 && (!this.#inRound || this.#keys.readAt(now) > now);
    if (this.#inRound) {
      // One after the other: what one limit allows says nothing of the keys under another.
      const type = open[this.#round++ % open.length] as string;
      return this.#claim(limit, ask, [type], this.#rounds.stretchesOf(type));
    }
    const stretches = this.#keys.take(now);
    if (stretches.length === 0) return { jobs: 0, waitedMs: 0, news: null };
    const others = this.#others(this.#rounds.types).filter((type) => allowance.isOpen(type));
    if (others.length > 0 || ask) return this.#claim(limit, ask, others, stretches);
    this.#recordWalk({ stop: null, wanted: 0, jobs: [] }, limit, 0, others, stretches);
    return { jobs: 0, waitedMs: 0, goesOn: this.#keys.goesOn, news: null };
  }

  #others(types: readonly string[]): string[] {
    return Object.keys(this.#deps.versions).filter((type) => !types.includes(type));
  }

  async #claim(
    room: number,
    ask: boolean,
    types: readonly string[],
    stretches: readonly KeyStretch[],
  ): Promise<Found> {
    const { clock, send, versions, allowance } = this.#deps;
    const limit = this.#inRound ? Math.min(room, this.#most) : room;
    const asked = Object.fromEntries(types.map((type) => [type, versions[type] ?? 0]));
    const sentAt = clock.now();
    let claimed: KeyedClaim;
    try {
      claimed = await send(limit, async (terms) => {
        const found = await this.#send({ ...terms, versions: asked }, stretches, ask);
        if (!this.#inRound) this.#recordWalk(found, limit, clock.now() - sentAt, types, stretches);
        return found;
      });
    } catch (error) {
      if (!this.#inRound) this.#keys.failed();
      throw error;
    }
    const { jobs, refused, heldBack, due, wanted, news } = claimed;
    const now = clock.now();
    allowance.record(jobs, refused);
    this.#rounds.record(this.#inRound ? types : [], stretches, claimed);
    if (this.#inRound && heldBack.length > 0) this.#most = 2 * jobs.length + 2;
    else if (this.#inRound && jobs.length > 0) this.#most = 2 * this.#most;
    // Heads that wait for their time, or their key for a token, are read again then.
    for (const { inMs, bucket, type } of [...due, ...heldBack])
      if (type === undefined) this.#keys.later([bucket], now + inMs + 1);
    const found = Math.max(jobs.length, Math.min(wanted, room - 1));
    return { jobs: found, waitedMs: 0, goesOn: this.#keys.goesOn, news };
  }

  /** What was read has perhaps jobs of the types that were not asked for. */
  #recordWalk(
    found: Pick<KeyedClaim, 'stop' | 'wanted' | 'jobs'>,
    limit: number,
    tookMs: number,
    asked: readonly string[],
    stretches: readonly KeyStretch[],
  ): void {
    this.#keys.record(found, limit, this.#deps.clock.now(), tookMs);
    const others = this.#others(asked);
    if (others.length === 0) return;
    const read = readOf(stretches, found.stop);
    for (const type of others) this.#rounds.add(type, read);
  }

  async #send(
    terms: ClaimTerms & { readonly versions: Versions },
    stretches: readonly KeyStretch[],
    ask: boolean,
  ): Promise<KeyedClaim & ClaimMarks> {
    const { engine, names, clock, pollMs } = this.#deps;
    // What becomes due until the next walk, however rare walks are.
    const soonMs = Math.max(RARE_MS, 3 * pollMs);
    const asked = { ...terms, stretches, ask, soonMs };
    if (!this.#turns) {
      const run = Math.min(terms.limit, this.#deps.run());
      return { ...(await claimKeyed(engine, names, { ...asked, run })), run };
    }
    const again = this.#inRound ? stretches[0]?.afterKey === '' : this.#keys.readsAll;
    const claimed = await claimTurns(engine, names, { ...asked, again });
    // Another worker was claiming from these; a claim takes about as long.
    this.#keys.later(claimed.busy, clock.now() + PACE_MS);
    if (claimed.missed) this.#keys.later(null, clock.now() + PACE_MS);
    return claimed;
  }
}
