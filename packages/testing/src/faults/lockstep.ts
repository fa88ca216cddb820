/**
 * Two attempts of one job at the same time, step by step: neither takes a step before the other has come to it. So a
 * handler that looks first and writes then is found, without luck.
 *
 * `ctx.once` is the exception: the attempt whose lease is gone enters it when the owner has left it. Inside of a
 * transaction nobody waits, because the other one may wait for its locks.
 */
// A test may have replaced the global ones.
import { clearTimeout, setTimeout } from 'node:timers';
import { Recorder } from './fault.js';
import type { Step } from './steps.js';

/** Whoever waits for the other one longer than this goes on. */
export const PATIENCE_MS = 5_000;

export class Lockstep extends Recorder {
  readonly #owner: boolean;
  #other: Lockstep | null = null;
  /** How many steps it has come to at which both meet. */
  #met = 0;
  /** Of the owner: how many effects have their marker. Of the other: how many it has come to. */
  #markers = 0;
  #over = false;
  // A handler may have several steps under way.
  readonly #waiting = new Set<() => void>();

  private constructor(owner: boolean) {
    super();
    this.#owner = owner;
  }

  static pair(): { owner: Lockstep; stale: Lockstep } {
    const [owner, stale] = [new Lockstep(true), new Lockstep(false)];
    [owner.#other, stale.#other] = [stale, owner];
    return { owner, stale };
  }

  /** The attempt has ended; the other one need not wait for it any more. */
  over(): void {
    this.#over = true;
    (this.#other as Lockstep).#wake();
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
  }

  override async before(step: Step): Promise<'go' | 'refuse'> {
    this.steps.push(step);
    const other = this.#other as Lockstep;
    if (step.kind === 'once' && !this.#owner) {
      const wanted = ++this.#markers;
      await this.#until(() => other.#markers >= wanted);
    } else if (step.kind === 'begin' || step.kind === 'query' || step.kind === 'completion') {
      const place = ++this.#met;
      other.#wake();
      await this.#until(() => other.#met >= place);
    }
    return 'go';
  }

  override async after(step: Step): Promise<'go' | 'lose'> {
    if (step.kind === 'marker' && this.#owner) {
      this.#markers++;
      (this.#other as Lockstep).#wake();
    }
    return 'go';
  }

  async #until(holds: () => boolean): Promise<void> {
    const other = this.#other as Lockstep;
    let patient = true;
    let wake = () => {};
    const timer = setTimeout(() => {
      patient = false;
      wake();
    }, PATIENCE_MS);
    while (patient && !other.#over && !holds()) {
      await new Promise<void>((resolve) => {
        wake = resolve;
        this.#waiting.add(resolve);
      });
      this.#waiting.delete(wake);
    }
    clearTimeout(timer);
  }
}
