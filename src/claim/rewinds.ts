/**
 * Rewinds: how often cursors are set back to the start, by what that costs. It is measured as the time of a
 * claim beyond the way to the server and back and beyond its jobs; rewinds are made so rare, down to one in
 * `RELAXED_MS`, that they take a small part of the time.
 */
const REWIND_MS = 1_000;
const RELAXED_MS = 30_000;
/** Rewinds take about this part of the time at most. */
const SHARE = 0.03;
/** A rewind that took no longer found nothing to walk over. */
const CLEAN_MS = 0.02;
/** The weight of the newest value in the moving averages. */
const NEWEST = 0.1;

export class Rewinds {
  #everyMs = REWIND_MS;
  /** What one rewound bucket costs, and one job, beyond the way to the server and back. */
  #msEach = 0;
  #msPerJob = 0;
  /** The quickest claim of late: the way to the server and back, which says nothing of the index. */
  #floorMs = Number.POSITIVE_INFINITY;

  /** A bucket that was rewound so long ago may be rewound again. */
  get everyMs(): number {
    return this.#everyMs;
  }

  /** A claim without rewinds; `jobs` are 0 when its time says nothing of what they cost. */
  sawNone(jobs: number, tookMs: number): void {
    const beyondMs = this.#beyond(tookMs);
    if (jobs > 0) this.#msPerJob += (beyondMs / jobs - this.#msPerJob) * NEWEST;
  }

  /** A claim with rewinds. True: there was nothing in their way. */
  saw(rewinds: number, jobs: number, tookMs: number): boolean {
    const eachMs = Math.max(0, this.#beyond(tookMs) - jobs * this.#msPerJob) / rewinds;
    this.#msEach += (eachMs - this.#msEach) * NEWEST;
    return eachMs < CLEAN_MS;
  }

  /** So many buckets have something in the way of a rewind. */
  pace(dirty: number): void {
    const dearMs = (dirty * this.#msEach) / SHARE;
    this.#everyMs = Math.min(Math.max(REWIND_MS, dearMs), RELAXED_MS);
  }

  #beyond(tookMs: number): number {
    this.#floorMs = Math.min(tookMs, this.#floorMs * 1.01 + 0.1);
    return tookMs - this.#floorMs;
  }
}
