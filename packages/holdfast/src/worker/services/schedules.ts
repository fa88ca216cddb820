/**
 * The service that writes ticks. The worker of a queue whose id comes first sleeps until the next tick, or until an earlier
 * schedule is made. The others check now and then and write what is late, so a leader that is frozen or cut off is replaced
 * within seconds. Two that write at once do no harm: the statement moves each schedule once.
 */
import { MAX_ROWS } from '../../postgres/statement.js';
import type { DueTicks, Tick, WrittenTicks } from '../../schedule/tick.js';
import type { SharedDeps } from '../deps.js';
import { CHECK_MS, jittered, type Timer } from '../time.js';

/** Passes come no closer together than this, so that what is due one by one is written together. */
const PAUSE_MS = CHECK_MS / 20;
/** A tick that is later than this was left by somebody who is gone. */
const LATE_MS = 2 * CHECK_MS;

interface ScheduleDeps extends Pick<SharedDeps, 'queues' | 'time' | 'emit' | 'reportError'> {
  readonly read: (queues: readonly string[], limit: number) => Promise<DueTicks>;
  /** Work goes on on what is due in this queue. */
  readonly behind: (queue: string) => Promise<void>;
  readonly write: (queue: string, ticks: readonly Tick[]) => Promise<WrittenTicks[]>;
  readonly membership: { readonly leads: boolean; readonly size: number };
  readonly listening: () => boolean;
}

function inChunks(ticks: readonly Tick[]): Tick[][] {
  const chunks: Tick[][] = [];
  let room = 0;
  for (const tick of ticks) {
    // One that makes no job is a row that moves on.
    const rows = Math.max(1, tick.instants.length);
    if (rows > room) {
      chunks.push([]);
      room = MAX_ROWS;
    }
    chunks.at(-1)?.push(tick);
    room -= rows;
  }
  return chunks;
}

export type ScheduleTicker = ReturnType<typeof newScheduleTicker>;

export function newScheduleTicker(deps: ScheduleDeps) {
  const { queues, membership, time, emit, reportError } = deps;
  let timer: Timer | null = null;
  let [started, stopped, checking, again, led] = [false, false, false, false, false];
  /** For when the next check is planned, by the clock of the database. */
  let plannedFor = Number.POSITIVE_INFINITY;

  function plan(delayMs: number, at: number): void {
    timer?.cancel();
    if (stopped) return;
    plannedFor = at;
    timer = time.after(delayMs, () => void check());
  }

  async function check(): Promise<void> {
    if (stopped || checking || !started) return;
    checking = true;
    again = false;
    let next: { delayMs: number; at: number };
    try {
      next = await pass();
    } catch (error) {
      if (!stopped) reportError('schedules', error);
      next = { delayMs: jittered(CHECK_MS, time), at: 0 };
    }
    checking = false;
    if (again) plan(PAUSE_MS, 0);
    else plan(next.delayMs, next.at);
  }

  /** Writes what is due; returns when to check again. */
  async function pass(): Promise<{ delayMs: number; at: number }> {
    led = membership.leads;
    const began = time.now();
    const due = await deps.read(queues, MAX_ROWS);
    for (const { name, error } of due.unreadable) reportError(`schedule ${name}`, error);
    for (const queue of due.behind) await deps.behind(queue);
    let [late, wrote] = [false, false];
    let next = due.later ?? Number.POSITIVE_INFINITY;
    for (const [queue, all] of due.queues) {
      for (const ticks of inChunks(all)) {
        if (stopped) break;
        const written = await deps.write(queue, ticks);
        for (const { nextAt } of ticks) if (nextAt !== null) next = Math.min(next, nextAt);
        // Somebody has a row of theirs locked: it is still due.
        if (written.length < ticks.length) next = Math.min(next, due.now + CHECK_MS);
        emitTicks(queue, written);
        wrote ||= written.length > 0;
        late ||= written.some(({ lagMs }) => lagMs > LATE_MS);
      }
    }
    // All of them may be locked by somebody who declares them anew.
    if (due.full) return { delayMs: wrote ? 0 : CHECK_MS, at: 0 };
    const spent = time.now() - began;
    // What a notification missed is found after so long; without notifications that has to be soon.
    const longest = deps.listening() ? 5 * LATE_MS : CHECK_MS;
    // Together the others check once in so long, and each of them not more often than the leader.
    const seldom = late ? LATE_MS : Math.max(5, membership.size) * LATE_MS;
    const wait = led ? Math.min(next - due.now, longest) : jittered(seldom, time);
    // By the time of the database at the beginning of the read.
    return { delayMs: Math.max(PAUSE_MS, wait - spent), at: due.now + wait };
  }

  function emitTicks(queue: string, written: readonly WrittenTicks[]): void {
    if (written.length === 0) return;
    const sums = { jobs: 0, skipped: 0, missed: 0 };
    const types = new Map<string, number>();
    for (const { type, written: count, skipped, missed } of written) {
      sums.jobs += count;
      sums.skipped += skipped;
      sums.missed += missed;
      types.set(type, (types.get(type) ?? 0) + count);
    }
    for (const [type, count] of types)
      if (count > 0) emit({ kind: 'enqueued', queue, type, count, deduplicated: 0 });
    const lagsMs = written.filter((one) => one.written > 0).map(({ lagMs }) => lagMs);
    emit({ kind: 'ticked', queue, ...sums, lagsMs });
  }

  /** There is a schedule that fires at this time of the database; null: there may be one at any time. */
  function hint(at: number | null): void {
    if (!membership.leads) return;
    if (checking) again = true;
    else if (at === null || at < plannedFor) plan(PAUSE_MS, at ?? 0);
  }

  return {
    hint,
    start(): void {
      started = true;
      void check();
    },
    stop(): void {
      stopped = true;
      timer?.cancel();
    },
    /** The fleet has changed: who comes first now checks at once. */
    membersChanged(): void {
      if (membership.leads !== led) hint(null);
    },
  };
}
