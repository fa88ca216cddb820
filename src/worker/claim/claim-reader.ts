/**
 * The claims of one queue: which source is asked, what every claim is sent with, and what it brings.
 *
 * The ordering of the queue has a source of its own, and suspects have one beside it (src/claim). Every claim gets its number
 * here, and says how many jobs this worker holds where the queue has limits. When to claim is the schedule's business
 * (claim-schedule.ts).
 */
import { Allowance } from '../../claim/allowance.js';
import { KeySource } from '../../claim/key/source.js';
import { publish } from '../../claim/permits.js';
import type { ClaimMarks, Found, Hint, Send, Source, SourceDeps } from '../../claim/source.js';
import { SuspectsSource } from '../../claim/suspects/source.js';
import type { Claimed, ClaimedJob, ClaimTerms, QueueNews, Refused } from '../../claim/take.js';
import { TimeSource } from '../../claim/time/source.js';
import { countWaiting } from '../../enqueue/pressure.js';
import type { LimitedTypes } from '../../fleet/registry.js';
import type { Ordering } from '../../job/order.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { releaseClaims } from '../../settle/release.js';
import type { SettleResult } from '../events.js';
import type { Settings } from '../options.js';
import type { LeasedJob } from '../run/leased-job.js';
import type { Time } from '../time.js';
import { ClaimLedger } from './claim-ledger.js';

/** What a claim brought into this process. */
export interface ClaimBatch extends ClaimMarks {
  readonly jobs: readonly ClaimedJob[];
  readonly workerId: string;
  readonly number: number;
  /** The database's time of the claim. */
  readonly clock: number;
  /** When it was sent. */
  readonly sentAt: number;
}

export interface ClaimReaderDeps {
  readonly names: Names;
  readonly engine: Executor;
  readonly settings: Settings;
  readonly versions: Readonly<Record<string, number>>;
  readonly time: Time;
  readonly workerId: () => string;
  /** How many jobs of one key to take in a row. */
  readonly run: () => number;
  /** From when on suspects may be claimed. */
  readonly suspectsAt: () => number;
  readonly receive: (batch: ClaimBatch) => void;
  readonly recordEpoch: (epoch: number) => void;
  readonly took: (ms: number) => void;
  /** A claim found jobs of this type that no limit allows now. */
  readonly throttled: (type: string) => void;
}

/** After these the next job of a key may run; a released one waits again, perhaps as the head of its key. */
const FREES_KEY: readonly (SettleResult | null)[] = [
  'completed',
  'dead_letter',
  'cancelled',
  'released',
];

/** Where keys take turns, one that waits for its time lets the next one run. */
const FREES_TURN: readonly (SettleResult | null)[] = [...FREES_KEY, 'failed', 'snoozed'];

export class ClaimReader {
  readonly ledger = new ClaimLedger();
  readonly #deps: ClaimReaderDeps;
  readonly #sourceDeps: SourceDeps;
  readonly #allowance: Allowance;
  readonly #suspects: SuspectsSource;
  #ordering: Ordering = 'none';
  #source: Source;
  #limits: LimitedTypes | null = null;
  /** By type, how many jobs of this queue this worker holds. */
  readonly #held = new Map<string, number>();
  /** It holds fewer than others believe; and when that is said. */
  #unpublished = false;
  #publishAt = Number.NEGATIVE_INFINITY;
  /** How far the database's clock is ahead of this process' monotonic one. */
  #clockOffset: number | null = null;

  constructor(deps: ClaimReaderDeps) {
    this.#deps = deps;
    const { time, settings, suspectsAt } = deps;
    this.#allowance = new Allowance(settings.pollMs, time);
    const send: Send = (limit, claim) => this.#send(limit, claim);
    const { pollMs } = settings;
    this.#sourceDeps = { ...deps, clock: time, pollMs, allowance: this.#allowance, send };
    this.#suspects = new SuspectsSource({ ...this.#sourceDeps, suspectsAt });
    this.#source = new TimeSource(this.#sourceDeps);
  }

  get keyed(): boolean {
    return this.#ordering !== 'none';
  }

  get owned(): number {
    return this.#source.owned;
  }

  /** How the queue is read, and which buckets this worker reads first. */
  assign(ordering: Ordering, buckets: readonly number[]): void {
    const changed = ordering !== this.#ordering;
    this.#ordering = ordering;
    if (ordering === 'none') {
      if (changed) this.#source = new TimeSource(this.#sourceDeps);
      this.#source.useKeys(this.#limits?.keyed ?? []);
      return;
    }
    const source = changed
      ? new KeySource(this.#sourceDeps, ordering === 'turns')
      : (this.#source as KeySource);
    source.own(buckets);
    this.#source = source;
  }

  /** Which types are limited. True: that has changed. */
  limit(limits: LimitedTypes): boolean {
    if (limits.version === this.#limits?.version) return false;
    this.#limits = limits;
    this.#unpublished = limits.permits;
    this.#allowance.reset();
    this.#source.useKeys(limits.keyed);
    this.hint({ since: null, buckets: null, types: null });
    return true;
  }

  get #hasLimits(): boolean {
    return this.#limits !== null && (this.#limits.whole || this.#limits.types.length > 0);
  }

  isLimited(type: string): boolean {
    return this.#limits !== null && (this.#limits.whole || this.#limits.types.includes(type));
  }

  /** How long it is until this time of the database's clock; 0 if that is not known. */
  msUntil(at: Date | null): number {
    if (at === null || this.#clockOffset === null) return 0;
    return at.getTime() - (this.#deps.time.now() + this.#clockOffset);
  }

  hint(hint: Hint): void {
    this.#source.hint(hint);
  }

  later(buckets: readonly number[] | null, at: number): void {
    this.#source.later(buckets, at);
  }

  /** A job has left this worker. True: there may be something to read now. */
  left({ row, how, lost, claim, hasMore }: LeasedJob, blind: boolean): boolean {
    if (lost) this.ledger.lose(claim.number);
    else this.ledger.leave(claim.number);
    this.#count(row.type, -1);
    const limited = this.isLimited(row.type);
    if (limited && this.#limits?.permits) this.#unpublished = true;
    const freed = limited && this.#allowance.freed();
    const frees = this.#ordering === 'turns' ? FREES_TURN : FREES_KEY;
    const released = how === 'released';
    const more = this.#source.left({
      ...{ row, released, sentAt: claim.sentAt },
      freesKey: frees.includes(how),
      // A job of a limited type is claimed without what stands behind it, and ends the run that stands before it.
      hasMore: hasMore || released || blind || this.#hasLimits,
    });
    return this.#suspects.left(row) || more || freed;
  }

  #count(type: string, by: number): void {
    this.#held.set(type, (this.#held.get(type) ?? 0) + by);
    this.#held.set('', (this.#held.get('') ?? 0) + by);
  }

  /** When there is something to read although no poll is due. `idle`: scans are left to the polls. */
  readAt(now: number, idle: boolean): number {
    return Math.min(this.#source.readAt(now, idle), this.#suspects.readAt);
  }

  /** Others wait for permits that this worker has given back. */
  get mustPublish(): boolean {
    if (!this.#unpublished || this.ledger.unknown.length > 0) return false;
    return this.#deps.time.now() >= this.#publishAt;
  }

  /** Says how many permits this worker holds. Not while a claim is under way. */
  async publish(): Promise<void> {
    const { engine, names, workerId, versions, time, settings } = this.#deps;
    this.#unpublished = false;
    try {
      const held = Object.fromEntries(this.#held);
      await publish(engine, names, workerId(), held, Object.keys(versions));
    } catch (error) {
      this.#unpublished = true;
      this.#publishAt = time.now() + settings.pollMs;
      throw error;
    }
  }

  /** `ask`: also ask for news. */
  async read(limit: number, ask: boolean): Promise<Found> {
    await this.#releaseUnknown();
    if (this.#deps.time.now() >= this.#suspects.readAt) {
      // Nothing may run beside it; the rest is read when it has left.
      if (await this.#suspects.read(limit)) return { jobs: limit, waitedMs: 0, news: null };
    }
    const found = await this.#source.read(limit, ask);
    if (found.news) this.record(found.news);
    return found;
  }

  record({ suspects, recount }: QueueNews): void {
    this.#suspects.record(suspects);
    // Nobody waits for it, and whoever finds the figure old counts again.
    if (recount) void countWaiting(this.#deps.engine, this.#deps.names).catch(() => undefined);
  }

  /** A claim whose answer was lost may hold jobs that nobody here knows of. */
  async #releaseUnknown(): Promise<void> {
    const { unknown } = this.ledger;
    if (unknown.length === 0) return;
    const numbers = [...unknown];
    const { engine, names, workerId } = this.#deps;
    await releaseClaims(engine, names, workerId(), numbers);
    this.ledger.released(numbers);
    this.#unpublished = this.#limits?.permits ?? false;
  }

  /** Sends a claim and hands on what it brought. */
  async #send<C extends Claimed & ClaimMarks & { readonly refused: Refused }>(
    limit: number,
    send: (terms: ClaimTerms) => Promise<C>,
  ): Promise<C> {
    const { settings, recordEpoch, receive, took, throttled, time } = this.#deps;
    const workerId = this.#deps.workerId();
    const sentAt = time.now();
    const { number, finished } = this.ledger.begin();
    this.#allowance.sent();
    const terms = { workerId, leaseMs: settings.leaseMs, number, finished, limit };
    let claimed: C;
    try {
      const held = this.#limits?.permits ? { held: Object.fromEntries(this.#held) } : {};
      claimed = await send({ ...terms, ...held });
    } catch (error) {
      this.ledger.failed(number, finished);
      throw error;
    }
    this.ledger.took(number, claimed.jobs.length);
    this.#suspects.took(claimed.jobs);
    for (const { type } of claimed.jobs) this.#count(type, 1);
    for (const type of Object.keys(claimed.refused)) throttled(type);
    const now = time.now();
    this.#clockOffset = claimed.clock - (sentAt + now) / 2;
    took(now - sentAt);
    recordEpoch(claimed.epoch);
    receive({ ...claimed, workerId, number, sentAt });
    return claimed;
  }
}
