import { int8, text } from '../../postgres/statement.js';
import { ending, limitOf, lockedBy } from '../explain/locked.js';
import { type Answer, asks } from '../reading/asks.js';
import {
  AGAINST_WRITERS,
  behind,
  endStatement,
  type LockSession,
  rootBlockers,
  sessionWords,
  wantedWords,
} from '../reading/locks.js';
import type { LimitLock } from '../reading/row-locks.js';
import { many, span } from '../reading/words.js';
import { type Finding, type Limits, lines, note, ok, problem } from './doctor.js';

const CHECK = 'locks';
const MOST = 5;
const NAMED = 3;
const STATEMENT_LENGTH = 160;

const NOTHING_MOVES =
  'Whoever needs the lock waits behind it, or gives up after half a second and tries again: claims, settles and enqueues stand still.';

const END_IT = 'End its transaction where it was begun, or here:';
const AS_SUPERUSER =
  'It is the session of a superuser: pg_signal_backend is not enough. End its transaction where it was begun, or as a superuser:';
const fix = (one: LockSession) =>
  lines(one.superuser && one.gid === null ? AS_SUPERUSER : END_IT, endStatement(one));

/** Those that enqueue, as far as their statements may be seen. */
const ENQUEUES =
  /INSERT INTO "?[a-z0-9_]+"?\."?[a-z0-9_]+"? \(id, type\b|_enqueue(_unique)?"?\(|_take_keys?"?\(/i;

function enqueuing(waiting: readonly LockSession[]): string {
  const count = waiting.filter(({ query }) => ENQUEUES.test(query ?? '')).length;
  return count === 0
    ? ''
    : `, ${count === 1 ? 'one of which enqueues' : `${count} of which enqueue`}`;
}

export function judgeLocks(sessions: readonly LockSession[], limits: Limits): Finding[] {
  const roots = rootBlockers(sessions).filter((root) =>
    behind(sessions, root).some(({ waitingMs }) => (waitingMs ?? 0) >= limits.waitMs),
  );
  const others = sessions.filter((one) => !roots.includes(one) && one.blockedBy.length === 0);
  const strong = others.filter(
    (one) =>
      AGAINST_WRITERS.includes(one.holdsMode ?? '') &&
      (one.openMs ?? limits.lockedMs) >= limits.lockedMs,
  );
  const idle = others.filter(
    (one) =>
      !strong.includes(one) &&
      one.state?.startsWith('idle in transaction') &&
      (one.stateMs ?? 0) >= limits.idleMs,
  );
  const findings = [
    ...roots.map((root) => blocking(root, behind(sessions, root))),
    ...strong.map(holding),
    ...idle.map(sleeping),
  ].slice(0, MOST);
  return findings.length > 0 ? findings : [ok(CHECK, 'nobody waits for a lock of this schema')];
}

function blocking(root: LockSession, waiting: readonly LockSession[]): Finding {
  const held = root.holds === null ? 'a lock' : `${root.holdsMode} on ${root.holds}`;
  const named = waiting.slice(0, NAMED).map((one) => {
    const since = one.waitingMs === null ? '' : ` for ${span(one.waitingMs)}`;
    return `${capital(sessionWords(one))} waits for ${wantedWords(one)}${since}${saying(one)}`;
  });
  const more = waiting.length - named.length;
  if (more > 0) named.push(`${more} more wait`);
  return problem(
    CHECK,
    `${capital(sessionWords(root))} holds ${held}${opened(root)} and blocks ${many(waiting.length, 'session')}${enqueuing(waiting)}${saying(root)}. ${named.join('. ')}.`,
    NOTHING_MOVES,
    fix(root),
  );
}

function holding(one: LockSession): Finding {
  const text = `${capital(sessionWords(one))} holds ${one.holdsMode} on ${one.holds}${opened(one)}${saying(one)}.`;
  return problem(CHECK, text, NOTHING_MOVES, fix(one));
}

function sleeping(one: LockSession): Finding {
  const text = `${capital(sessionWords(one))} has a transaction open${opened(one)} that touched ${one.holds ?? 'a queue'}${saying(one)}.`;
  const why =
    'Rows that it has changed are passed over. A change of the table would wait for it, and everybody behind that.';
  return note(CHECK, text, why, fix(one));
}

const capital = (words: string) => words[0]?.toUpperCase() + words.slice(1);

const opened = ({ openMs }: LockSession) => (openMs === null ? '' : ` for ${span(openMs)}`);

function saying({ query, state }: LockSession): string {
  const said = (query ?? '').replace(/\s+/g, ' ').trim();
  if (said === '' || said === '<insufficient privilege>') return '';
  const cut = said.length > STATEMENT_LENGTH ? `${said.slice(0, STATEMENT_LENGTH)}…` : said;
  return ` (${state === 'active' ? 'its statement' : 'its last statement'}: ${cut})`;
}

/** `keys`: those of the advisory lock of the queue's maintenance. */
export const readMaintenanceLock = asks({
  name: 'doctor_maintenance_lock',
  text: `
SELECT h.what, h.pid::text AS pid, coalesce(nullif(a.application_name, ''), 'no name') AS application,
  a.usename::text AS user_name, a.state,
  (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000)::bigint AS open_ms
FROM (
  SELECT 'the lock' AS what, l.pid FROM pg_locks AS l
  WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
    AND l.classid::bigint = ($1::bigint & 4294967295) AND l.objid::bigint = ($2::bigint & 4294967295)
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
  UNION
  -- Nobody can see who has locked a row, only who has locked some of the table.
  SELECT 'rows of the table queues', l.pid FROM pg_locks AS l
  WHERE l.relation = 'holdfast.queues'::regclass AND l.granted AND l.locktype = 'relation'
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    AND l.mode IN ('RowShareLock', 'RowExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
      'AccessExclusiveLock')
) AS h
JOIN pg_stat_activity AS a ON a.pid = h.pid
WHERE h.pid <> pg_backend_pid()
ORDER BY open_ms DESC NULLS LAST
LIMIT 5`,
  columns: {
    what: text,
    pid: text,
    application: text,
    user_name: text.orNull,
    state: text.orNull,
    open_ms: int8.orNull,
  },
  params: (keys: readonly [number, number]) => keys,
});

export type MaintenanceHolder = Answer<typeof readMaintenanceLock>;

/** `idleMs`: since the last round began; null: never. It counts for a user who may not see since when others hold the lock. */
export function judgeMaintenanceLock(
  queue: string,
  holders: readonly MaintenanceHolder[],
  limits: Limits,
  idleMs: number | null,
): Finding[] {
  const check = 'maintenance lock';
  const stuck = idleMs === null || idleMs >= limits.silentMs;
  const long = holders.filter(({ openMs }) =>
    openMs === null ? stuck : openMs >= limits.lockedMs,
  );
  if (long.length === 0) return [ok(check, `${queue}: nobody holds it for long`)];
  const last = idleMs === null ? 'none has begun yet' : `the last began ${span(idleMs)} ago`;
  return long.map(({ what, pid, application, userName, state, openMs }) =>
    problem(
      check,
      `Session ${pid} (${[application, userName && `user ${userName}`, state].filter(Boolean).join(', ')}) holds ${what} that maintenance of "${queue}" needs, ` +
        (openMs === null
          ? `and of its rounds ${last}. Since when, this user may not see.`
          : `for ${span(openMs)}.`),
      'No worker can begin a round meanwhile: vanished workers are not declared dead, their jobs not returned, nothing is pruned.',
      lines(END_IT, `SELECT pg_terminate_backend(${pid});`),
    ),
  );
}

export function judgeLimitLocks(queue: string, locks: readonly LimitLock[]): Finding[] {
  const check = 'limit lock';
  if (locks.length === 0) return [ok(check, `${queue}: nobody holds the row of a limit`)];
  return locks.map((lock) =>
    problem(
      check,
      `The row of ${limitOf(lock, queue)} is locked ${lockedBy(lock)}.`,
      `No job of ${lock.type === null ? `"${queue}"` : `type "${lock.type}"`} starts until that transaction ends. Other types are not affected.`,
      ending(lock) ?? 'End that transaction where it was begun.',
    ),
  );
}
