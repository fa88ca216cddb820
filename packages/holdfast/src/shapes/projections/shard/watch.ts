/**
 * When to look for events: every 20 ms while there are some, and for a moment after the last; then a notification is
 * waited for, and every second it is looked anyway. Without notifications (a pooler) it is looked four times a second.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Wait } from './wait.js';

const BUSY_POLL_MS = 20;
const BUSY_MS = 200;
const IDLE_POLL_MS = 1_000;
const DEAF_POLL_MS = 250;

export interface Hints {
  /** Ask for notifications, or no more. Resolves with whether they arrive from now on. */
  readonly want: (on: boolean) => Promise<boolean>;
}

export class Watch {
  readonly #hints: Hints;
  #foundAt = performance.now();
  #wanting: Promise<boolean> | null = null;
  /** Since when notifications arrive. */
  #onAt = 0;
  /** How many notifications have arrived: each may be an operator's. */
  hints = 0;
  readonly #waits = new Set<Wait>();

  constructor(hints: Hints) {
    this.#hints = hints;
  }

  /** There were events, or somebody said that there are. */
  found(): void {
    this.#foundAt = performance.now();
    if (this.#wanting === null) return;
    this.#wanting = null;
    void this.#hints.want(false).catch(() => undefined);
  }

  /** A notification has arrived. */
  hinted(): void {
    this.hints++;
    this.found();
    for (const wait of this.#waits) wait.end();
  }

  /** Until it is time to look again. */
  async wait(signal: AbortSignal): Promise<void> {
    if (performance.now() - this.#foundAt < BUSY_MS) return this.pause(BUSY_POLL_MS, signal);
    const lookedAt = performance.now();
    this.#wanting ??= this.#listen();
    const on = await this.#wanting;
    // What was committed between that look and the first moment of listening has sent nothing: look once more.
    if (on && lookedAt <= this.#onAt) return;
    await this.pause(on ? IDLE_POLL_MS : DEAF_POLL_MS, signal);
  }

  async #listen(): Promise<boolean> {
    const on = await this.#hints.want(true).catch(() => false);
    this.#onAt = performance.now();
    return on;
  }

  /** For a while; less if the signal is aborted or a notification arrives. */
  async pause(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const wait = new Wait();
    const end = () => wait.end();
    this.#waits.add(wait);
    signal.addEventListener('abort', end, { once: true });
    try {
      await Promise.race([wait.ended, sleep(ms, undefined, { signal: wait.signal })]).catch(
        () => undefined,
      );
    } finally {
      wait.end();
      this.#waits.delete(wait);
      signal.removeEventListener('abort', end);
    }
  }
}
