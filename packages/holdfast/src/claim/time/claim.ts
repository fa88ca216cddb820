/**
 * Claiming from a queue that is read by time: the oldest due jobs, priority by priority.
 *
 * The jobs of one type, version and priority are a line, in due order; the index holds one line after the other. A claim reads
 * the lines that it is asked to read, so jobs that nobody may take (paused, not handled, too new, limited) are not read at all.
 * Lines of different priorities are read one after the other, by a plain statement. Of lines of the same priority a few rows
 * each are read and merged by due time, by a function (schema/functions/queue/claim.sql.ts). A line that brought as many rows
 * as were read of it may go on with older jobs than the others: nothing behind its last row is taken (`cut`), so the order is
 * exact.
 *
 * Rows are locked with SKIP LOCKED and checked under the lock, so two claimers never wait for each other and never get the
 * same generation of a job. A cursor lets a line skip what was read before. It is a hint, never a fact: what commits late,
 * is released or recovered lies behind it, so lines are read from the front now and then (lines.ts). Jobs whose rate has keys
 * stand elsewhere (rated.ts).
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, int8, statement, text, timestamp } from '../../postgres/statement.js';
import { inLine, READY } from '../../postgres/taken.js';
import {
  arraysOf,
  byDue,
  type Claimed,
  type ClaimedJob,
  type ClaimTerms,
  claim,
  claimStatement,
  NEWS_HEAD,
  newsIn,
  openQueue,
  type QueueNews,
} from '../take.js';

/** The jobs of a type, version and priority that come after a place; '-infinity' and 0 read from the front. */
export interface LineRequest {
  readonly type: string;
  readonly version: number;
  readonly priority: number;
  readonly afterAt: string;
  readonly afterPosition: number;
  /** At most so many rows are read. */
  readonly rows: number;
}

export interface TimeRequest extends ClaimTerms {
  readonly lines: readonly LineRequest[];
  /** How far behind the clock `seenUntil` is: a row that commits a little late is still ahead of it. */
  readonly lagMs: number;
  /** Also say what `QueueNews` has. */
  readonly ask: boolean;
  /** Only jobs that have been due for longer than the queue lets a job wait for more urgent ones. */
  readonly aged?: boolean;
  /** The last claim found that not every job may start. Left out, it is found out with one more statement. */
  readonly merge?: boolean;
}

/** Not every job of these lines may start: then `claim_merged` says which. */
const MERGES = `(o.paused_keys IS NOT NULL OR (o.limited && ($7::text[] || ''::text)) IS TRUE)`;

const UNTIL = `CASE WHEN $12::boolean THEN (SELECT now() - o.age_after FROM open_queue AS o) ELSE now() END`;

/** Lines are read one after the other, and each row is locked as it is read. */
export const claimInLine = claimStatement({
  name: 'claim',
  ctes: `WITH ${openQueue("q.ordering = 'none'")}, kept AS MATERIALIZED (
  SELECT c.place
  FROM (
    SELECT hashtextextended(l.type, l.version) AS line, l.priority, l.after_at, l.after_position
    FROM unnest($7::text[], $8::integer[], $9::smallint[], $10::timestamptz[], $11::bigint[])
      AS l(type, version, priority, after_at, after_position)
    WHERE (l.type = ANY ((SELECT o.paused_types FROM open_queue AS o)::text[])) IS NOT TRUE
  ) AS l
  CROSS JOIN LATERAL (
    SELECT i.ctid AS place FROM holdfast.inbox AS i
    WHERE ${inLine(UNTIL)} AND ${READY}
    ORDER BY i.available_at, i.position LIMIT $5::integer FOR UPDATE SKIP LOCKED
  ) AS c
  WHERE EXISTS (SELECT FROM open_queue AS o WHERE NOT ${MERGES})
  LIMIT $5::integer
)`,
  taking: 'WHERE i.ctid = ANY (ARRAY(SELECT k.place FROM kept AS k))',
  refused: 'NULL::jsonb',
  head: {
    seen_until: [
      `(SELECT now() - $13::integer * interval '1 millisecond')`,
      timestamp.or('-infinity'),
    ],
    ready_jobs: ['(SELECT count(*)::integer FROM kept)', int4.or(0)],
    seen: ['NULL::text', text.orNull],
    cut_line: ['NULL::integer', int4.orNull],
    cut_at: ['NULL::timestamptz', timestamp.orNull],
    cut_position: ['NULL::bigint', int8.orNull],
    merges: [`(SELECT ${MERGES} FROM open_queue AS o)`, bool.or(false)],
    ...NEWS_HEAD,
  },
  joins: `LEFT JOIN LATERAL (
  -- With OFFSET it is not called unless it is asked for.
  SELECT d.* FROM holdfast.inbox_due($7::text[], $8::integer[], now()) AS d WHERE $14::boolean OFFSET 0
) AS d ON true`,
});

/** The function has its columns in an order of its own, which workers of other versions know. */
const MERGED = Object.keys(claimInLine.columns).map((column) => `c.${column}`);

export const claimMerged = statement({
  name: 'claim_merged',
  text: `
SELECT ${MERGED.join(', ')}
FROM holdfast.inbox_claim($1::text, $2::integer, $3::bigint, $4::bigint[], $5::integer, $6::jsonb, $7::text[],
  $8::integer[], $9::smallint[], $10::timestamptz[], $11::bigint[], $15::integer[], $12::boolean, $13::integer,
  $14::boolean) AS c`,
  columns: claimInLine.columns,
});

export interface TimeClaim extends Claimed {
  /** What was due before this was seen by the claim, unless it was not yet committed. */
  readonly seenUntil: string;
  /** So many jobs could be taken. The limit itself means that there is more. */
  readonly found: number;
  /** The lines of the request in which there was anything. */
  readonly seen: ReadonlySet<number>;
  /** Nothing behind this row of a line was read, and nothing of others that is due later taken. Null: all were read to the end. */
  readonly cut: { readonly line: number; readonly at: string; readonly position: number } | null;
  /** Not every job of these lines may start: there are limits or paused keys. */
  readonly merges: boolean;
  /** Null unless it was asked for. */
  readonly news: QueueNews | null;
}

export async function claimTime(
  db: Executor,
  names: Names,
  request: TimeRequest,
): Promise<TimeClaim> {
  const { lines, limit, aged = false } = request;
  const params = [
    ...arraysOf(lines, 'type', 'version', 'priority', 'afterAt', 'afterPosition'),
    aged,
    request.lagMs,
    request.ask,
  ];
  const merged = request.merge || mustMerge(lines, aged);
  if (merged) params.push(...arraysOf(lines, 'rows'));
  const how = merged ? claimMerged : claimInLine;
  const { head, ...claimed } = await claim(db, names, how, request, params, byDue);
  const { merges, seenUntil, readyJobs: found, seen } = head;
  if (merges && !merged) return claimTime(db, names, { ...request, merge: true });
  const { cutLine: line, cutAt: at, cutPosition: position } = head;
  return {
    ...{ ...claimed, seenUntil, found, merges, news: newsIn(head) },
    seen:
      seen === null
        ? goesOn(lines, claimed.jobs, found, limit)
        : new Set(seen.split(',').map((nth) => Number(nth) - 1)),
    cut:
      line === null || at === null || position === null ? null : { line: line - 1, at, position },
  };
}

/** Whether some of the lines are of one rank. Otherwise they are read one after the other. */
function mustMerge(lines: readonly LineRequest[], aged: boolean): boolean {
  const isLater = ({ priority }: LineRequest, n: number) =>
    n === 0 || (!aged && priority > (lines[n - 1] as LineRequest).priority);
  return !lines.every(isLater);
}

/**
 * Lines that were read one after the other: a claim that found all it wanted did not come to the end of these. A row that was
 * changed while the claim ran is found and not taken, and may be of any line.
 */
export function goesOn(
  lines: readonly LineRequest[],
  jobs: readonly ClaimedJob[],
  found: number,
  limit: number,
): Set<number> {
  const changed = found > jobs.length;
  const last = found < limit ? undefined : jobs.at(-1);
  const isUnread = ({ priority }: LineRequest) => last !== undefined && priority >= last.priority;
  return new Set([...lines.keys()].filter((nth) => changed || isUnread(lines[nth] as LineRequest)));
}
