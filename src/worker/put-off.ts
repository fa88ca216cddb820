/**
 * Put off: which buckets have jobs that come back without being enqueued: those that this worker has put off,
 * and those that stood behind one of its own. When they are due they are read as soon as there is nothing
 * else of their kind to read; by a worker at rest, at once.
 */
import type { HeldJob } from './held.js';
import { Later } from './later.js';
import type { Sources } from './sources.js';

/** Of more buckets than that it costs less to look at all of them, as far as jobs without order go. */
const MANY = 32;

/** Of one kind of jobs, ordered or not: what is not due yet, and the buckets of what is. */
interface Kind {
  readonly ordered: boolean;
  readonly later: Later;
  readonly due: Set<number>;
}

export class PutOff {
  readonly #sources: Sources;
  readonly #kinds: readonly Kind[];
  readonly #due: () => void;
  #telling = false;

  /** `due`: there is something to `hint` at. */
  constructor(sources: Sources, due: () => void) {
    this.#sources = sources;
    this.#due = due;
    this.#kinds = [false, true].map((ordered) => {
      const buckets = new Set<number>();
      const later = new Later((these) => {
        for (const bucket of these) buckets.add(bucket);
        due();
      });
      return { ordered, later, due: buckets };
    });
  }

  add({ row, inLine }: HeldJob, delayMs: number): void {
    this.#kindOf(inLine).later.add(row.partitionBucket, delayMs);
  }

  /** An ordered key of this bucket is free: the next job of it, if there is one, waits for nothing any more. */
  freed(bucket: number): void {
    this.#kindOf(true).due.add(bucket);
    if (this.#telling) return;
    this.#telling = true;
    // Those that are settled together share a look.
    setImmediate(() => {
      this.#telling = false;
      this.#due();
    });
  }

  #kindOf(inLine: boolean): Kind {
    return this.#kinds[inLine ? 1 : 0] as Kind;
  }

  /**
   * Lets the next claims read what is due, if they have nothing else to read of its kind. True if there was
   * any.
   */
  hint(now: number): boolean {
    let any = false;
    for (const { due, ordered } of this.#kinds) {
      if (due.size === 0 || this.#sources.idleMs(now, ordered) === 0) continue;
      this.#sources.hint(due.size > MANY && !ordered ? null : [...due], ordered);
      due.clear();
      any = true;
    }
    return any;
  }

  /** For good. */
  end(): void {
    for (const { later } of this.#kinds) later.end();
  }
}
