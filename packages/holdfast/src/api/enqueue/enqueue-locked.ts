/** An enqueue that gave up because its table was locked: who holds the lock, and what to do. */
import type pg from 'pg';
import {
  endStatement,
  type LockSession,
  readLocks,
  sessionWords,
  TO_END,
  writersBlockers,
} from '../../inspect/reading/locks.js';
import { reading } from '../../inspect/reading/reading.js';
import { span } from '../../inspect/reading/words.js';
import { HoldfastError } from '../../job/errors/errors.js';
import { LOCK_WAIT_MS } from '../../postgres/connect/bounded.js';
import type { Names } from '../../postgres/names.js';
import { isTableLocked } from '../../postgres/refused.js';

const ASK_MS = 2_000;

/** Any other error is returned as it is. Asked on a connection of its own: those of the pool may all wait. */
export async function asLocked(
  error: unknown,
  { schema, queue }: Names,
  observer: () => pg.Pool,
): Promise<unknown> {
  if ((error as { code?: unknown } | null)?.code !== '55P03') return error;
  const ask = async () =>
    reading(observer(), (db) => readLocks(db, schema), { schema, limitMs: ASK_MS });
  const sessions = await ask().catch((): LockSession[] => []);
  const culprit = writersBlockers(sessions).find(
    ({ holds }) => holds === queue || holds?.startsWith(`${queue}_`),
  );
  // One row, such as that of an idempotency key which another transaction has taken: the table is not locked.
  if (!culprit && !isTableLocked(error)) return error;
  const who = culprit
    ? `${sessionWords(culprit)} holds ${culprit.holdsMode ?? 'a lock'} on ${culprit.holds}${running(culprit)}.`
    : 'Who holds the lock is not known: it is free again, or this user may not see it; ask `holdfast doctor`.';
  return new HoldfastError(
    'LOCKED',
    `The table ${schema}.${queue} is locked, so nothing was enqueued into the queue "${queue}" within ${span(LOCK_WAIT_MS)}. ` +
      `${who} Enqueue again when it is free.${culprit ? `${TO_END}${endStatement(culprit)}` : ''}`,
    { cause: error },
  );
}

const running = ({ openMs }: LockSession) =>
  openMs === null ? '' : `, in a transaction that began ${span(openMs)} ago`;
