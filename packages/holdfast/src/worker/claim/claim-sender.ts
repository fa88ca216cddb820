/** What every claim is sent with: its number and, where the queue has limits, how many jobs this worker holds. */
import { Allowance } from '../../claim/allowance.js';
import { publish } from '../../claim/permits.js';
import type { ClaimMarks, Send } from '../../claim/source.js';
import type { Claimed, Versions } from '../../claim/take.js';
import type { LimitedTypes } from '../../fleet/registry.js';
import type { Names } from '../../postgres/names.js';
import { releaseClaims } from '../../settle/release.js';
import type { SharedDeps } from '../deps.js';
import type { LeasedJob } from '../run/leased-job.js';
import { ClaimLedger } from './claim-ledger.js';

/** What a claim brought into this process. `clock`: the database's time of the claim. `sentAt`: when it was sent. */
export interface ClaimBatch extends ClaimMarks, Pick<Claimed, 'clock' | 'jobs'> {
  readonly workerId: string;
  readonly number: number;
  readonly sentAt: number;
}

export interface SenderDeps
  extends Pick<SharedDeps, 'engine' | 'settings' | 'time' | 'workerId' | 'emit'> {
  readonly queue: string;
  readonly names: Names;
  /** Handled types with the newest version of each. */
  readonly versions: Versions;
  readonly receive: (batch: ClaimBatch) => void;
  readonly recordEpoch: (epoch: number) => void;
}

export class ClaimSender {
  readonly ledger = new ClaimLedger();
  readonly allowance: Allowance;
  readonly #deps: SenderDeps;
  limits: LimitedTypes | null = null;
  /** By type, how many jobs of this queue this worker holds. */
  readonly #held = new Map<string, number>();
  /** It holds fewer than others believe; and when that is said. */
  #unpublished = false;
  #publishAt = Number.NEGATIVE_INFINITY;
  /** How far the database's clock is ahead of this process' monotonic one. */
  #clockOffset: number | null = null;

  constructor(deps: SenderDeps) {
    this.#deps = deps;
    this.allowance = new Allowance(deps.settings.pollMs, deps.time);
  }

  /** Which types are limited. True: that has changed. */
  limit(limits: LimitedTypes): boolean {
    if (limits.version === this.limits?.version) return false;
    this.limits = limits;
    this.#unpublished = limits.permits;
    this.allowance.reset();
    return true;
  }

  isLimited(type: string): boolean {
    return this.limits !== null && (this.limits.whole || this.limits.types.includes(type));
  }

  /** How long it is until this time of the database's clock; 0 if that is not known. */
  msUntil(at: Date | null): number {
    if (at === null || this.#clockOffset === null) return 0;
    return at.getTime() - (this.#deps.time.now() + this.#clockOffset);
  }

  /** A job has left this worker. True: one that waits for a permit may be claimed. */
  left({ row, lost, claim }: LeasedJob): boolean {
    if (lost) this.ledger.lose(claim.number);
    else this.ledger.leave(claim.number);
    this.#count(row.type, -1);
    if (!this.isLimited(row.type)) return false;
    this.#unpublished ||= this.limits?.permits === true;
    return this.allowance.freed();
  }

  #count(type: string, by: number): void {
    for (const of of [type, '']) this.#held.set(of, (this.#held.get(of) ?? 0) + by);
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

  /** A claim whose answer was lost may hold jobs that nobody here knows of. */
  async releaseUnknown(): Promise<void> {
    const numbers = [...this.ledger.unknown];
    if (numbers.length === 0) return;
    const { engine, names, workerId } = this.#deps;
    await releaseClaims(engine, names, workerId(), numbers);
    this.ledger.released(numbers);
    this.#unpublished = this.limits?.permits ?? false;
  }

  /** Sends a claim and hands on what it brought. */
  readonly send: Send = async (limit, claim) => {
    const { queue, settings, recordEpoch, receive, emit, time } = this.#deps;
    const workerId = this.#deps.workerId();
    const sentAt = time.now();
    const { number, finished } = this.ledger.begin();
    this.allowance.sent();
    const held = this.limits?.permits ? { held: Object.fromEntries(this.#held) } : {};
    const terms = { workerId, leaseMs: settings.leaseMs, number, finished, limit, ...held };
    const claimed = await claim(terms).catch((error) => {
      this.ledger.failed(number, finished);
      throw error;
    });
    this.ledger.took(number, claimed.jobs.length);
    for (const { type } of claimed.jobs) this.#count(type, 1);
    for (const type of Object.keys(claimed.refused)) emit({ kind: 'throttled', queue, type });
    const now = time.now();
    this.#clockOffset = claimed.clock - (sentAt + now) / 2;
    emit({ kind: 'statement', queue, statement: 'claim', ms: now - sentAt });
    recordEpoch(claimed.epoch);
    receive({ ...claimed, workerId, number, sentAt });
    return claimed;
  };
}
