/**
 * The program of the keeper's thread: keeper-thread.ts with all that it imports, `pg` too, as one text. The build
 * makes it (scripts/build.mjs), and tests that run from the sources use what was built.
 */
export const KEEPER_SOURCE: string;
