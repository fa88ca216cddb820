/** What a journey leaves behind, step by step: plain data, so that it can be sent, kept and looked at again. */

/** A statement that ran, as the product has it, with what went in and what came back. */
export interface Sql {
  /** Virtual milliseconds since the journey began. */
  readonly at: number;
  readonly by: string;
  readonly name: string;
  readonly text: string;
  readonly params: readonly (string | null)[];
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | null)[])[];
  /** How many came back; `rows` has the first of them. */
  readonly count: number;
}

/** How a step is to be read: it went well, it went wrong, or the database refused it. */
export type Tone = 'plain' | 'good' | 'bad' | 'refused';

export interface Frame<State = unknown> {
  readonly at: number;
  /** What happened, in a sentence. */
  readonly say: string;
  readonly tone: Tone;
  readonly state: State;
  /** What ran since the frame before. */
  readonly sql: readonly Sql[];
}

/** What a person does: a verb and its words. */
export interface Act {
  readonly do: string;
  readonly [word: string]: string | number | boolean;
}

export type Settings = Readonly<Record<string, string | number | boolean>>;

export interface Journey {
  begin(): Promise<void>;
  act(act: Act): Promise<void>;
  /** Time passes. */
  advance(ms: number): Promise<void>;
}

/** A row of a table, as text; times as the journey counts them. */
export type RowText = Readonly<Record<string, string | null>>;

/** The article's and the product's. It stands here because the page must not load the engine. */
export const LEASE_MS = 90_000;
