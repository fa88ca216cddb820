/** Queues that could not be read because they are locked: what is said of them beside what could be seen. */
import type { LockedQueue } from '../inspect/overview.js';
import { type Call, EXIT } from './command.js';
import { plain } from './table.js';

const why = ({ error }: LockedQueue) => error.message.replace('. Nothing was done:', ':');

/** One line for each. */
export const lockedLines = (locked: readonly LockedQueue[]): string[] =>
  locked.map((one) => plain(`The queue "${one.name}" could not be read. ${why(one)}`));

/** For programs. */
export const lockedValues = (locked: readonly LockedQueue[]): object[] =>
  locked.map((one) => ({ queue: one.name, error: why(one) }));

/** The exit code: what was shown is not all. */
export function noteLocked(out: Call['out'], locked: readonly LockedQueue[]): number {
  for (const line of lockedLines(locked)) out.note(line);
  return locked.length > 0 ? EXIT.failed : EXIT.ok;
}
