/**
 * Why and when a run ends: its time is over, somebody quits, or a signal comes. Each asks for an
 * orderly end. Whoever quits or signals twice ends the process at once, and with it everything
 * that it started.
 *
 * Under npm a shell stands between npm and this process. When that is killed, no signal arrives
 * here and only the parent changes; it means the same.
 */
const INTERRUPTED = 130;
/** npm passes a Ctrl-C on that came here as well: two within this time are one. */
const SAME_MS = 500;
const PARENT_MS = 1_000;

export class Ending {
  readonly #over = new AbortController();
  readonly #hurry = new AbortController();
  #askedAt = 0;

  constructor() {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => this.interrupt());
    if (process.env.npm_lifecycle_event === undefined) return;
    const { ppid } = process;
    setInterval(() => process.ppid !== ppid && this.ask(), PARENT_MS).unref();
  }

  /** No more orders. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** And whoever waits, waits no longer for the work to be done. */
  get hurry(): AbortSignal {
    return this.#hurry.signal;
  }

  /** A signal, or a key that means the same. */
  interrupt(): void {
    const asked = this.hurry.aborted && performance.now() - this.#askedAt > SAME_MS;
    if (asked) process.exit(INTERRUPTED);
    this.ask();
  }

  ask(): void {
    if (this.hurry.aborted) return;
    this.#askedAt = performance.now();
    this.#hurry.abort();
    this.#over.abort();
  }

  after(ms: number): void {
    setTimeout(() => this.#over.abort(), ms).unref();
  }

  /** Resolves when it is over. */
  wait(): Promise<void> {
    if (this.over.aborted) return Promise.resolve();
    return new Promise((resolve) => this.over.addEventListener('abort', () => resolve()));
  }
}
