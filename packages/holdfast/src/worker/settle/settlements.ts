/**
 * Settlements: settles of one kind become statements, many at a time. While one statement is in flight the next group
 * gathers, so a lone job settles at once and a flood shares its commits. Nothing is settled under an id that may be dead.
 *
 * When the connection breaks, the statement is sent again: the fence makes that safe. A statement that is refused,
 * cancelled or held up by a lock is halved until the job to blame is alone. A refusal that is not about the jobs, such as a
 * missing right or a locked table, is nobody's failure: the settles are kept and tried again (kept.ts).
 */
import { Backoff, pause } from '../../postgres/connect/backoff.js';
import { mayPass } from '../../postgres/connect/pool.js';
import { isHeldUp, isRefusedToAll, isTableLocked } from '../../postgres/connect/transient.js';
import { MAX_ROWS } from '../../postgres/statement.js';
import type { Settled } from '../../settle/settled.js';
import type { SharedDeps } from '../deps.js';
import type { SettleResult, StatementName } from '../events.js';
import { PACE_MS, SOON_MS, Wait } from '../time.js';
import { type Answer, type Done, newKept, type Results, sendable, type Waiting } from './kept.js';

export type Run<T> = (workerId: string, items: readonly T[]) => Promise<Results>;

interface SettlementsOptions<T> {
  readonly afterLoss?: Run<T>;
  /** At least `PACE_MS` from one statement to the next. */
  readonly gathers?: boolean;
  /** The same job in words that the database takes; null: its words are not the reason. */
  readonly reword?: (item: T, error: unknown) => T | null;
  /** A job that is refused is kept and tried again: there is no other way to settle it. */
  readonly retryRefused?: boolean;
}

export interface SettlementsDeps extends Pick<SharedDeps, 'standing' | 'time' | 'reportError'> {
  readonly took: (statement: StatementName, ms: number) => void;
  /** Aborted when the worker gives up waiting for the database at the very end. */
  readonly abandoned: AbortSignal;
  /** So many jobs more, or fewer, have ended and are kept. Left out: what is refused to everybody is refused. */
  readonly kept?: (change: number, error: unknown) => void;
}

export type Settlements<T extends Settled> = ReturnType<typeof newSettlements<T>>;

export function newSettlements<T extends Settled>(
  deps: SettlementsDeps,
  statement: StatementName,
  run: Run<T>,
  { afterLoss, gathers = false, reword, retryRefused }: SettlementsOptions<T> = {},
) {
  const { time, took, reportError, abandoned, kept } = deps;
  const keeps = newKept<T>({
    ...deps,
    ask: (group) => ask(group, true),
    alone: (one, answer) => void sendAlone(one, answer),
  });
  const waiting: Waiting<T>[] = [];
  let busy = false;
  let flushed = false;
  let sentAt = Number.NEGATIVE_INFINITY;
  const gathering = new Wait();

  async function drain(): Promise<void> {
    try {
      while (waiting.length > 0) {
        const earlyMs = sentAt + PACE_MS - time.now();
        if (gathers && !flushed && earlyMs > 0) await gathering.atMost(earlyMs, time);
        sentAt = time.now();
        const owner = waiting[0]?.workerId;
        let count = 0;
        while (count < MAX_ROWS && waiting[count]?.workerId === owner) count++;
        const whole = sendable(waiting.splice(0, count)).filter((one) => {
          const behind = keeps.has(one.item.after);
          if (behind) keeps.add([one], null);
          return !behind;
        });
        if (whole.length > 0) await send(whole);
      }
    } finally {
      busy = false;
    }
  }

  /** `again`: some of it may have been done before. */
  async function send(group: readonly Waiting<T>[], again = false): Promise<void> {
    const answer = await ask(group, again);
    if (typeof answer === 'function') {
      for (const { item, done } of group) done(answer(item.id));
    } else if (answer === 'abandoned') {
      for (const { done } of group) done('lost');
    } else if (typeof answer === 'object' && answer.ofAll) {
      keeps.add(group, answer.error);
    } else if (group.length === 1) {
      // It goes on by itself, and the others do not wait for it.
      void sendAlone(group[0] as Waiting<T>, answer);
    } else {
      const half = Math.ceil(group.length / 2);
      await send(group.slice(0, half), true);
      await send(group.slice(half), true);
    }
  }

  async function sendAlone({ workerId, item, done }: Waiting<T>, first: Answer): Promise<void> {
    const backoff = new Backoff();
    let [answer, asked] = [first, item];
    while (typeof answer !== 'function') {
      const refused = typeof answer === 'object' ? answer : null;
      const reworded = refused && !refused.ofAll && reword?.(asked, refused.error);
      if (reworded) asked = reworded;
      else if (refused && !refused.ofAll && !retryRefused) return done(refused);
      else if (answer === 'abandoned' || abandoned.aborted) return done('lost');
      else if (refused?.ofAll) return keeps.add([{ workerId, item: asked, done }], refused.error);
      else await pause(backoff.nextMs(), abandoned);
      answer = await ask([{ workerId, item: asked, done }], true);
    }
    done(answer(item.id));
  }

  /** Asks until the database has answered; an answer that got lost is searched for, also by a worker that is dead now. */
  async function ask(group: readonly Waiting<T>[], again: boolean): Promise<Answer> {
    const workerId = group[0]?.workerId as string;
    const items = group.map(({ item }) => item);
    const backoff = new Backoff();
    for (let answerLost = again; ; answerLost = true) {
      try {
        const alive = await isAlive(deps, workerId);
        const from = time.now();
        const results: Results = alive ? await run(workerId, items) : () => 'lost';
        if (alive) took(statement, time.now() - from);
        if (!answerLost || !afterLoss) return results;
        const missing = items.filter(({ id }) => results(id) === 'lost');
        if (missing.length === 0) return results;
        const before = await afterLoss(workerId, missing);
        return (id) => (results(id) === 'lost' ? before(id) : results(id));
      } catch (error) {
        reportError(`settling ${items.length} jobs`, error);
        if (kept && isTableLocked(error)) return { error, ofAll: true };
        if (isHeldUp(error)) return 'held up';
        if (!mayPass(error)) return { error, ofAll: kept !== undefined && isRefusedToAll(error) };
        if (abandoned.aborted) return 'abandoned';
        await pause(backoff.nextMs(), abandoned);
      }
    }
  }

  return {
    add(workerId: string, item: T, done: Done): void {
      waiting.push({ workerId, item, done });
      if (busy) return;
      busy = true;
      // Everything that ends in this tick of the event loop shares the first statement.
      time.soon(() => void drain());
    },
    /** From now on nothing waits for others. */
    flush(): void {
      flushed = true;
      gathering.end();
    },
  };
}

/** Before every statement, also one that is sent again: waits until it is known whether the worker lives. */
export async function isAlive(
  { standing, abandoned }: Pick<SettlementsDeps, 'standing' | 'abandoned'>,
  workerId: string,
): Promise<boolean> {
  while (standing(workerId) === 'unknown' && !abandoned.aborted) await pause(SOON_MS, abandoned);
  return standing(workerId) !== 'dead';
}

export function resultsOf(ids: readonly string[], result: SettleResult, all: number): Results {
  if (ids.length === all) return () => result;
  const moved = new Set(ids);
  return (id) => (moved.has(id) ? result : 'lost');
}
