/**
 * Faults that an attempt can meet, and the watchers that make them happen at a given step.
 * A crash ends the attempt as the death of its process would: what it waits for never comes, its connections
 * are gone, its transactions rolled back. A cut breaks the connection at a commit, before or after it counted.
 */
import type { Step, WatchedClient, Watcher } from './steps.js';

export const FAULTS = [
  ...(['crash', 'lease_lost', 'delivered_twice'] as const),
  ...(['commit_unanswered', 'commit_lost', 'marker_lost'] as const),
] as const;

/**
 * - `crash`: the process dies after the handler has ended and before the completion counts;
 * - `lease_lost`: another worker takes the job over and runs it while this attempt is in the middle;
 * - `delivered_twice`: another worker has the job too, and both run it at the same time;
 * - `commit_unanswered`: the database commits, and the connection breaks before the answer arrives;
 * - `commit_lost`: the connection breaks at COMMIT, and nothing was committed;
 * - `marker_lost`: the effect of `ctx.once` has run, and its marker is not written.
 */
export type Fault = (typeof FAULTS)[number];

/** Steps in which something becomes durable. */
export const COMMITS: readonly Step['kind'][] = ['commit', 'completion'];

/** Whether a step is the one at which to strike; asked once for each, in order. */
export type Where = (step: Step, index: number) => boolean;

/** Only watches, and remembers the steps. */
export class Recorder implements Watcher {
  settling = false;
  readonly clients = new Set<WatchedClient>();
  readonly steps: Step[] = [];

  async before(step: Step): Promise<'go' | 'refuse'> {
    this.steps.push(step);
    return 'go';
  }

  async after(_step: Step): Promise<'go' | 'lose'> {
    return 'go';
  }
}

/** Does something once, at one step. */
class Striking extends Recorder {
  readonly #where: Where;
  struck: Step | null = null;

  constructor(where: Where) {
    super();
    this.#where = where;
  }

  protected strikes(step: Step): boolean {
    if (this.struck || !this.#where(step, this.steps.lastIndexOf(step))) return false;
    this.struck = step;
    return true;
  }
}

/** Breaks the connection at one step: before it counted, or after. */
export class Cut extends Striking {
  readonly #committed: boolean;

  constructor(where: Where, committed: boolean) {
    super(where);
    this.#committed = committed;
  }

  override async before(step: Step): Promise<'go' | 'refuse'> {
    this.steps.push(step);
    return !this.#committed && this.strikes(step) ? 'refuse' : 'go';
  }

  override async after(step: Step): Promise<'go' | 'lose'> {
    return this.#committed && this.strikes(step) ? 'lose' : 'go';
  }
}

/** Ends the attempt before one step, or right after it. */
export class Crash extends Striking {
  readonly #isAfter: boolean;
  #crashed: (step: Step) => void = () => {};
  /** Resolves when it has crashed. */
  readonly crashed = new Promise<Step>((resolve) => {
    this.#crashed = resolve;
  });

  constructor(where: Where, isAfter = false) {
    super(where);
    this.#isAfter = isAfter;
  }

  override async before(step: Step): Promise<'go' | 'refuse'> {
    // Whatever else was under way does not go on either.
    if (this.struck) return new Promise(() => {});
    this.steps.push(step);
    return this.#isAfter || !this.strikes(step) ? 'go' : this.#crash(step);
  }

  override async after(step: Step): Promise<'go' | 'lose'> {
    if (this.struck) return new Promise(() => {});
    return this.#isAfter && this.strikes(step) ? this.#crash(step) : 'go';
  }

  async #crash(step: Step): Promise<never> {
    for (const client of [...this.clients]) {
      await client.cut();
      client.release();
    }
    this.#crashed(step);
    return new Promise(() => {});
  }
}

/** Does something in the middle, before one step. */
export class Interrupt extends Striking {
  readonly #work: (step: Step) => Promise<void>;

  constructor(where: Where, work: (step: Step) => Promise<void>) {
    super(where);
    this.#work = work;
  }

  override async before(step: Step): Promise<'go' | 'refuse'> {
    this.steps.push(step);
    if (this.strikes(step)) await this.#work(step);
    return 'go';
  }
}
