/** Queues that could not be read because they are locked: what is said of them beside what could be seen. */
import { type LockedQueue, whyLocked } from '../../inspect/queue/overview.js';
import { type Call, EXIT } from '../command.js';
import { plain } from './table.js';

/** One line for each. */
export const lockedLines = (locked: readonly LockedQueue[]): string[] =>
  locked.map((one) => plain(`The queue "${one.queue.name}" could not be read. ${whyLocked(one)}`));

/** For programs. */
export const lockedValues = (locked: readonly LockedQueue[]): object[] =>
  locked.map((one) => ({ queue: one.queue.name, error: whyLocked(one) }));

/** The exit code: what was shown is not all. */
export function noteLocked(out: Call['out'], locked: readonly LockedQueue[]): number {
  for (const line of lockedLines(locked)) out.note(line);
  return locked.length > 0 ? EXIT.failed : EXIT.ok;
}
