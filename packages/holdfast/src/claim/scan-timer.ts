/**
 * When to read a queue from the front again.
 *
 * Readers go on from where they were. What commits late, is released or recovered lies behind them, so they
 * start over at every poll, and more rarely where that is dear: the next scan comes after 30 times
 * what the last ones took. So scans never take more than about 3 % of a worker's time. The cheaper of the last
 * two counts: the first statement of a session, or a stall of the server, must not put a scan off for long.
 */
import { CHECK_MS } from './pace.js';

const SHARE = 30;
/** A scan that takes longer than a thirtieth of this takes more of the time: what lies behind must be found. */
const RAREST_MS = 90 * CHECK_MS;

export class ScanTimer {
  readonly #everyMs: number;
  #at = Number.NEGATIVE_INFINITY;
  #earliest = Number.NEGATIVE_INFINITY;
  #lastMs = 0;

  constructor(everyMs = 1_000) {
    this.#everyMs = everyMs;
  }

  due(now: number): boolean {
    return now >= this.#at;
  }

  get at(): number {
    return this.#at;
  }

  /** `rarestMs`: the next scan comes by then, however long this one took. */
  record(now: number, tookMs: number, rarestMs = RAREST_MS): void {
    this.#earliest = now + Math.min(SHARE * Math.min(tookMs, this.#lastMs), rarestMs);
    this.#lastMs = tookMs;
    this.#at = Math.max(now + this.#everyMs, this.#earliest);
  }

  /** A scan at this time finds something: scan then, or as soon as the share allows. */
  hasten(at: number): void {
    this.#at = Math.min(this.#at, Math.max(at, this.#earliest));
  }
}
