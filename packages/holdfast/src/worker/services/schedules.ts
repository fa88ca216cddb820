/**
 * The service that writes ticks. One worker of a queue does it on time, the one whose id comes first; it sleeps until the
 * next tick and is woken when a schedule is made that fires earlier. The others check now and then, more rarely the more
 * they are, and write what they find late: so a leader that is frozen or cut off is replaced within seconds. Two that write
 * at once do no harm: the statement moves each schedule once.
 */
import { MAX_ROWS } from '../../postgres/statement.js';
import type { DueTicks, Tick, WrittenTicks } from '../../schedule/tick.js';
import type { SharedDeps } from '../deps.js';
import { CHECK_MS, jittered, type Timer } from '../time.js';

/** Passes come no closer together than this, so that what is due one by one is written together. */
const PAUSE_MS = CHECK_MS / 20;
/** A tick that is later than this was left by somebody who is gone. */
const LATE_MS = 2 * CHECK_MS;

export interface ScheduleDeps extends Pick<SharedDeps, 'queues' | 'time' | 'emit' | 'reportError'> {
  readonly read: (queues: readonly string[], limit: number) => Promise<DueTicks>;
  /** Work goes on on what is due in this queue. */
  readonly behind: (queue: string) => Promise<void>;
  readonly write: (queue: string, ticks: readonly Tick[]) => Promise<WrittenTicks[]>;
  readonly membership: { readonly leads: boolean; readonly size: number };
  readonly listening: () => boolean;
}

function inChunks(ticks: readonly Tick[]): Tick[][] {
  const chunks: Tick[][] = [];
  let chunk: Tick[] = [];
  let rows = MAX_ROWS;
  for (const tick of ticks) {
    // One that makes no job is a row that moves on.
    const more = Math.max(1, tick.instants.length);
    if (rows + more > MAX_ROWS) {
      chunk = [];
      chunks.push(chunk);
      rows = 0;
    }
    chunk.push(tick);
    rows += more;
  }
  return chunks;
}

export class ScheduleTicker {
  readonly #deps: ScheduleDeps;
  #timer: Timer | null = null;
  #started = false;
  #stopped = false;
  #checking = false;
  #again = false;
  #led = false;
  /** For when the next check is planned, by the clock of the database. */
  #plannedFor = Number.POSITIVE_INFINITY;

  constructor(deps: ScheduleDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#started = true;
    void this.#check();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  /** There is a schedule that fires at this time of the database; null: there may be one at any time. */
  hint(at: number | null): void {
    if (!this.#deps.membership.leads) return;
    if (this.#checking) this.#again = true;
    else if (at === null || at < this.#plannedFor) this.#plan(PAUSE_MS, at ?? 0);
  }

  /** The fleet has changed: who comes first now checks at once. */
  membersChanged(): void {
    if (this.#deps.membership.leads !== this.#led) this.hint(null);
  }

  async #check(): Promise<void> {
    if (this.#stopped || this.#checking || !this.#started) return;
    this.#checking = true;
    this.#again = false;
    let plan: { delayMs: number; at: number };
    try {
      plan = await this.#pass();
    } catch (error) {
      if (!this.#stopped) this.#deps.reportError('schedules', error);
      plan = { delayMs: jittered(CHECK_MS, this.#deps.time), at: 0 };
    }
    this.#checking = false;
    if (this.#again) this.#plan(PAUSE_MS, 0);
    else this.#plan(plan.delayMs, plan.at);
  }

  /** Writes what is due; returns when to check again. */
  async #pass(): Promise<{ delayMs: number; at: number }> {
    const { queues, read, behind, write, membership, listening, time, reportError } = this.#deps;
    this.#led = membership.leads;
    const began = time.now();
    const due = await read(queues, MAX_ROWS);
    for (const { name, error } of due.unreadable) reportError(`schedule ${name}`, error);
    for (const queue of due.behind) await behind(queue);
    let [late, wrote] = [false, false];
    let next = due.later ?? Number.POSITIVE_INFINITY;
    for (const [queue, all] of due.queues) {
      for (const ticks of inChunks(all)) {
        if (this.#stopped) break;
        const written = await write(queue, ticks);
        for (const { nextAt } of ticks) if (nextAt !== null) next = Math.min(next, nextAt);
        // Somebody has a row of theirs locked: it is still due.
        if (written.length < ticks.length) next = Math.min(next, due.now + CHECK_MS);
        this.#emitTicks(queue, written);
        wrote ||= written.length > 0;
        late ||= written.some(({ lagMs }) => lagMs > LATE_MS);
      }
    }
    // All of them may be locked by somebody who declares them anew.
    if (due.full) return { delayMs: wrote ? 0 : CHECK_MS, at: 0 };
    const left = next - due.now;
    const spent = time.now() - began;
    // What a notification missed is found after so long; without notifications that has to be soon.
    const longest = listening() ? 5 * LATE_MS : CHECK_MS;
    // Together the others check once in so long, and each of them not more often than the leader.
    const seldom = late ? LATE_MS : Math.max(5, membership.size) * LATE_MS;
    const wait = this.#led ? Math.min(left, longest) : jittered(seldom, time);
    // By the time of the database at the beginning of the read.
    return { delayMs: Math.max(PAUSE_MS, wait - spent), at: due.now + wait };
  }

  #plan(delayMs: number, at: number): void {
    this.#timer?.cancel();
    if (this.#stopped) return;
    this.#plannedFor = at;
    this.#timer = this.#deps.time.after(delayMs, () => void this.#check());
  }

  #emitTicks(queue: string, written: readonly WrittenTicks[]): void {
    if (written.length === 0) return;
    const sum = (of: (one: WrittenTicks) => number) =>
      written.reduce((total, one) => total + of(one), 0);
    const types = new Map<string, number>();
    for (const { type, written: count } of written) types.set(type, (types.get(type) ?? 0) + count);
    for (const [type, count] of types) {
      if (count > 0) this.#deps.emit({ kind: 'enqueued', queue, type, count, deduplicated: 0 });
    }
    this.#deps.emit({
      ...{ kind: 'ticked', queue, jobs: sum((one) => one.written) },
      ...{ skipped: sum((one) => one.skipped), missed: sum((one) => one.missed) },
      lagsMs: written.filter((one) => one.written > 0).map(({ lagMs }) => lagMs),
    });
  }
}
