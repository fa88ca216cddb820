/** A job whose type, or whose queue, is limited in the whole fleet: no permit is free, or no token is there. */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, type Row, statement, text } from '../../postgres/statement.js';
import type { ShownJob } from '../job/show.js';
import { inForce, type LimitRow, limitStates, readLimits } from '../queue/limits.js';
import { instant } from '../reading/columns.js';
import { LINES, lineOf } from '../reading/lines.js';
import { OPENS_AT } from '../reading/rate.js';
import { type LimitLock, limitLocks } from '../reading/row-locks.js';
import { many, span } from '../reading/words.js';
import { MAX_AHEAD } from './ahead.js';
import { clock, type Reason, sinceMs } from './reasons.js';
import type { Situation } from './situation.js';

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

const whose = ({ type, queue }: LimitRow) =>
  type === null ? `jobs of queue "${queue}"` : `"${type}" jobs`;
const commandFor = ({ type, queue }: LimitRow) =>
  `holdfast limits set${type === null ? '' : ` ${type}`}${queue === 'inbox' ? '' : ` --queue ${queue}`}`;

function rateText(row: LimitRow): string {
  const { rateLimit, ratePerMs, keyed } = row;
  const each = keyed ? ' of each key' : '';
  return `at most ${(rateLimit ?? 0).toLocaleString('en')} ${whose(row)}${each} start in ${span(ratePerMs ?? 0)}, in the whole fleet`;
}

/** It is due, and no token is there yet. */
export function rateLimited(situation: Situation): Reason | null {
  const { limits: found, job } = situation;
  const rates = found?.limits.filter(({ row }) => row.rateLimit !== null) ?? [];
  // A job has one rate: that of its type, or else that of its queue.
  const limit = rates.find(({ row }) => row.type !== null) ?? rates[0];
  if (!found?.line?.opensAt || !limit || sinceMs(situation, job.runAt) < 0) return null;
  const { row } = limit;
  return {
    code: 'rate_limited',
    text: `It is due${startText(situation, row)}: ${rateText(row)}.`,
    fix: `${commandFor(row)} --rate N/TIME lets more start`,
  };
}

/** When it may start, if its place among the jobs of its rate is known, or else when the next of them may. */
function startText(situation: Situation, row: LimitRow): string {
  const { opensAt, limitKey, ahead } = situation.limits?.line ?? {};
  const at = (laterMs: number) => {
    const ms = Date.parse(opensAt ?? '') + laterMs;
    return `${clock(new Date(ms).toISOString())} (in ${span(ms - situation.nowMs)})`;
  };
  const next = `the next job may start at ${at(0)}`;
  // Lines are of one type, and of one key if the job has one.
  const known = row.type !== null && row.keyed === (limitKey !== null);
  if (ahead === null || ahead === undefined || !known) return `, and ${next}`;
  if (ahead === 0) return ` and comes next, at ${at(0)}`;
  const like = `of its type${row.keyed ? ` and key ${limitKey}` : ''}`;
  if (ahead >= MAX_AHEAD)
    return `; ${MAX_AHEAD.toLocaleString('en')} or more jobs ${like} are ahead of it, and ${next}`;
  const pace = (row.ratePerMs ?? 0) / (row.rateLimit ?? 1);
  return (
    `; ${many(ahead, 'job')} ${like} ${ahead === 1 ? 'is' : 'are'} ahead of it, so it may start at about ` +
    `${at(ahead * pace)}, and ${next}`
  );
}

/** All permits are taken. */
export function limitReached({ limits: found }: Situation): Reason | null {
  const full = found?.limits.find(
    ({ row, running }) => row.concurrency !== null && running >= row.concurrency,
  );
  if (!full) return null;
  const { row, running } = full;
  const most = row.concurrency ?? 0;
  return {
    code: 'limit_reached',
    text:
      `It waits for a free permit: ${running.toLocaleString('en')} of ${many(most, 'permit')} for ${whose(row)} ` +
      'are taken in the whole fleet.',
    fix: `Wait until one of them ends, or ${commandFor(row)} --concurrency N`,
  };
}
