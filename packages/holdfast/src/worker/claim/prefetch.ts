/**
 * How many jobs to claim ahead of the handlers: what they will have begun within `AHEAD_MS`, by the times that
 * they took lately, and not more than about `AHEAD_BYTES` of payloads. Slow handlers leave the queue to other
 * workers. Until the first handler has ended, nothing is claimed ahead.
 */
import { CHECK_MS } from '../../claim/pace.js';

export const AHEAD_MS = CHECK_MS / 20;
const AHEAD_BYTES = 64 * 1024 * 1024;
/** Of handlers that wait: at most so many jobs of one key in a row, and what takes no longer than this. */
const WAITS = 8;
const WAITS_MS = 4 * AHEAD_MS;
/** The weight of the newest value in the moving averages. */
const NEWEST = 0.05;

export class PrefetchPolicy {
  readonly #concurrency: number;
  readonly #most: number;
  #handlerMs: number | null = null;
  #payloadBytes = 1_000;

  constructor(concurrency: number, most: number) {
    this.#concurrency = concurrency;
    this.#most = most;
  }

  get jobs(): number {
    if (this.#handlerMs === null) return 0;
    const soonBegun = (this.#concurrency * AHEAD_MS) / Math.max(this.#handlerMs, 0.01);
    return Math.floor(Math.min(this.#most, soonBegun, AHEAD_BYTES / this.#payloadBytes));
  }

  /** How many jobs of one key to take in a row: what one handler gets through in `AHEAD_MS`. */
  get run(): number {
    if (this.#handlerMs === null) return 1;
    return Math.max(1, Math.floor(AHEAD_MS / Math.max(this.#handlerMs, 0.01)));
  }

  /**
   * The same for handlers that mostly wait for somebody else, and many of them: what they take is the length of the line
   * rather than work. A claim that takes one job of each key is dear, and what stands behind it waits for it anyhow.
   */
  get runOfWaits(): number {
    if (this.#handlerMs === null) return 1;
    return Math.max(this.run, Math.min(WAITS, Math.floor(WAITS_MS / this.#handlerMs)));
  }

  recordHandler(ms: number): void {
    this.#handlerMs ??= ms;
    this.#handlerMs += (ms - this.#handlerMs) * NEWEST;
  }

  recordPayload(chars: number): void {
    this.#payloadBytes += (chars - this.#payloadBytes) * NEWEST;
  }

  /** A claimed job waited this long for a handler: they are slower than was thought. */
  recordWait(ms: number): void {
    this.#handlerMs = Math.max(this.#handlerMs ?? 0, ms);
  }
}
