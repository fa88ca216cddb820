/**
 * Which database a function of the kit works on: the one that it is given, or the one that `useHoldfast` named,
 * or a PGlite that is made when the first test needs it.
 */
import type { Holdfast } from 'holdfast';
import { depsOf, type TestDeps } from './deps.js';
import { isShared, sharedPglite } from './pglite/pglite.js';

/** The Holdfast that a helper uses. */
export interface Target {
  /** Default: what `useHoldfast` was given; without that, a PGlite that all tests of the process share. */
  readonly hf?: Holdfast;
}

let chosen: Holdfast | null = null;

/**
 * Calls that name no `hf` use this one from now on; null: the shared PGlite again.
 * @example useHoldfast(hf);
 */
export function useHoldfast(hf: Holdfast | null): void {
  // Refuses what is no Holdfast here, and not in the first test that needs it.
  if (hf !== null) depsOf(hf);
  chosen = hf;
}

/** Whether a call without `hf` would look into a PGlite that no test has used yet. */
export const isUntouched = (hf?: Holdfast) => !hf && !chosen && !isShared();

export async function target(hf?: Holdfast): Promise<TestDeps> {
  const used = hf ?? chosen;
  return depsOf(used ?? (await sharedPglite()).hf);
}
