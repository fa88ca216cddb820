/**
 * Settles that the database takes from nobody just now: a right was revoked, a table is gone or locked. They are tried
 * again in one statement, later and later, while the keeper renews the leases. If that is refused, a few are tried one by
 * one: where the reason is one type or one job after all, the others do not wait for it.
 */
import { Backoff, pause } from '../../postgres/connect/backoff.js';
import { MAX_ROWS } from '../../postgres/statement.js';
import type { Settled } from '../../settle/settled.js';
import type { SettlementsDeps } from './settlements.js';
import { type Answer, Refusal, sendable, type Waiting } from './waiting.js';

/** So many are tried one by one in a round. */
const SINGLES = 8;

interface KeptDeps<T> extends Pick<SettlementsDeps, 'abandoned' | 'kept'> {
  readonly ask: (group: readonly Waiting<T>[]) => Promise<Answer>;
  /** It is the job itself that is refused. */
  readonly alone: (one: Waiting<T>, answer: Answer) => void;
}

export class Kept<T extends Settled> {
  readonly #deps: KeptDeps<T>;
  /** By id, in the order in which they are tried. */
  readonly #jobs = new Map<string, Waiting<T>[]>();
  #busy = false;

  constructor(deps: KeptDeps<T>) {
    this.#deps = deps;
  }

  has(id: string | null | undefined): boolean {
    return id != null && this.#jobs.has(id);
  }

  /** `error`: null where they only wait for a job that is kept. */
  add(group: readonly Waiting<T>[], error: unknown): void {
    for (const one of group) {
      const { id } = one.item;
      this.#jobs.set(id, [...(this.#jobs.get(id) ?? []), one]);
    }
    this.#deps.kept?.(group.length, error);
    if (this.#busy) return;
    this.#busy = true;
    void this.#run();
  }

  async #run(): Promise<void> {
    const { abandoned } = this.#deps;
    const backoff = new Backoff();
    while (this.#jobs.size > 0) {
      await pause(backoff.nextMs(), abandoned);
      if (await this.#round()) backoff.reset();
    }
    this.#busy = false;
  }

  /** True: at least one of them has left. */
  async #round(): Promise<boolean> {
    const all = this.#owned();
    const group = sendable(all);
    // Those that cannot count any more have been told so.
    const sent = new Set(group);
    this.#remove(all.filter((one) => !sent.has(one)));
    if (group.length === 0 || (await this.#try(group))) return true;
    if (group.length === 1) return false;
    let moved = false;
    const first = all.filter((one) => sent.has(one) && !this.has(one.item.after));
    for (const one of first.slice(0, SINGLES)) {
      const { id } = one.item;
      if (await this.#try([one])) moved = true;
      else {
        // Others are tried before it in the next round.
        const jobs = this.#jobs.get(id) as Waiting<T>[];
        this.#jobs.delete(id);
        this.#jobs.set(id, jobs);
      }
    }
    return moved;
  }

  /** Of one worker id: after a registration under a new one, some may be of the old. */
  #owned(): Waiting<T>[] {
    const all = [...this.#jobs.values()].flat();
    const owner = all[0]?.workerId;
    return all.filter(({ workerId }) => workerId === owner).slice(0, MAX_ROWS);
  }

  async #try(group: readonly Waiting<T>[]): Promise<boolean> {
    const { ask, alone, abandoned } = this.#deps;
    const answer = await ask(group);
    let tell: (one: Waiting<T>) => void;
    if (typeof answer === 'function') tell = ({ item, done }) => done(answer(item.id));
    else if (answer === 'abandoned' || abandoned.aborted) tell = ({ done }) => done('lost');
    else if (group.length > 1 || (answer instanceof Refusal && answer.ofAll)) return false;
    else tell = (one) => alone(one, answer);
    this.#remove(group);
    for (const one of group) tell(one);
    return true;
  }

  #remove(group: readonly Waiting<T>[]): void {
    for (const one of group) {
      const { id } = one.item;
      const rest = (this.#jobs.get(id) ?? []).filter((other) => other !== one);
      if (rest.length > 0) this.#jobs.set(id, rest);
      else this.#jobs.delete(id);
    }
    if (group.length > 0) this.#deps.kept?.(-group.length, null);
  }
}
