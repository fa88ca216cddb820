/**
 * What the doctor says: a finding for everything that was looked at, with why it matters and the exact
 * fix where something is wrong. Nothing here asks the database: the facts come from the files beside this
 * one, and the limits are parameters, so that every judgement can be tried without waiting for the fault.
 */
export type Level = 'ok' | 'note' | 'problem';

export interface Finding {
  /** Which question this answers, such as `fsync`. */
  readonly check: string;
  readonly level: Level;
  /** What was found. */
  readonly text: string;
  /** Null when all is well. */
  readonly why: string | null;
  readonly fix: string | null;
}

export interface Limits {
  /** A transaction that is open for longer holds back vacuum. */
  readonly horizonMs: number;
  /** A due job that waits for longer is a sign that something is wrong. */
  readonly oldestMs: number;
  readonly roundTripMs: number;
  readonly skewMs: number;
  /** Of the connections that the server allows. */
  readonly connectionShare: number;
  readonly deadRows: number;
  readonly deadLetters: number;
  /** A worker that was not seen for longer, and a queue without maintenance for longer. */
  readonly silentMs: number;
  readonly maintenanceMs: number;
}

export const LIMITS: Limits = {
  horizonMs: 5 * 60_000,
  oldestMs: 5 * 60_000,
  roundTripMs: 100,
  skewMs: 2_000,
  connectionShare: 0.8,
  deadRows: 100_000,
  deadLetters: 1_000,
  silentMs: 30_000,
  maintenanceMs: 5 * 60_000,
};

export const ok = (check: string, text: string): Finding => ({
  check,
  level: 'ok',
  text,
  why: null,
  fix: null,
});

export const note = (check: string, text: string, why: string, fix: string): Finding => ({
  check,
  level: 'note',
  text,
  why,
  fix,
});

export const problem = (check: string, text: string, why: string, fix: string): Finding => ({
  check,
  level: 'problem',
  text,
  why,
  fix,
});
