/**
 * The claim loop of one queue. One claim is in flight at a time. A free handler claims; while all are busy, the next jobs
 * are claimed a little ahead (prefetch.ts). claim-schedule.ts says when; a source (src/claim) says what is read: the
 * ordering of the queue has one, and suspects have one beside it. Hints that come in quick succession share a claim.
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

export type ClaimLoop = ReturnType<typeof newClaimLoop>;

export function newClaimLoop(deps: ClaimLoopDeps) {
  const { time, wakeups, queue, suspectsAt } = deps;
  const { pollMs } = deps.settings;
  const schedule = new ClaimSchedule(pollMs, time);
  const sender = new ClaimSender({
    ...deps,
    receive(batch) {
      schedule.answered();
      suspects.took(batch.jobs);
      deps.receive(batch);
    },
  });
  const { allowance, send } = sender;
  const sourceDeps: SourceDeps = { ...deps, clock: time, pollMs, allowance, send };
  const suspects = new SuspectsSource({ ...sourceDeps, suspectsAt });
  let ordering: Ordering = 'none';
  let source: Source = new TimeSource(sourceDeps);
  let claiming = false;
  let stopped = false;
  let timer: Timer | null = null;
  let timerAt = Number.POSITIVE_INFINITY;
  /** When a claim last found a job. */
  let busyAt = Number.NEGATIVE_INFINITY;

  function follow(news: QueueNews): void {
    suspects.record(news.suspects);
    // Nobody waits for it, and whoever finds the figure old counts again.
    if (news.recount) void countWaiting(deps.engine, deps.names).catch(() => undefined);
  }

  /** Jobs were written. */
  function hint(of: Hint): void {
    const inMs = sender.msUntil(of.since);
    if (inMs > 0) {
      // Hints carry tenths of a second, rounded down: the claim at that time says how long it really is. A walk does not.
      dueIn(inMs, of.buckets, CHECK_MS / 10);
      return;
    }
    source.hint(of);
    if (of.since === null) schedule.hint();
    // The buckets of a queue that is read by key have an owner, who answers first: its source knows when.
    else if (ordering === 'none') schedule.sharedHint();
    pump();
  }

  /** A job becomes due after this time, or so much later. */
  function dueIn(ms: number, buckets: readonly number[] | null, atMostLaterMs = 0): void {
    const at = time.now() + Math.max(0, ms) + 1;
    if (source.later) source.later(buckets, at);
    else schedule.due(at);
    source.due?.(at + atMostLaterMs);
    pump();
  }

  /** `blind`: no hint says what stands behind it. True: there may be something to read now. */
  function leave(held: LeasedJob, blind: boolean): boolean {
    const { row, how, claim, hasMore } = held;
    const freed = sender.left(held);
    const { limits } = sender;
    const released = how === 'released';
    const more = source.left({
      ...{ row, released, sentAt: claim.sentAt },
      freesKey: (ordering === 'turns' ? FREES_TURN : FREES_KEY).includes(how),
      // A job of a limited type is claimed without what stands behind it, and ends the run that stands before it.
      hasMore:
        hasMore || released || blind || limits?.whole === true || (limits?.types.length ?? 0) > 0,
    });
    return suspects.left(row) || more || freed;
  }

  /** Read as soon as there is room. */
  function wake(): void {
    schedule.hint();
    pump();
  }

  /** Claims if there is room and something to read; otherwise sees to it that it is called again. */
  function pump(): void {
    if (claiming || stopped || !deps.mayClaim()) return;
    const now = time.now();
    if (sender.mustPublish && !schedule.failing) {
      void exclusively('telling the permits of', () => sender.publish());
      return;
    }
    const room = deps.room();
    if (room <= 0) return;
    const readAt = Math.min(source.readAt(now, schedule.idle), suspects.readAt);
    const at = schedule.nextAt(now, readAt, deps.free());
    if (at > now) wait(at, now);
    else void exclusively('claiming from', () => read(now, room));
  }

  function wait(at: number, now: number): void {
    if (timer && timerAt <= at && timerAt > now) return;
    timer?.cancel();
    timer = null;
    // Until a hint, or what the polls of idle queues find.
    if (at === Number.POSITIVE_INFINITY) return;
    timerAt = at;
    timer = time.after(Math.min(at - now, UNIT_MS.d), () => {
      timer = null;
      pump();
    });
  }

  /** One statement of the queue's claims is under way at a time. */
  async function exclusively(what: string, run: () => Promise<void>): Promise<void> {
    claiming = true;
    try {
      await run();
    } catch (error) {
      deps.reportError(`${what} ${queue}`, error);
    } finally {
      claiming = false;
    }
    deps.ended();
    pump();
  }

  async function read(now: number, limit: number): Promise<void> {
    const ask = schedule.begin(now);
    const found = await claim(limit, ask).catch((error) => {
      schedule.failed();
      throw error;
    });
    if (found.news) {
      follow(found.news);
      schedule.record(found.news);
      deps.recordRound(queue, found.news.maintainedMs);
    }
    const wanted = schedule.succeeded(found, limit, wakeups.getsHints(queue));
    // A worker that only answers hints of others stays quiet.
    if (wanted !== null && (found.jobs > 0 || !wakeups.isQuiet(queue))) wakeups.want(queue, wanted);
    if (found.jobs > 0) busyAt = time.now();
  }

  async function claim(limit: number, ask: boolean): Promise<Found> {
    await sender.releaseUnknown();
    if (time.now() >= suspects.readAt && (await suspects.read(limit)))
      // Nothing may run beside it; the rest is read when it has left.
      return { jobs: limit, waitedMs: 0, news: null };
    return source.read(limit, ask);
  }

  return {
    ...{ hint, dueIn, wake, pump },
    get claiming() {
      return claiming;
    },
    /** It waits for a hint, and leaves its polls to others. */
    get idle() {
      return schedule.idle && !claiming;
    },
    isLimited: (type: string) => sender.isLimited(type),
    /** How the queue is read, and which buckets this worker reads first. */
    assign(order: Ordering, buckets: readonly number[]): void {
      if (order !== ordering)
        source =
          order === 'none'
            ? new TimeSource(sourceDeps)
            : new KeySource(sourceDeps, order === 'turns');
      ordering = order;
      source.own?.(buckets);
      source.useKeys?.(sender.limits?.keyed ?? []);
      wake();
    },
    /** Which types of the queue are limited. */
    limit(limits: LimitedTypes): void {
      if (!sender.limit(limits)) return;
      source.useKeys?.(limits.keyed);
      source.hint(ANY);
      wake();
    },
    /** What was found of an idle queue. */
    record(news: QueueNews): void {
      follow(news);
      if (time.now() - busyAt > QUIET_MS) wakeups.want(queue, null);
      if (news.suspects || (news.dueInMs ?? Number.POSITIVE_INFINITY) <= 0) wake();
      else if (news.dueInMs !== null) dueIn(news.dueInMs, null);
    },
    /** Hints arrive from now on; read what was written just before, and ask when the next job is due. */
    listening(): void {
      source.later?.(null, time.now());
      schedule.hint(true);
      pump();
    },
    /** A job has left this worker: its key may be free, or it waits again. */
    left(held: LeasedJob): void {
      if (leave(held, !wakeups.listening())) wake();
    },
    /** These were claimed too late to be run: nobody here holds them. */
    missed(jobs: readonly LeasedJob[]): void {
      for (const job of jobs) leave(job, false);
    },
    /** Under a new registration. */
    restart(): void {
      sender.ledger.reset();
      hint(ANY);
    },
    stop(): void {
      stopped = true;
      timer?.cancel();
    },
  };
}
