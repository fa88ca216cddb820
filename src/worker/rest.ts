/**
 * Rest: what the loop of a queue does while it has nothing to read. It sleeps, if producers can wake it,
 * and has a timer for the next look in any case.
 */
import type { Sources } from './sources.js';
import type { Wakeups } from './wakeups.js';

/** A look that comes later than this means that the last one found nothing: time to sleep. */
const CALM_MS = 15;

export interface RestGround {
  readonly queue: string;
  readonly wakeups: Wakeups;
  readonly sources: Sources;
  /** Time for a look. */
  readonly look: () => void;
  /** Producers tell from now on; what came before they knew is to be looked for once more. */
  readonly lookEverywhere: () => void;
}

export class Rest {
  readonly #ground: RestGround;
  #asleep = false;
  #over = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(ground: RestGround) {
    this.#ground = ground;
  }

  /** There is a time for the next look, and it has not come. */
  get waits(): boolean {
    return this.#timer !== null;
  }

  get asleep(): boolean {
    return this.#asleep;
  }

  /** Nothing to read now. */
  begin(now: number): void {
    const { queue, wakeups, sources } = this.#ground;
    const idleMs = sources.idleMs(now);
    if (idleMs >= CALM_MS && !this.#asleep && wakeups.maySleep(queue)) void this.#fallAsleep();
    if (idleMs < Number.POSITIVE_INFINITY) this.until(idleMs * (1.125 + Math.random() * 0.125));
  }

  /** No look before that. */
  until(ms: number): void {
    this.interrupt();
    if (this.#over) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#ground.look();
    }, ms);
  }

  /** A look may come now. */
  interrupt(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** For good. */
  end(): void {
    this.#over = true;
    this.interrupt();
  }

  async #fallAsleep(): Promise<void> {
    const { queue, wakeups, sources, lookEverywhere } = this.#ground;
    this.#asleep = true;
    if (!(await wakeups.sleep(queue))) return this.risen();
    if (!this.#asleep) return;
    sources.asleep = true;
    lookEverywhere();
  }

  /** Nobody tells of new jobs any more; they have to be looked for. */
  risen(): void {
    this.#asleep = false;
    this.#ground.sources.asleep = false;
  }

  /** Too busy to be told of every job. */
  rise(): void {
    if (!this.#asleep) return;
    this.risen();
    this.#ground.wakeups.rise(this.#ground.queue);
  }
}
