/**
 * The claim loop of one queue. One claim is in flight at a time.
 *
 * A free handler claims; while all are busy, the next jobs are claimed a little ahead (prefetch.ts). When to claim is
 * decided in claim-schedule.ts. What is read is the business of a source (src/claim): the ordering of the queue has one, and
 * suspects have one beside it. Every claim is sent by claim-sender.ts. Hints that come in quick succession share a claim.
 */
import { KeySource } from '../../claim/key/source.js';
import type { Found, Hint, Source, SourceDeps } from '../../claim/source.js';
import { SuspectsSource } from '../../claim/suspects.js';
import type { QueueNews } from '../../claim/take.js';
import { TimeSource } from '../../claim/time/source.js';
import { countWaiting } from '../../enqueue/pressure.js';
import type { LimitedTypes } from '../../fleet/registry.js';
import { UNIT_MS } from '../../job/options/duration.js';
import type { Ordering } from '../../job/order.js';
import type { SharedDeps } from '../deps.js';
import type { SettleResult } from '../events.js';
import type { LeasedJob } from '../run/leased-job.js';
import { CHECK_MS, type Timer } from '../time.js';
import { ClaimSchedule } from './claim-schedule.js';
import { ClaimSender, type SenderDeps } from './claim-sender.js';
import type { Wakeups } from './wakeups.js';

/** How producers are asked for hints. */
export type Hints = Pick<Wakeups, 'listening' | 'getsHints' | 'isQuiet' | 'want'>;

export interface ClaimLoopDeps extends SenderDeps, Pick<SharedDeps, 'reportError'> {
  readonly wakeups: Hints;
  /** False while this worker may have been declared dead, is held, or stops. */
  readonly mayClaim: () => boolean;
  /** How many jobs there is room for; 0: none, for now. */
  readonly room: () => number;
  /** A handler waits for a job. */
  readonly free: () => boolean;
  /** How many jobs of one key to take in a row. */
  readonly run: () => number;
  /** From when on suspects may be claimed. */
  readonly suspectsAt: () => number;
  /** A claim is over, whatever it brought. */
  readonly ended: () => void;
  readonly recordRound: (queue: string, agoMs: number | null) => void;
}

/** A queue in which nothing was found for so long needs no locks of its own. */
const QUIET_MS = 30 * CHECK_MS;

/** Jobs of any age and anywhere may have come. */
const ANY: Hint = { since: null, buckets: null, types: null };

/** After these the next job of a key may run; a released one waits again, perhaps as the head of its key. */
const FREES_KEY: (SettleResult | null)[] = ['completed', 'dead_letter', 'cancelled', 'released'];

/** Where keys take turns, one that waits for its time lets the next one run. */
const FREES_TURN = [...FREES_KEY, 'failed', 'snoozed'];

export class ClaimLoop {
  readonly #deps: ClaimLoopDeps;
  readonly #sender: ClaimSender;
  readonly #schedule: ClaimSchedule;
  readonly #sourceDeps: SourceDeps;
  readonly #suspects: SuspectsSource;
  #ordering: Ordering = 'none';
  #source: Source;
  #claiming = false;
  #stopped = false;
  #timer: Timer | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  /** When a claim last found a job. */
  #busyAt = Number.NEGATIVE_INFINITY;

  constructor(deps: ClaimLoopDeps) {
    this.#deps = deps;
    const { time, suspectsAt } = deps;
    const { pollMs } = deps.settings;
    const receive: ClaimLoopDeps['receive'] = (batch) => {
      this.#schedule.answered();
      this.#suspects.took(batch.jobs);
      deps.receive(batch);
    };
    this.#sender = new ClaimSender({ ...deps, receive });
    const { allowance, send } = this.#sender;
    this.#schedule = new ClaimSchedule(pollMs, time);
    this.#sourceDeps = { ...deps, clock: time, pollMs, allowance, send };
    this.#suspects = new SuspectsSource({ ...this.#sourceDeps, suspectsAt });
    this.#source = new TimeSource(this.#sourceDeps);
  }

  get claiming(): boolean {
    return this.#claiming;
  }

  /** How the queue is read, and which buckets this worker reads first. */
  assign(ordering: Ordering, buckets: readonly number[]): void {
    if (ordering !== this.#ordering)
      this.#source =
        ordering === 'none'
          ? new TimeSource(this.#sourceDeps)
          : new KeySource(this.#sourceDeps, ordering === 'turns');
    this.#ordering = ordering;
    this.#source.own?.(buckets);
    this.#source.useKeys?.(this.#sender.limits?.keyed ?? []);
    this.wake();
  }

  /** Which types of the queue are limited. */
  limit(limits: LimitedTypes): void {
    if (!this.#sender.limit(limits)) return;
    this.#source.useKeys?.(limits.keyed);
    this.#source.hint(ANY);
    this.wake();
  }

  isLimited(type: string): boolean {
    return this.#sender.isLimited(type);
  }

  /** It waits for a hint, and leaves its polls to others. */
  get idle(): boolean {
    return this.#schedule.idle && !this.#claiming;
  }

  /** What was found of an idle queue. */
  record(news: QueueNews): void {
    const { time, wakeups, queue } = this.#deps;
    this.#follow(news);
    if (time.now() - this.#busyAt > QUIET_MS) wakeups.want(queue, null);
    if (news.suspects || (news.dueInMs ?? Number.POSITIVE_INFINITY) <= 0) this.wake();
    else if (news.dueInMs !== null) this.dueIn(news.dueInMs, null);
  }

  #follow({ suspects, recount }: QueueNews): void {
    this.#suspects.record(suspects);
    // Nobody waits for it, and whoever finds the figure old counts again.
    if (recount) void countWaiting(this.#deps.engine, this.#deps.names).catch(() => undefined);
  }

  /** Jobs were written. */
  hint(hint: Hint): void {
    const inMs = this.#sender.msUntil(hint.since);
    if (inMs > 0) {
      // Hints carry tenths of a second, rounded down: the claim at that time says how long it really is. A walk does not.
      this.dueIn(inMs, hint.buckets, CHECK_MS / 10);
      return;
    }
    this.#source.hint(hint);
    if (hint.since === null) this.#schedule.hint();
    // The buckets of a queue that is read by key have an owner, who answers first: its source knows when.
    else if (this.#ordering === 'none') this.#schedule.sharedHint();
    this.pump();
  }

  /** Hints arrive from now on; read what was written just before, and ask when the next job is due. */
  listening(): void {
    this.#source.later?.(null, this.#deps.time.now());
    this.#schedule.hint(true);
    this.pump();
  }

  /** A job becomes due after this time, or so much later. */
  dueIn(ms: number, buckets: readonly number[] | null, atMostLaterMs = 0): void {
    const at = this.#deps.time.now() + Math.max(0, ms) + 1;
    if (this.#source.later) this.#source.later(buckets, at);
    else this.#schedule.due(at);
    this.#source.due?.(at + atMostLaterMs);
    this.pump();
  }

  /** A job has left this worker: its key may be free, or it waits again. */
  left(held: LeasedJob): void {
    if (this.#leave(held, !this.#deps.wakeups.listening())) this.wake();
  }

  /** These were claimed too late to be run: nobody here holds them. */
  missed(jobs: readonly LeasedJob[]): void {
    for (const job of jobs) this.#leave(job, false);
  }

  /** `blind`: no hint says what stands behind it. True: there may be something to read now. */
  #leave(held: LeasedJob, blind: boolean): boolean {
    const { row, how, claim, hasMore } = held;
    const freed = this.#sender.left(held);
    const { limits } = this.#sender;
    const released = how === 'released';
    const more = this.#source.left({
      ...{ row, released, sentAt: claim.sentAt },
      freesKey: (this.#ordering === 'turns' ? FREES_TURN : FREES_KEY).includes(how),
      // A job of a limited type is claimed without what stands behind it, and ends the run that stands before it.
      hasMore:
        hasMore || released || blind || limits?.whole === true || (limits?.types.length ?? 0) > 0,
    });
    return this.#suspects.left(row) || more || freed;
  }

  /** Under a new registration. */
  restart(): void {
    this.#sender.ledger.reset();
    this.hint(ANY);
  }

  /** Read as soon as there is room. */
  wake(): void {
    this.#schedule.hint();
    this.pump();
  }

  /** Claims if there is room and something to read; otherwise sees to it that it is called again. */
  pump(): void {
    if (this.#claiming || this.#stopped || !this.#deps.mayClaim()) return;
    const now = this.#deps.time.now();
    if (this.#sender.mustPublish && !this.#schedule.failing) {
      void this.#exclusively('telling the permits of', () => this.#sender.publish());
      return;
    }
    const room = this.#deps.room();
    if (room <= 0) return;
    const readAt = Math.min(this.#source.readAt(now, this.#schedule.idle), this.#suspects.readAt);
    const at = this.#schedule.nextAt(now, readAt, this.#deps.free());
    if (at > now) this.#wait(at, now);
    else void this.#exclusively('claiming from', () => this.#read(now, room));
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #wait(at: number, now: number): void {
    if (this.#timer && this.#timerAt <= at && this.#timerAt > now) return;
    this.#timer?.cancel();
    this.#timer = null;
    // Until a hint, or what the polls of idle queues find.
    if (at === Number.POSITIVE_INFINITY) return;
    this.#timerAt = at;
    this.#timer = this.#deps.time.after(Math.min(at - now, UNIT_MS.d), () => {
      this.#timer = null;
      this.pump();
    });
  }

  /** One statement of the queue's claims is under way at a time. */
  async #exclusively(what: string, run: () => Promise<void>): Promise<void> {
    const { queue, reportError, ended } = this.#deps;
    this.#claiming = true;
    try {
      await run();
    } catch (error) {
      reportError(`${what} ${queue}`, error);
    } finally {
      this.#claiming = false;
    }
    ended();
    this.pump();
  }

  async #read(now: number, limit: number): Promise<void> {
    const { queue, wakeups, recordRound, time } = this.#deps;
    const ask = this.#schedule.begin(now);
    const found = await this.#claim(limit, ask).catch((error) => {
      this.#schedule.failed();
      throw error;
    });
    if (found.news) {
      this.#follow(found.news);
      this.#schedule.record(found.news);
      recordRound(queue, found.news.maintainedMs);
    }
    const wanted = this.#schedule.succeeded(found, limit, wakeups.getsHints(queue));
    // A worker that only answers hints of others stays quiet.
    if (wanted !== null && (found.jobs > 0 || !wakeups.isQuiet(queue))) wakeups.want(queue, wanted);
    if (found.jobs > 0) this.#busyAt = time.now();
  }

  async #claim(limit: number, ask: boolean): Promise<Found> {
    await this.#sender.releaseUnknown();
    if (this.#deps.time.now() >= this.#suspects.readAt && (await this.#suspects.read(limit)))
      // Nothing may run beside it; the rest is read when it has left.
      return { jobs: limit, waitedMs: 0, news: null };
    return this.#source.read(limit, ask);
  }
}
