/** A job whose row, or another row that a claim of it needs, is locked by somebody who is no worker. */
import type { LimitLock, LockHolder } from '../reading/row-locks.js';
import { firstLine, span } from '../reading/words.js';
import type { Situation } from './facts/situation.js';
import type { Reason } from './reasons.js';

export function rowLocked(situation: Situation): Reason | null {
  const { job, head, behind, locks } = situation;
  // Its own row first.
  const lock = locks.find(({ id }) => id === job.id) ?? locks[0];
  if (!lock) return null;
  const key = `of its key ${job.partitionKey}`;
  const which = {
    [behind?.next ?? '']: `The row of job ${lock.id}, the one behind it ${key},`,
    [head?.id ?? '']: `The row of job ${lock.id}, the first ${key},`,
    [job.id]: 'Its row',
  }[lock.id];
  return {
    code: 'row_locked',
    text: `${which} is locked${lock.sure || lock.pid === null ? '' : ', probably'} by ${holder(lock)}: claims and maintenance pass over it until that transaction ends.`,
    fix: ending(lock),
  };
}

/** Claims get nothing under a limit whose row they cannot lock. */
export function limitLocked({ limits, queue }: Situation): Reason | null {
  const [lock] = limits?.locks ?? [];
  if (!lock) return null;
  return {
    code: 'row_locked',
    text: `The row of ${limitOf(lock, queue.name)} is locked ${lockedBy(lock)}: no job under it starts until that transaction ends.`,
    fix: ending(lock),
  };
}

export const limitOf = ({ type }: Pick<LimitLock, 'type'>, queue: string) =>
  type === null ? `the limit of queue "${queue}"` : `the limit of "${type}"`;

export const lockedBy = (lock: LockHolder) =>
  `${lock.sure || lock.pid === null ? '' : 'probably '}by ${holder(lock)}`;

function holder({ pid, gid, application, username, state, openMs, query }: LockHolder): string {
  const open = openMs === null ? '' : `, open for ${span(openMs)}`;
  if (gid !== null) return `the prepared transaction "${gid}"${open}`;
  if (pid === null) return 'a transaction that is still open';
  const who = [application || null, username && `user ${username}`, state].filter(Boolean);
  const last = query ? `; its last statement: ${firstLine(query, 100)}` : '';
  return `process ${pid} of the server${who.length > 0 ? ` (${who.join(', ')})` : ''}${open}${last}`;
}

export function ending({ pid, gid }: LockHolder): string | null {
  if (gid !== null)
    return `COMMIT PREPARED '${gid.replaceAll("'", "''")}'; or ROLLBACK PREPARED with the same name`;
  return pid === null ? null : `Let it end, or: SELECT pg_terminate_backend(${pid});`;
}
