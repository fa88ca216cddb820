/**
 * The claims of one worker on one queue. Each writes a row with the ids that it took; when nothing of it is left, a later
 * claim deletes that row. If an answer was lost, the claim's number is kept until its jobs are released.
 */
export class ClaimLedger {
  #next = 0;
  readonly #left = new Map<number, number>();
  #finished: number[] = [];
  /** Claims whose answer was lost. */
  unknown: readonly number[] = [];

  begin(): { number: number; finished: number[] } {
    this.#next++;
    const finished = this.#finished;
    this.#finished = [];
    return { number: this.#next, finished };
  }

  took(number: number, jobs: number): void {
    if (jobs > 0) this.#left.set(number, jobs);
  }

  /** The claim failed: what it was to delete is still there, and what it took is not known. */
  failed(number: number, finished: readonly number[]): void {
    this.#finished.push(...finished);
    this.unknown = [...this.unknown, number];
  }

  leave(number: number): void {
    const left = (this.#left.get(number) ?? 0) - 1;
    if (left > 0) this.#left.set(number, left);
    else if (this.#left.delete(number)) this.#finished.push(number);
  }

  /** A job was lost: its row may still name this claim's worker, so the claim is for maintenance to forget. */
  lose(number: number): void {
    this.#left.delete(number);
  }

  released(numbers: readonly number[]): void {
    this.unknown = this.unknown.filter((number) => !numbers.includes(number));
    this.#finished.push(...numbers);
  }

  /** Under a new worker id nothing of the old one is ours to delete. */
  reset(): void {
    this.#left.clear();
    this.#finished = [];
    this.unknown = [];
  }
}
