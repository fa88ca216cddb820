/** A step of an attempt: a moment at which it talks to the database. */
export interface Step {
  readonly kind:
    | 'once'
    | 'marker'
    | 'record'
    | 'sleep'
    | 'begin'
    | 'query'
    | 'commit'
    | 'completion';
  /** What is about to happen, as a noun. */
  readonly name: string;
  /** The moment before it, as the end of a sentence. */
  readonly moment: string;
}
