import { nearest } from '../../../../job/options/nearest.js';

/** --only of a name that is not there moves nothing: said, and which was meant. */
export const unknownNames = (only: readonly string[], known: readonly string[]): string[] =>
  only
    .filter((name) => !known.includes(name))
    .map((name) => `there is no queue or task "${name}" there.${nearest(name, known)}`);
