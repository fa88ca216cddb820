/**
 * Keeps a relay from hammering a broker that does not answer. It opens with the first fault. From then on one message at a
 * time asks whether the broker is back, after pauses that double up to a bound; the others wait for its answer. The first
 * message that gets through closes it. Faults of messages that were sent before it opened change nothing.
 */

/** The right to send one message. Exactly one of its methods is called. */
export interface Permit {
  /** It asks whether the broker is back. */
  readonly isProbe: boolean;
  /** The broker answered. */
  succeeded(): void;
  /** It did not. True: this fault opened the breaker. */
  failed(retryAfterMs: number | null): boolean;
  /** Nothing was sent. */
  returned(): void;
}

export interface Pauses {
  readonly baseMs: number;
  readonly capMs: number;
  /** From 0 to 1. */
  readonly random: () => number;
}

type Waiter = (permit: Permit) => void;

export class Breaker {
  readonly #pauses: Pauses;
  readonly #waiters = new Set<Waiter>();
  #openSince: number | null = null;
  #retryAt = 0;
  #probing = false;
  #pauseMs = 0;
  /** Raised whenever it opens: what was sent before does not count any more. */
  #episode = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(pauses: Pauses) {
    this.#pauses = pauses;
  }

  /** Since when it is open, by `performance.now()`; null: it is closed. */
  get openSince(): number | null {
    return this.#openSince;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** How long until somebody may ask again; 0: now, or it is closed. */
  get retryInMs(): number {
    return this.#openSince === null ? 0 : Math.max(0, this.#retryAt - performance.now());
  }

  /** Null: wait, or come again. */
  acquire(): Permit | null {
    if (this.#openSince === null) return this.#permit(false);
    if (this.#probing || this.#waiters.size > 0 || this.retryInMs > 0) return null;
    return this.#permit(true);
  }

  /** Calls it with a permit when its turn comes. Returns what takes it out of the line. */
  wait(waiter: Waiter): () => void {
    this.#waiters.add(waiter);
    this.#schedule();
    return () => void this.#waiters.delete(waiter);
  }

  /** As if a message had failed. */
  open(retryAfterMs: number | null = null): void {
    if (this.#openSince !== null) return;
    this.#openSince = performance.now();
    this.#episode++;
    this.#pauseMs = 0;
    this.#pause(retryAfterMs);
  }

  #permit(probe: boolean): Permit {
    if (probe) this.#probing = true;
    const episode = this.#episode;
    const end = () => {
      if (probe) this.#probing = false;
    };
    return {
      isProbe: probe,
      succeeded: () => {
        end();
        // An answer to what was sent before the fault says nothing about now.
        if (this.#openSince !== null && episode === this.#episode) this.#close();
      },
      failed: (retryAfterMs) => {
        end();
        if (probe) this.#pause(retryAfterMs);
        else if (this.#openSince === null && episode === this.#episode) {
          this.open(retryAfterMs);
          return true;
        }
        return false;
      },
      returned: () => {
        end();
        if (probe) this.#schedule();
      },
    };
  }

  #pause(retryAfterMs: number | null): void {
    const { baseMs, capMs, random } = this.#pauses;
    this.#pauseMs = Math.min(capMs, this.#pauseMs === 0 ? baseMs : this.#pauseMs * 2);
    const pauseMs = this.#pauseMs * (0.75 + random() / 2);
    this.#retryAt = performance.now() + Math.max(pauseMs, retryAfterMs ?? 0);
    this.#schedule();
  }

  /** The first in line asks next; one that failed has gone to its end. */
  #schedule(): void {
    if (this.#timer || this.#waiters.size === 0 || this.#probing) return;
    const next = () => {
      this.#timer = null;
      if (this.#probing || this.#openSince === null) return;
      if (this.retryInMs > 0) return this.#schedule();
      const [first] = this.#waiters;
      if (!first) return;
      this.#waiters.delete(first);
      first(this.#permit(true));
    };
    this.#timer = setTimeout(next, Math.ceil(this.retryInMs));
  }

  #close(): void {
    this.#openSince = null;
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    const all = [...this.#waiters];
    this.#waiters.clear();
    for (const one of all) one(this.#permit(false));
  }
}
