/**
 * Put off: which buckets have jobs that this worker has put off, and which of those are due by now. They are
 * read when there is nothing else of their kind to read, or at once by a worker at rest.
 */
import type { HeldJob } from './held.js';
import { Later } from './later.js';
import type { Sources } from './sources.js';

/** Of one kind of jobs, ordered or not: what is not due yet, and the buckets of what is. */
interface Kind {
  readonly ordered: boolean;
  readonly later: Later;
  readonly due: Set<number>;
}

export class PutOff {
  readonly #sources: Sources;
  readonly #kinds: readonly Kind[];

  /** `due`: there is something to `hint` at. */
  constructor(sources: Sources, due: () => void) {
    this.#sources = sources;
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
    const kind = this.#kinds.find(({ ordered }) => ordered === inLine);
    kind?.later.add(row.partitionBucket, delayMs);
  }

  /** Lets the next claims read what is due, if they have nothing else to read of its kind. */
  hint(now: number): void {
    for (const { due, ordered } of this.#kinds) {
      if (due.size === 0 || this.#sources.idleMs(now, ordered) === 0) continue;
      this.#sources.hint([...due], ordered);
      due.clear();
    }
  }

  /** For good. */
  end(): void {
    for (const { later } of this.#kinds) later.end();
  }
}
