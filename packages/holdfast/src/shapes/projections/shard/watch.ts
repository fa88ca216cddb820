/**
 * When to look for events. While few are appended, each append sends a notification, and it is asked in between every
 * two seconds only. Where more than some dozen a second are, notifications are refused, and it is looked every 20 ms. Without
 * notifications (a pooler) it is looked four times a second, and every 20 ms while there are events.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Wait } from './wait.js';

const BUSY_POLL_MS = 20;
const BUSY_MS = 200;
/** For what commits late without a notification: when it was written, nobody wanted one. */
const IDLE_POLL_MS = 2_000;
const DEAF_POLL_MS = 250;
/** Of more notifications in a second a look every 20 ms costs less. */
const MANY_HINTS = 40;

export interface Hints {
  /** Ask for notifications, or no more. Resolves with whether they arrive from now on. */
  readonly want: (on: boolean) => Promise<boolean>;
}

export class Watch {
  readonly #hints: Hints;
  #foundAt = performance.now();
  /** Whether notifications arrive; null: they were refused. */
  #wanting: Promise<boolean> | null = null;
  /** Since when they do. */
  #onAt = 0;
  #secondAt = 0;
  #hintsOfSecond = 0;
  /** Notifications cannot be had here. */
  isDeaf = true;
  /** How many notifications have arrived. */
  hints = 0;
  /** How many of them may be an operator's. */
  acts = 0;
  readonly #waits = new Set<Wait>();

  constructor(hints: Hints) {
    this.#hints = hints;
  }

  /** There were events. */
  found(): void {
    this.#foundAt = performance.now();
  }

  /** A notification: events were appended. */
  hinted(): void {
    this.hints++;
    const now = performance.now();
    if (now - this.#secondAt > 1_000) [this.#secondAt, this.#hintsOfSecond] = [now, 0];
    if (++this.#hintsOfSecond === MANY_HINTS) this.#refuse();
    if (this.#wanting !== null) this.#wake();
  }

  /** An operator has done something, or notifications may have been missed. */
  changed(): void {
    this.hints++;
    this.acts++;
    this.#wanting = null;
    this.#wake();
  }

  #refuse(): void {
    if (this.#wanting === null) return;
    this.#wanting = null;
    this.found();
    this.#wake();
    void this.#hints.want(false).catch(() => undefined);
  }

  #wake(): void {
    for (const wait of this.#waits) wait.end();
  }

  /** Until it is time to look again. `seen`: `hints` when it was looked last. */
  async wait(signal: AbortSignal, seen: number): Promise<void> {
    const isBusy = performance.now() - this.#foundAt < BUSY_MS;
    if (this.#wanting === null && isBusy) return this.pause(BUSY_POLL_MS, signal);
    const lookedAt = performance.now();
    this.#wanting ??= this.#listen();
    const on = await this.#wanting;
    if (!on) return this.pause(isBusy ? BUSY_POLL_MS : DEAF_POLL_MS, signal);
    // What was committed between that look and the first moment of listening has sent nothing: look once more.
    if (lookedAt <= this.#onAt || seen !== this.hints) return;
    await this.pause(IDLE_POLL_MS, signal);
  }

  async #listen(): Promise<boolean> {
    const on = await this.#hints.want(true).catch(() => false);
    this.#onAt = performance.now();
    this.isDeaf = !on;
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
