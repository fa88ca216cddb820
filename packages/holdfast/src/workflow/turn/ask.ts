/** One thing that the body of a workflow asked for in a turn: a step, a wait, children. */
import { failedOf } from '../errors.js';
import type { UndoAbout } from '../flow.js';
import type { Kind, Marker, NewWait } from '../marker.js';
import type { ChildOutcome } from './ports.js';

/** What undoes a step: in a transaction of its own, or outside. */
export interface Undo {
  readonly inTransaction: boolean;
  readonly run: (tx: unknown, value: unknown, about: UndoAbout) => unknown;
}

export interface AskOf {
  readonly name: string;
  readonly kind: Kind;
  /** Null: it is only waited for. */
  readonly effect: ((ask: Ask) => Promise<void>) | null;
  readonly wait?: Pick<NewWait, 'signals' | 'ms' | 'at'>;
  readonly undo?: Undo | undefined;
  readonly tries?: Tries;
  /** From the value that its marker keeps. */
  readonly decode: (
    value: string | null,
    outcomes: () => Promise<readonly ChildOutcome[]>,
  ) => unknown;
}

/** How a step is tried. */
export interface Tries {
  readonly maxAttempts: number;
  readonly timeoutMs: number | null;
  readonly delayMs: (attempt: number, error: unknown) => number;
}

export class Ask {
  readonly of: AskOf;
  readonly nth: number;
  readonly answer: Promise<unknown>;
  begun = false;
  over = false;
  /** What the next suspension writes of it. */
  wait: NewWait | null = null;
  /** How it ended. */
  marker: Marker | null = null;
  #resolve: (value: unknown) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(of: AskOf, nth: number) {
    this.of = of;
    this.nth = nth;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    if (of.wait) this.wait = { name: of.name, kind: of.kind, nth, ...of.wait };
  }

  get name(): string {
    return this.of.name;
  }

  async settle(marker: Marker, outcomes: () => Promise<readonly ChildOutcome[]>): Promise<void> {
    this.over = true;
    this.marker = marker;
    if (marker.error !== null) return this.#reject(failedOf(this.name, marker.error));
    try {
      this.#resolve(await this.of.decode(marker.value, outcomes));
    } catch (error) {
      this.#reject(error);
      throw error;
    }
  }

  /** It ends the turn if nobody catches it, and nothing of it is recorded. */
  reject(error: unknown): void {
    this.over = true;
    this.#reject(error);
  }
}
