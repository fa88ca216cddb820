/**
 * Settles that wait to be sent, and those that the database takes from nobody just now. These are kept and tried again in
 * one statement, later and later, while the keeper renews the leases. If that is refused, a few are tried one by one.
 */
import { Backoff, pause } from '../../postgres/connect/backoff.js';
import { MAX_ROWS } from '../../postgres/statement.js';
import type { Settled } from '../../settle/settled.js';
import type { SettleResult } from '../events.js';

export type Results = (id: string) => SettleResult;
export type Done = (result: SettleResult | Refusal) => void;
/** `held up`: it may go better later. `abandoned`: nobody waits for an answer any more. */
export type Answer = Results | Refusal | 'held up' | 'abandoned';

/** Postgres refuses to settle a job in this way, and will refuse it again. */
export interface Refusal {
  readonly error: unknown;
  /** It takes no settle of this kind just now, of whichever job. */
  readonly ofAll: boolean;
}

export interface Waiting<T> {
  readonly workerId: string;
  readonly item: T;
  readonly done: Done;
}

/**
 * Those that may still count, in the order in which locks are taken: two groups cannot deadlock. What ran before a job may
 * have been lost: nothing behind that may count. And a job that was claimed again has one result in a statement.
 */
export function sendable<T extends Settled>(group: readonly Waiting<T>[]): Waiting<T>[] {
  const newest = new Map<string, number>();
  for (const { item } of group)
    newest.set(item.id, Math.max(item.generation, newest.get(item.id) ?? 0));
  const twice = newest.size < group.length;
  const whole = group.filter(({ item, done }) => {
    const older = twice && item.generation < (newest.get(item.id) ?? 0);
    const broken = older || item.broken?.() === true;
    if (broken) done('lost');
    return !broken;
  });
  return whole.sort((a, b) => (a.item.id < b.item.id ? -1 : 1));
}

/** At most so many are tried one by one in a round. */
const SINGLES = 8;

interface KeptDeps<T> {
  readonly abandoned: AbortSignal;
  readonly kept?: (change: number, error: unknown) => void;
  readonly ask: (group: readonly Waiting<T>[]) => Promise<Answer>;
  /** It is the job itself that is refused. */
  readonly alone: (one: Waiting<T>, answer: Answer) => void;
}

export function newKept<T extends Settled>({ abandoned, kept, ask, alone }: KeptDeps<T>) {
  /** By id, in the order in which they are tried. */
  const jobs = new Map<string, Waiting<T>[]>();
  let busy = false;

  const has = (id: string | null | undefined): boolean => id != null && jobs.has(id);

  function remove(group: readonly Waiting<T>[]): void {
    for (const one of group) {
      const { id } = one.item;
      const rest = (jobs.get(id) ?? []).filter((other) => other !== one);
      if (rest.length > 0) jobs.set(id, rest);
      else jobs.delete(id);
    }
    if (group.length > 0) kept?.(-group.length, null);
  }

  async function send(group: readonly Waiting<T>[]): Promise<boolean> {
    const answer = await ask(group);
    let tell: (one: Waiting<T>) => void;
    if (typeof answer === 'function') tell = ({ item, done }) => done(answer(item.id));
    else if (answer === 'abandoned' || abandoned.aborted) tell = ({ done }) => done('lost');
    else if (group.length > 1 || (typeof answer === 'object' && answer.ofAll)) return false;
    else tell = (one) => alone(one, answer);
    remove(group);
    for (const one of group) tell(one);
    return true;
  }

  async function round(): Promise<boolean> {
    const waiting = [...jobs.values()].flat();
    // Of one worker id: after a registration under a new one, some may be of the old.
    const owner = waiting[0]?.workerId;
    const all = waiting.filter(({ workerId }) => workerId === owner).slice(0, MAX_ROWS);
    const group = sendable(all);
    // Those that cannot count any more have been told so.
    const sent = new Set(group);
    remove(all.filter((one) => !sent.has(one)));
    if (group.length === 0 || (await send(group))) return true;
    if (group.length === 1) return false;
    let moved = false;
    const first = all.filter((one) => sent.has(one) && !has(one.item.after));
    for (const one of first.slice(0, SINGLES)) {
      if (await send([one])) moved = true;
      else {
        // Others are tried before it in the next round.
        const { id } = one.item;
        const those = jobs.get(id) as Waiting<T>[];
        jobs.delete(id);
        jobs.set(id, those);
      }
    }
    return moved;
  }

  async function run(): Promise<void> {
    const backoff = new Backoff();
    while (jobs.size > 0) {
      await pause(backoff.nextMs(), abandoned);
      if (await round()) backoff.reset();
    }
    busy = false;
  }

  /** `error`: null where they only wait for a job that is kept. */
  function add(group: readonly Waiting<T>[], error: unknown): void {
    for (const one of group) jobs.set(one.item.id, [...(jobs.get(one.item.id) ?? []), one]);
    kept?.(group.length, error);
    if (busy) return;
    busy = true;
    void run();
  }

  return { has, add };
}
