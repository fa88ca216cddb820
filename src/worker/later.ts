/**
 * Later: jobs that this worker has put off, and when they are due again. Nobody inserts them then, so nobody
 * tells of them, and a worker at rest would find them at its next poll. A hint like any other: what is
 * forgotten here, because there was too much of it or the process ended, that poll finds.
 */

/** Jobs that are due within so many milliseconds share a look. */
const GRAIN_MS = 20;
/** At most so many looks are planned. */
const MOST = 1_000;
/** What is further off than this is left to the poll. */
const LONGEST_MS = 3_600_000;

interface Look {
  readonly timer: NodeJS.Timeout;
  readonly buckets: Set<number>;
}

export class Later {
  readonly #due: (buckets: readonly number[]) => void;
  readonly #looks = new Map<number, Look>();
  #over = false;

  constructor(due: (buckets: readonly number[]) => void) {
    this.#due = due;
  }

  /** From now on so long there is a job in this bucket that nobody may take. */
  add(bucket: number, delayMs: number): void {
    if (this.#over || delayMs > LONGEST_MS) return;
    const now = performance.now();
    const at = Math.ceil((now + delayMs) / GRAIN_MS);
    const planned = this.#looks.get(at);
    if (planned) planned.buckets.add(bucket);
    else if (this.#looks.size < MOST) this.#plan(at, at * GRAIN_MS - now, new Set([bucket]));
  }

  #plan(at: number, inMs: number, buckets: Set<number>): void {
    const timer = setTimeout(() => {
      this.#looks.delete(at);
      this.#due([...buckets]);
    }, inMs);
    timer.unref();
    this.#looks.set(at, { timer, buckets });
  }

  /** For good. */
  end(): void {
    this.#over = true;
    for (const { timer } of this.#looks.values()) clearTimeout(timer);
    this.#looks.clear();
  }
}
