/** What a migration is, and the list of them in order. Numbered, forward-only, never edited once released. */
export interface Migration {
  readonly id: number;
  readonly name: string;
  /**
   * The oldest code that may go on working beside this migration: code that knows migrations up to
   * `breaksBefore` or later continues, older code refuses. It lets old and new workers share a deploy.
   */
  readonly breaksBefore: number;
  /** Run once for the schema. */
  readonly common: string;
  /** Run for every queue that exists, and again for each queue created later. */
  readonly perQueue: string;
}
