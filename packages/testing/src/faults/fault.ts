/**
 * Faults that an attempt can meet, and the watchers that make them happen at a given step.
 *
 * A crash ends the attempt as the death of its process would: what it waits for never comes, its connections
 * are gone, its transactions rolled back. A cut breaks the connection at a commit, before or after it counted.
 */
import type { Step, WatchedClient, Watcher } from './steps.js';

/**
 * - `crash`: the process dies after the handler has ended and before the completion counts;
 * - `lease_lost`: another worker takes the job over and runs it while this attempt is in the middle;
 * - `delivered_twice`: another worker has the job too, and both run it at the same time;
 * - `commit_unanswered`: the database commits, and the connection breaks before the answer arrives;
 * - `commit_lost`: the connection breaks at COMMIT, and nothing was committed;
 * - `marker_lost`: the effect of `ctx.once` has run, and its marker is not written.
 */
export type Fault =
  | 'crash'
  | 'lease_lost'
  | 'delivered_twice'
  | 'commit_unanswered'
  | 'commit_lost'
  | 'marker_lost';

export const FAULTS: readonly Fault[] = [
  'crash',
  'lease_lost',
  'delivered_twice',
  'commit_unanswered',
  'commit_lost',
  'marker_lost',
];

/** Steps in which something becomes durable. */
export const COMMITS: readonly Step['kind'][] = ['commit', 'completion'];

/** Whether a step is the one at which to strike; asked once for each, in order. */
export type Where = (step: Step, index: number) => boolean;

export const atStep =
  (index: number): Where =>
  (_, at) =>
    at === index;

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

/** Breaks the connection at one step: before it counted, or after. */
export class Cut extends Recorder {
  readonly #where: Where;
  readonly #committed: boolean;
  struck: Step | null = null;

  constructor(where: Where, committed: boolean) {
    super();
    this.#where = where;
    this.#committed = committed;
  }

  #strikes(step: Step, index: number): boolean {
    if (this.struck || !this.#where(step, index)) return false;
    this.struck = step;
    return true;
  }

  override async before(step: Step): Promise<'go' | 'refuse'> {
    const index = this.steps.push(step) - 1;
    return !this.#committed && this.#strikes(step, index) ? 'refuse' : 'go';
  }

  override async after(step: Step): Promise<'go' | 'lose'> {
    return this.#committed && this.#strikes(step, this.steps.lastIndexOf(step)) ? 'lose' : 'go';
  }
}

/** Ends the attempt before one step. */
export class Crash extends Recorder {
  readonly #where: Where;
  #dead = false;
  #crashed: (step: Step) => void = () => {};
  /** Resolves when it has crashed. */
  readonly crashed = new Promise<Step>((resolve) => {
    this.#crashed = resolve;
  });

  constructor(where: Where) {
    super();
    this.#where = where;
  }

  override async before(step: Step): Promise<'go' | 'refuse'> {
    // Whatever else was under way does not go on either.
    if (this.#dead) return new Promise(() => {});
    const index = this.steps.push(step) - 1;
    if (!this.#where(step, index)) return 'go';
    this.#dead = true;
    for (const client of [...this.clients]) {
      await client.cut();
      client.release();
    }
    this.#crashed(step);
    return new Promise(() => {});
  }
}

/** Does something in the middle, before one step. */
export class Interrupt extends Recorder {
  readonly #where: Where;
  readonly #work: (step: Step) => Promise<void>;
  struck: Step | null = null;

  constructor(where: Where, work: (step: Step) => Promise<void>) {
    super();
    this.#where = where;
    this.#work = work;
  }

  override async before(step: Step): Promise<'go' | 'refuse'> {
    const index = this.steps.push(step) - 1;
    if (!this.struck && this.#where(step, index)) {
      this.struck = step;
      await this.#work(step);
    }
    return 'go';
  }
}
