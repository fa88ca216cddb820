/**
 * Backoff: what a loop does when the database is away, with a full jitter under a doubling ceiling, so that a fleet does
 * not come back all at once; and how a transaction is done again that lost to others.
 */
const BASE_MS = 50;
/** No pause is longer. */
export const CAP_MS = 5_000;
/** At the end of a process, how long a step waits for a database that may be dead. All of them stay below 2 s. */
export const LAST_MS = 150;

export class Backoff {
  readonly #random: () => number;
  #tries = 0;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  nextMs(): number {
    const ceiling = Math.min(CAP_MS, BASE_MS * 2 ** Math.min(this.#tries++, 10));
    return Math.ceil(ceiling / 4 + this.#random() * (ceiling * 0.75));
  }

  /** The last try failed. */
  get failing(): boolean {
    return this.#tries > 0;
  }

  reset(): void {
    this.#tries = 0;
  }
}

/**
 * Tries until it works, with a pause after each failure. `failed` reports it, or throws what will not pass. Null: it
 * failed, and was halted. `work` learns whether it is tried again.
 */
export async function untilDone<Value>(
  halt: AbortSignal,
  work: (again: boolean) => Promise<Value>,
  failed: (error: unknown) => void,
): Promise<Value | null> {
  const backoff = new Backoff();
  for (let again = false; ; again = true) {
    try {
      return await work(again);
    } catch (error) {
      failed(error);
    }
    if (halt.aborted) return null;
    await pause(backoff.nextMs(), halt);
  }
}

/** Waits for a promise, but no longer than this. */
export async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const limit = new AbortController();
  await Promise.race([work, pause(ms, limit.signal)]);
  limit.abort();
}

/** Resolves after the time, or at once when the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done, { once: true });
  });
}

const MOST_TRIES = 5;

/**
 * `work` is one transaction of our own, or one statement outside of any. If the server rolled it back because of others (a
 * deadlock, a serialization failure), it is done again after a moment. Never for a caller's transaction: its earlier
 * statements are gone too.
 */
export async function untilNotLost<Value>(work: () => Promise<Value>): Promise<Value> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const { code } = (error ?? {}) as { code?: unknown };
      if (tries === MOST_TRIES || (code !== '40P01' && code !== '40001')) throw error;
      await pause(10 * 2 ** tries * (0.5 + Math.random()));
    }
  }
}
