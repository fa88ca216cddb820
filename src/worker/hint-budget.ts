/**
 * How many notifications a sleeping worker may cause. Pure: the time comes as an argument.
 *
 * Each one makes a producer's commit wait for the flush of every other commit that notifies, and stirs the
 * session of every listener of the database. So the fleet has one budget per queue, of which each worker
 * has its part. Jobs that a waking worker finds count as well, as the notifications that they would have
 * been: it sleeps only where few are to be expected. Who used its part up while it slept gets up and stays
 * up for a while, because a flood costs producers most while it begins; for longer if it was soon again.
 */
const BURST = 20;
/** For all workers of a queue together: a small part of what a slow disk can flush one by one. */
const PER_SECOND = 100;
const STAY_UP_MS = 5_000;
const LONGEST_MS = 60_000;

export class HintBudget {
  #workers = 1;
  #left = BURST;
  #countedAt = 0;
  #sleptAt = Number.NEGATIVE_INFINITY;
  #upUntil = Number.NEGATIVE_INFINITY;
  #stayUpMs = STAY_UP_MS;

  /** How many workers share the queue. */
  set workers(count: number) {
    this.#workers = Math.max(1, count);
  }

  /** Whether this worker may go to sleep. */
  allows(now: number): boolean {
    this.#refill(now);
    return now >= this.#upUntil && this.#left >= BURST / 2;
  }

  fellAsleep(now: number): void {
    this.#sleptAt = now;
  }

  /** So many jobs were found while awake. */
  found(jobs: number, now: number): void {
    this.#refill(now);
    this.#left -= jobs;
  }

  /** One notification has come. False: that was the last of the budget. */
  spend(now: number): boolean {
    this.#refill(now);
    this.#left -= 1;
    if (this.#left >= 1) return true;
    const soon = now - this.#sleptAt < this.#stayUpMs;
    this.#stayUpMs = soon ? Math.min(this.#stayUpMs * 2, LONGEST_MS) : STAY_UP_MS;
    this.#upUntil = now + this.#stayUpMs;
    return false;
  }

  #refill(now: number): void {
    const gained = ((now - this.#countedAt) / 1_000) * (PER_SECOND / this.#workers);
    this.#left = Math.min(BURST, Math.max(0, this.#left) + gained);
    this.#countedAt = now;
  }
}
