/**
 * Markers: what a run has done and what it waits for, by name. One that has a place has ended; its code hears of it in the
 * order of the places, in every turn the same. One without a place is open: a wait, a step that is tried again later, or
 * the intent of a step with an undo, whose effect may have happened.
 */

/** What the code asked for under a name. A capital: it can be undone. */
export type Kind = 's' | 'S' | 't' | 'T' | 'z' | 'w' | 'c' | 'u' | '!' | '#';

export const WORDS: Readonly<Record<Kind, string>> = {
  ...{ s: 'step', S: 'step', t: 'transaction', T: 'transaction' },
  ...{ z: 'sleep', w: 'wait', c: 'children', u: 'undo', '!': 'undoing' },
  '#': 'round',
};

/** The name of the marker that says that a run undoes what it did. */
export const UNDOING = '!';

/** The name of the marker whose `nth` counts how often a run began anew: retried after an undo, or restarted. */
export const ROUND = '#';

/** The name of the marker of the undo of a step. No step is named so: a name of the user's has no such character. */
export const undoOf = (name: string) => `\u0001${name}`;

export interface Marker {
  readonly name: string;
  readonly kind: Kind;
  /** The order in which the code first asked for it. */
  readonly nth: number;
  readonly place: number | null;
  readonly attempt: number | null;
  readonly remaining: number | null;
  /** JSON; null: none. */
  readonly value: string | null;
  readonly error: string | null;
  /** How long until it is due, when it was read. */
  readonly dueInMs: number | null;
}

/** One that is written: ended, or with the place null the intent of a step with an undo. */
export interface NewMarker {
  readonly name: string;
  readonly kind: Kind;
  readonly nth: number;
  readonly place: number | null;
  readonly ms: number | null;
  readonly attempt: number | null;
  readonly value: string | null;
  readonly error: string | null;
  /** No marker of the run is known to stand. */
  readonly first: boolean;
  /** An open marker of this name stands, and ends with this one. */
  readonly open: boolean;
}

/** As a turn asks for it to be written. */
export type Unplaced = Omit<NewMarker, 'place' | 'first' | 'open'>;

/** What a run waits for from now on, or when one of its steps is tried again. */
export interface NewWait {
  readonly name: string;
  readonly kind: Kind;
  readonly nth: number;
  /** The signals that it waits for; it takes the first that comes. */
  readonly signals?: readonly string[];
  /** How long it waits, or until when; neither: until it is there. */
  readonly ms?: number;
  readonly at?: string;
  /** Of a step: how often it was tried, and what the last try said. */
  readonly attempt?: number;
  readonly error?: string;
}
