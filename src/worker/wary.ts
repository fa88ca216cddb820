/**
 * Which types fail so often that a run of them is not worth claiming: when the first job of a run fails,
 * the rest of it was claimed and handed back for nothing. Pure.
 */
const OFTEN = 0.5;
/** The weight of the newest outcome in the moving average. */
const NEWEST = 0.3;
/** Forgotten below this, so that types which are well cost nothing. */
const RARE = 0.01;

export class Wary {
  readonly #failing = new Map<string, number>();

  saw(type: string, failed: boolean): void {
    const before = this.#failing.get(type);
    if (before === undefined && !failed) return;
    const now = (before ?? 0) * (1 - NEWEST) + (failed ? NEWEST : 0);
    if (now < RARE) this.#failing.delete(type);
    else this.#failing.set(type, now);
  }

  /** These are claimed one by one. */
  types(): string[] {
    if (this.#failing.size === 0) return [];
    return [...this.#failing].filter(([, share]) => share > OFTEN).map(([type]) => type);
  }
}
