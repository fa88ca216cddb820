/** The limits that hold for a job: how many run under each, and when its rate next has a token. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { int8, type Row, statement, text } from '../../../postgres/statement.js';
import type { ShownJob } from '../../job/show.js';
import { inForce, type LimitRow, limitStates, OPENS_AT, readLimits } from '../../queue/limits.js';
import { instant } from '../../reading/columns.js';
import { LINES, lineOf } from '../../reading/lines.js';
import { type LimitLock, limitLocks } from '../../reading/row-locks.js';
import { MAX_AHEAD } from './line.js';

/** Due jobs `a` of a line of priority `p` that come before the job `i`. */
const BEFORE = (p: string) => `a.priority = ${p} AND a.crashes < 2
          AND a.available_at <= CASE WHEN ${p} < i.priority THEN now() ELSE i.available_at END
          AND (${p} < i.priority OR (a.available_at, a.position) < (i.available_at, i.position))
          AND a.status = 'pending' AND a.version <= coalesce($3::integer, a.version)
        LIMIT ${MAX_AHEAD}`;

/** $2: the queue is read by time. $3: the newest version of its type that a worker handles. */
export const readRateLine = statement({
  name: 'explain_rate',
  text: `
WITH RECURSIVE ${LINES}
SELECT o.opens_at, i.limit_key, CASE WHEN $2::boolean THEN (
    SELECT count(*) FROM (
      SELECT FROM lines AS l CROSS JOIN LATERAL (
        SELECT FROM holdfast.inbox AS a
        WHERE ${lineOf('a')} = l.line AND a.limit_key IS NULL AND ${BEFORE('l.priority')}
      ) AS a
      WHERE i.limit_key IS NULL AND l.type = i.type AND l.priority <= i.priority
        AND l.version <= coalesce($3::integer, l.version)
      UNION ALL
      SELECT FROM generate_series(1, 4) AS p(priority) CROSS JOIN LATERAL (
        SELECT FROM holdfast.inbox AS a
        WHERE a.type COLLATE "C" = i.type AND a.limit_key COLLATE "C" = i.limit_key AND a.limit_key IS NOT NULL
          AND ${BEFORE('p.priority::smallint')}
      ) AS a
      WHERE i.limit_key IS NOT NULL AND p.priority <= i.priority
      LIMIT ${MAX_AHEAD}
    ) AS line) END AS ahead
FROM holdfast.inbox AS i
LEFT JOIN LATERAL (${OPENS_AT('i.type', 'i.limit_key')}
) AS o ON true
WHERE i.id = $1::uuid`,
  columns: { opens_at: instant, limit_key: text.orNull, ahead: int8.orNull },
});

export interface LimitSituation {
  /** Those that hold for the job, with how many run under each. */
  readonly limits: readonly { readonly row: LimitRow; readonly running: number }[];
  /** When there is a token for a job like it, the key of its rate, and how many of them come before it. */
  readonly line: Row<typeof readRateLine.columns> | null;
  /** The rows of its limits that somebody has locked, so that claims get nothing. */
  readonly locks: readonly LimitLock[];
  /** Types of which claims take nothing now, because of a limit of their own. */
  readonly closed: readonly string[];
}

/** Null: the queue has no limits. `version`: the newest of its type that a worker handles. */
export async function limitSituation(
  db: Executor,
  names: Names,
  job: ShownJob,
  how: { readonly keyed: boolean; readonly version: number | null },
): Promise<LimitSituation | null> {
  const rows = (await readLimits(db, names, names.queue)).filter((row) => inForce(row) !== null);
  if (rows.length === 0) return null;
  const states = await limitStates(db, names);
  const own = rows.filter((row) => row.type === null || row.type === job.type);
  const closed = rows.flatMap(({ type, concurrency }) => {
    const { running = 0, opensAt = null } = states.get(type) ?? {};
    const full = concurrency !== null && running >= concurrency;
    return type !== null && (full || opensAt !== null) ? [type] : [];
  });
  const paced = own.some((row) => row.rateLimit !== null);
  const [line] = paced ? await db.run(readRateLine, names, [job.id, !how.keyed, how.version]) : [];
  return {
    limits: own.map((row) => ({ row, running: states.get(row.type)?.running ?? 0 })),
    line: line ?? null,
    locks: own.length === 0 ? [] : await limitLocks(db, names, job.type),
    closed,
  };
}
