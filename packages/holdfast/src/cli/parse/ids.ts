/** Ids of jobs on the command line: checked before anything is asked, so that a slip is a usage error. */
import { isId } from '../../job/id.js';
import { UsageError } from '../failures.js';

export function checkIds(words: readonly string[]): string[] {
  for (const word of words) {
    if (isId(word)) continue;
    throw new UsageError(
      `"${word}" is not the id of a job. An id looks like 0199a1c2-7d3e-7000-8000-000000009182.`,
    );
  }
  return [...new Set(words.map((word) => word.toLowerCase()))];
}

export function oneId(words: readonly string[], what: string): string {
  if (words.length !== 1) throw new UsageError(`Write: holdfast ${what} ID`);
  return checkIds(words)[0] as string;
}
