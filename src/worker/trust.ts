/**
 * Trust: of which types a run of jobs is worth claiming. When the first job of a run fails, or is put off,
 * the rest of it was claimed and handed back for nothing; so a type that often does, or has not yet been seen
 * to succeed here, is claimed one by one. Pure.
 */
const OFTEN = 0.5;
/** The weight of the newest outcome in the moving average. */
const NEWEST = 0.3;
/** As good as never. */
const RARE = 0.01;

export class Trust {
  /** Which part of a type's jobs did not succeed lately. */
  readonly #failing = new Map<string, number>();

  saw(type: string, failed: boolean): void {
    const before = this.#failing.get(type);
    if (before === 0 && !failed) return;
    const newest = failed ? 1 : 0;
    const now = before === undefined ? newest : before + (newest - before) * NEWEST;
    this.#failing.set(type, now < RARE ? 0 : now);
  }

  types(): string[] {
    return [...this.#failing].filter(([, share]) => share <= OFTEN).map(([type]) => type);
  }
}
