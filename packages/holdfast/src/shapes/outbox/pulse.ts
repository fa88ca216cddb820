/**
 * Notices that this process stood still: it was frozen, or its event loop was blocked. What it held before may belong to
 * somebody else since then, and no signal can have said so yet. Runs while messages are under way.
 */
const EVERY_MS = 250;
const STALL_MS = 1_000;

export class Pulse {
  #running = 0;
  #timer: NodeJS.Timeout | null = null;
  #beatAt = 0;
  #stalledAt = 0;

  start(): void {
    if (this.#running++ > 0) return;
    this.#beatAt = performance.now();
    this.#timer = setInterval(() => this.#beat(), EVERY_MS).unref();
  }

  end(): void {
    if (--this.#running > 0 || !this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  #beat(): void {
    const now = performance.now();
    if (now - this.#beatAt > STALL_MS) this.#stalledAt = now;
    this.#beatAt = now;
  }

  /** Since a moment of `performance.now()`. */
  stalledSince(at: number): boolean {
    this.#beat();
    return this.#stalledAt >= at;
  }
}
