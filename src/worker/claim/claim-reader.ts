/**
 * What a claim of a queue sends, and what it brings.
 *
 * Here one of the claim statements is chosen (suspects, by time, by key, by turns, limited), every claim gets its number,
 * and the place is kept where the next one begins. When to claim is the schedule's business (claim-schedule.ts).
 */
import { claim, type QueueNews } from '../../claim/claim.js';
import type { WalkStop } from '../../claim/claim-keyed.js';
import { claimLimited } from '../../claim/claim-limited.js';
import { claimSuspects } from '../../claim/claim-suspects.js';
import type { ClaimedJob, ClaimTerms } from '../../claim/taking.js';
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
import { AgedReader } from './aged-reader.js';
import { claimKeys } from './claim-keys.js';
import { ClaimLedger } from './claim-ledger.js';
import { DueReader, LAG_MS } from './due-reader.js';
import { KeyReader } from './key-reader.js';
import { type LimitedGroup, LimitedReader } from './limited-reader.js';

/** What a claim brought into this process. */
export interface ClaimBatch {
  readonly jobs: readonly ClaimedJob[];
  readonly workerId: string;
  readonly number: number;
  /** The database's time of the claim. */
  readonly clock: number;
  /** When it was sent. */
  readonly sentAt: number;
  /** Set where jobs of one key stand together and run one after the other; so many of a key were asked for. */
  readonly run?: number;
  /** Where a walk ended before the end: it may have cut the run of this key short. */
  readonly stop?: WalkStop | null;
  /** Where keys take turns: the jobs of whose keys more wait. */
  readonly keysWithMore?: ReadonlySet<ClaimedJob>;
  /** A suspect that must be the only job of its process. */
  readonly alone?: boolean;
  /** Its jobs hold places of a limit: they start before others. */
  readonly limited?: boolean;
}

/** What a claim found; the limit itself means that there is more. */
export interface Found {
  readonly jobs: number;
  /** How long the first of them was due. */
  readonly waitedMs: number;
  /** It took less than it could, and has not read all: the next claim goes on behind it. */
  readonly goesOn?: boolean;
  readonly news: QueueNews | null;
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
  /** So many jobs of these limited types got a slot and wait for it. */
  readonly throttled: (type: string | null, jobs: number) => void;
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
  readonly #due = new DueReader();
  readonly #aged = new AgedReader();
  readonly #keys: KeyReader;
  readonly #limited: LimitedReader;
  #ordering: Ordering = 'none';
  /** There are suspects to claim. */
  #suspects = false;
  #suspectsHeld = 0;
  /** How far the database's clock is ahead of this process' monotonic one. */
  #clockOffset: number | null = null;

  constructor(deps: ClaimReaderDeps) {
    this.#deps = deps;
    const keys = () => new KeyReader(deps.settings.pollMs, deps.time.random);
    this.#keys = keys();
    this.#limited = new LimitedReader(deps.versions, keys);
  }

  get keyed(): boolean {
    return this.#ordering !== 'none';
  }

  /** Of a queue that is read by key: how many buckets the ring prefers this worker for. */
  get owned(): number {
    return this.keyed ? this.#keys.owned : 0;
  }

  assign(ordering: Ordering, buckets: readonly number[]): void {
    this.#ordering = ordering;
    this.#keys.own(buckets, ordering === 'turns');
    this.#limited.assign(ordering, buckets);
  }

  /** Which types are limited. True: that has changed, and what waits may be found elsewhere. */
  limit(limited: LimitedTypes): boolean {
    const changed = this.#limited.use(limited);
    // What was limited may lie where this worker has read already.
    if (changed) {
      this.#due.restart();
      this.#keys.hint(null, this.#deps.time.now());
    }
    return changed;
  }

  /** When there is something to read under a limit. */
  get limitedAt(): number {
    return this.#limited.at;
  }

  /** How long it is until this time of the database's clock; 0 if that is not known. */
  msUntil(at: Date | null): number {
    if (at === null || this.#clockOffset === null) return 0;
    return at.getTime() - (this.#deps.time.now() + this.#clockOffset);
  }

  /** Jobs were written that are due since this time, in these buckets if that is known. */
  hint(since: Date | null, buckets: readonly number[] | null): void {
    const now = this.#deps.time.now();
    if (this.keyed) this.#keys.hint(buckets, now);
    else this.#due.hint(since, now);
    for (const group of this.#limited.groups) group.hint(since, buckets, now);
  }

  /** A job may be due at this time. In a queue that is read by key: in these buckets; null: in any. */
  later(buckets: readonly number[] | null, at: number): void {
    if (this.keyed) this.#keys.later(buckets, at);
    for (const group of this.#limited.groups) group.later(buckets, at);
  }

  /** A job has left this worker. True: there may be something to read now. */
  left(job: LeasedJob, blind: boolean): boolean {
    const { row, how, lost, claim, hasMore } = job;
    if (lost) this.ledger.lose(claim.number);
    else this.ledger.leave(claim.number);
    const lastSuspect = isSuspect(row) && --this.#suspectsHeld === 0;
    if (lastSuspect) this.#suspects = true;
    const frees = this.#ordering === 'turns' ? FREES_TURN : FREES_KEY;
    const freesKey = this.keyed && frees.includes(how);
    const now = this.#deps.time.now();
    for (const group of this.#limited.groups) group.left(job, freesKey, now);
    if (!this.keyed) {
      // It waits again where this worker has read already.
      if (how === 'released') this.#due.returned(row);
      return lastSuspect || how === 'released';
    }
    if (!freesKey || !this.takesOrdinary) return lastSuspect;
    // A claim of one type does not know what of others stands behind.
    const more = hasMore || how === 'released' || blind || claim.limited === true;
    this.#keys.freed(row.partitionBucket, claim.sentAt, more);
    return lastSuspect || this.#keys.readAt(0) === 0;
  }

  /** When there is something to read although no poll is due. */
  readAt(now: number): number {
    const reads = this.keyed && this.takesOrdinary;
    return Math.min(reads ? this.#keys.readAt(now) : Number.POSITIVE_INFINITY, this.#suspectsAt);
  }

  get #suspectsAt(): number {
    return this.#suspects ? this.#deps.suspectsAt() : Number.POSITIVE_INFINITY;
  }

  /** `ask`: also ask for news. */
  async read(limit: number, ask: boolean): Promise<Found> {
    await this.#releaseUnknown();
    const now = this.#deps.time.now();
    if (now >= this.#suspectsAt) {
      this.#suspects = false;
      // Nothing may run beside it; the rest is read when it has left.
      if (await this.#readSuspects(limit)) return { jobs: limit, waitedMs: 0, news: null };
    }
    const found = await (this.#ordering === 'none'
      ? this.#readDue(limit, now, ask)
      : this.#readKeys(limit, now, ask));
    if (found.news) this.#suspects = found.news.suspects;
    // Nobody waits for it, and whoever finds the figure old counts again.
    if (found.news?.recount)
      void countWaiting(this.#deps.engine, this.#deps.names).catch(() => undefined);
    return found;
  }

  /** True: one of them must run alone. */
  async #readSuspects(limit: number): Promise<boolean> {
    const { engine, names } = this.#deps;
    const send = (group?: LimitedGroup) =>
      this.#send(limit, async (terms) => ({
        ...(await claimSuspects(engine, names, { ...terms, ...group?.terms })),
        limited: group !== undefined,
      }));
    if ((await send()).alone) return true;
    for (const group of this.#limited.groups)
      if ((await (this.keyed ? send(group) : this.#sendLimited(group, 1, true))).alone) return true;
    return false;
  }

  /** Reads what is due under limits, for so many free handlers. */
  async readLimited(room: number): Promise<void> {
    await this.#releaseUnknown();
    const { settings, time, throttled } = this.#deps;
    const due = this.#limited.groups.filter(({ at }) => at <= time.now());
    let left = room;
    for (const [nth, group] of due.entries()) {
      if (left <= 0) return;
      // Each gets its part of the handlers. Who finds more than that comes again at once.
      const part = Math.ceil(left / (due.length - nth));
      group.sent(time.now());
      try {
        if (this.keyed) {
          left -= await this.#readLimitedKeys(group, part);
          continue;
        }
        const claimed = await this.#sendLimited(group, part, false);
        group.record(claimed, part, settings.pollMs, time);
        if (claimed.throttled > 0) throttled(group.ofType, claimed.throttled);
        left -= claimed.jobs.length;
      } catch (error) {
        if (!group.failed(error, settings.pollMs, time)) throw error;
      }
    }
  }

  /** Returns how many it took. A job starts at once, so there are no runs. */
  async #readLimitedKeys(group: LimitedGroup, limit: number): Promise<number> {
    const { time, settings } = this.#deps;
    const { keys } = group;
    const stretches = keys.take(time.now());
    const request = { keys, stretches, run: 1, ask: false };
    const claimed =
      stretches.length === 0
        ? null
        : await this.#send(limit, async (terms) => ({
            ...(await claimKeys(this.#deps, { ...terms, ...group.terms }, request)),
            limited: true,
          }));
    group.recordKeys(claimed, limit, settings.pollMs, time);
    return claimed?.jobs.length ?? 0;
  }

  #sendLimited(group: LimitedGroup, limit: number, suspects: boolean) {
    const { engine, names, time } = this.#deps;
    const { ofType, due } = group;
    const asked = {
      ...group.terms,
      ofType,
      cursors: due.take(time.now()),
      lagMs: LAG_MS,
      suspects,
    };
    return this.#send(limit, async (terms) => ({
      ...(await claimLimited(engine, names, { ...terms, ...asked })),
      limited: true,
    }));
  }

  /** A claim whose answer was lost may hold jobs that nobody here knows of. */
  async #releaseUnknown(): Promise<void> {
    const { unknown } = this.ledger;
    if (unknown.length === 0) return;
    const numbers = [...unknown];
    const { engine, names, workerId } = this.#deps;
    await releaseClaims(engine, names, workerId(), numbers);
    this.ledger.released(numbers);
  }

  async #readDue(limit: number, now: number, ask: boolean): Promise<Found> {
    const { engine, names, time } = this.#deps;
    const aged = await this.#readAged(limit, now);
    const rest = limit - aged;
    if (rest === 0) return { jobs: limit, waitedMs: 0, news: null };
    const cursors = this.#due.take(now);
    // With nothing to take, it only tells the news.
    const most = this.takesOrdinary ? rest : 0;
    const sentAt = time.now();
    const { jobs, news, clock } = await this.#send(most, async (terms) => {
      const claimed = await claim(engine, names, { ...terms, cursors, lagMs: LAG_MS, ask });
      this.#due.record(claimed, rest, time.now(), time.now() - sentAt);
      this.#aged.recordOrdinary(claimed.jobs, rest);
      return claimed;
    });
    const [first] = jobs;
    const waitedMs = first ? clock - Date.parse(first.cursorAt) : 0;
    return { jobs: aged + jobs.length, waitedMs, news };
  }

  /** Some of what is handled has no limit. */
  get takesOrdinary(): boolean {
    return Object.keys(this.#limited.unlimited).length > 0;
  }

  /** What more urgent jobs have kept waiting for too long. Returns how many it took. */
  async #readAged(room: number, now: number): Promise<number> {
    const { engine, names, time } = this.#deps;
    const share = this.#aged.take(room, now);
    if (!share) return 0;
    const { cursors, limit } = share;
    const { jobs } = await this.#send(limit, async (terms) => {
      const request = { ...terms, cursors, lagMs: LAG_MS, ask: false, aged: true };
      const claimed = await claim(engine, names, request);
      this.#aged.record(claimed.jobs, limit, time.now(), time.now() - now);
      return claimed;
    });
    return jobs.length;
  }

  async #readKeys(limit: number, now: number, ask: boolean): Promise<Found> {
    const keys = this.#keys;
    const takes = this.takesOrdinary;
    const stretches = takes ? keys.take(now) : [];
    // With nothing to take, it only tells the news.
    if (stretches.length === 0 && (takes || !ask)) return { jobs: 0, waitedMs: 0, news: null };
    const { jobs, news, wanted } = await this.#send(takes ? limit : 0, (terms) => {
      const run = Math.min(limit, this.#deps.run());
      return claimKeys(this.#deps, terms, { keys, stretches, run, ask });
    });
    const found = Math.max(jobs.length, Math.min(wanted, limit - 1));
    return { jobs: found, waitedMs: 0, goesOn: keys.goesOn, news };
  }

  /** Sends a claim and hands on what it brought. */
  async #send<C extends Omit<ClaimBatch, 'number' | 'workerId' | 'sentAt'> & { epoch: number }>(
    limit: number,
    send: (terms: ClaimTerms) => Promise<C>,
  ): Promise<C> {
    const { settings, recordEpoch, receive, took, time } = this.#deps;
    const workerId = this.#deps.workerId();
    const sentAt = time.now();
    const { number, finished } = this.ledger.begin();
    const { unlimited: versions, version } = this.#limited;
    const terms = {
      ...{ workerId, leaseMs: settings.leaseMs, number, finished, limit, versions },
      ...(version !== undefined && { limitsVersion: version }),
    };
    let claimed: C;
    try {
      claimed = await send(terms);
    } catch (error) {
      this.ledger.failed(number, finished);
      throw error;
    }
    this.ledger.took(number, claimed.jobs.length);
    this.#suspectsHeld += claimed.jobs.filter(isSuspect).length;
    const now = time.now();
    this.#clockOffset = claimed.clock - (sentAt + now) / 2;
    took(now - sentAt);
    recordEpoch(claimed.epoch);
    receive({ ...claimed, workerId, number, sentAt });
    return claimed;
  }
}

const isSuspect = ({ crashes }: ClaimedJob) => crashes > 1;
