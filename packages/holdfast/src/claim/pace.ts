/** How soon one asks again, and how much at once: the pace of statements, and waits that keep workers out of step. Pure. */

/** About so often one checks where nobody tells. Other times are parts and multiples of this. */
export const CHECK_MS = 1_000;

/** Statements of one kind follow each other no faster than this, so that what comes in one moment shares one. */
export const PACE_MS = 4;
/** After so long one asks again, where nobody tells. */
export const SOON_MS = 5 * PACE_MS;
/** The latest answer to what all workers know, while others are quicker; and the longest rest. */
export const LATEST_MS = 2 * SOON_MS;

/** A claim reads so many rows or keys beyond those that it wants, and more and more while they bring nothing, up to the second. */
export const FEW_READ = 32;
export const MOST_READ = 1_000;

/** After an empty answer the next one comes later. */
export const laterThan = (ms: number) => Math.min(Math.max(1, 2 * ms), LATEST_MS);

/** A clock that only goes forward, in milliseconds, and chance, from 0 to 1. */
export interface Clock {
  now(): number;
  random(): number;
}

/** Between three and five quarters of a time, so that workers do not act in step. */
export const jittered = (ms: number, { random }: Pick<Clock, 'random'>): number =>
  ms * (0.75 + random() * 0.5);
