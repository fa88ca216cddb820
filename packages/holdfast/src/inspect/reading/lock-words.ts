/** A lock in words: who it is, what it holds, and the statement that ends it. */
import { HoldfastError } from '../../job/errors/errors.js';
import { quoteLiteral } from '../../postgres/names.js';
import { behind, type LockSession, readersBlockers } from './locks.js';
import { many, span } from './words.js';

/** `session 4711 (psql, user bob, from 10.0.0.3, idle in transaction for 5 min)`. */
export function sessionWords(one: LockSession): string {
  if (one.gid !== null) {
    return `the prepared transaction ${quoteLiteral(one.gid)} (user ${one.userName}, for ${span(one.openMs ?? 0)})`;
  }
  const facts = [
    one.application,
    one.userName && `user ${one.userName}`,
    one.client && `from ${one.client}`,
    one.state && (one.stateMs === null ? one.state : `${one.state} for ${span(one.stateMs)}`),
  ].filter(Boolean);
  return `session ${one.pid}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}`;
}

/** The statement that ends it, to be pasted. */
export function endStatement({ pid, gid }: LockSession): string {
  return gid === null
    ? `SELECT pg_terminate_backend(${pid});`
    : `ROLLBACK PREPARED ${quoteLiteral(gid)};`;
}

/** What it waits for: `AccessExclusiveLock on inbox`, `a row of inbox`. */
export function wantedWords({ wants, wantsMode }: LockSession): string {
  if (wants === null) return 'a lock outside of this schema';
  return wantsMode === null ? `a row of ${wants}` : `${wantsMode} on ${wants}`;
}

/** In the message of LOCKED, before the statement that ends it. */
export const TO_END = ' To end it: ';

/** A question that gave up because a table was locked. It names the session to end, but not its statement. */
export function lockedError(
  schema: string,
  sessions: readonly LockSession[],
  waitedMs: number,
  cause: unknown,
): HoldfastError {
  const [culprit] = readersBlockers(sessions);
  if (!culprit) {
    return new HoldfastError(
      'LOCKED',
      `A lock of the schema "${schema}" was not to be had within ${span(waitedMs)}. Nothing was done: it is free again ` +
        'or this user may not see who has it; try again, or ask `holdfast doctor`.',
      { cause },
    );
  }
  const waiting = behind(sessions, culprit);
  const first = waiting.find(({ wantsMode }) => wantsMode === 'AccessExclusiveLock');
  const table = first?.wants ?? culprit.holds;
  const line = [
    `${sessionWords(culprit)} holds ${culprit.holdsMode ?? 'a lock'} on it`,
    first &&
      `${sessionWords(first)} waits for ${wantedWords(first)}, and everybody waits behind it`,
    waiting.length > 1 && `${many(waiting.length, 'session')} wait in all`,
  ].filter(Boolean);
  return new HoldfastError(
    'LOCKED',
    `The table ${schema}.${table} is locked. Nothing was done: ${line.join('; ')}.${TO_END}${endStatement(culprit)}`,
    { cause },
  );
}
