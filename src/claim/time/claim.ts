/**
 * Claiming from a queue that is read by time: the oldest due jobs, priority by priority.
 *
 * The jobs of one type, version and priority are a line, in due order; the index holds one line after the other. A claim
 * reads a few rows of each line that it is asked to read and merges them by due time. So jobs that nobody may take
 * (paused, not handled, too new, limited) are not read at all, however many there are. A line that brought as many rows
 * as were read of it may go on with older jobs than those of other lines: nothing behind its last row is taken (`cut`),
 * so the order is exact.
 *
 * The read takes no locks. The rows that are taken are then locked with SKIP LOCKED and checked again, so two claimers
 * never wait for each other and never get the same generation of a job. A cursor lets a line skip what was read before.
 * It is a hint, never a fact: what commits late, is released or recovered lies behind it, so lines are read from the
 * front now and then (lines.ts).
 *
 * Jobs whose rate has keys stand elsewhere (rated.ts). An aged claim takes only jobs that have been due for longer than the
 * queue's `age_after`, whatever their priority.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  int4,
  int8,
  json,
  plainArray,
  statement,
  text,
  textArray,
  timestamp,
} from '../../postgres/statement.js';
import { NEWS_COLUMNS, NO_NEWS, newsIn, newsOf, type QueueNews } from '../news.js';
import {
  ALLOWED,
  CLOCK,
  type Claimed,
  type ClaimedJob,
  type ClaimTerms,
  limited,
  NO_JOB,
  openQueue,
  RECORD_CLAIM,
  REFUSED,
  type Refused,
  refusedIn,
  SELECT_TAKEN,
  splitHead,
  TAKEN_COLUMNS,
  termsOf,
} from '../take.js';
import { CLAIMED, NOT_PAUSED_TYPE, READY } from './taken.js';

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
}

export const claimByTime = statement({
  name: 'claim',
  text: `
WITH ${openQueue(`q.ordering = 'none'`)}, found AS MATERIALIZED (
  SELECT l.nth AS line, l.rows, l.limited, c.*
  FROM (
    SELECT l.*, ${limited('l.type')} AS limited,
      CASE WHEN $14::boolean THEN (SELECT now() - o.age_after FROM open_queue AS o) ELSE now() END AS until,
      -- Aged jobs stand in one order, whatever their priority.
      CASE WHEN $14::boolean THEN 0::smallint ELSE l.priority END AS rank
    FROM unnest($7::text[], $8::integer[], $9::smallint[], $10::timestamptz[], $11::bigint[], $12::integer[])
      WITH ORDINALITY AS l(type, version, priority, after_at, after_position, rows, nth)
    WHERE ${NOT_PAUSED_TYPE('l.type')}
    OFFSET 0
  ) AS l
  CROSS JOIN LATERAL (
    SELECT i.ctid AS place, l.rank, i.available_at, i.position, ${READY} AS ready, row_number() OVER () AS nth
    FROM holdfast.inbox AS i
    WHERE i.type COLLATE "C" = l.type AND i.version = l.version AND i.priority = l.priority
      AND (i.available_at, i.position) > (l.after_at, l.after_position)
      AND i.available_at <= l.until AND i.crashes < 2 AND i.limit_key IS NULL
    ORDER BY i.available_at, i.position
    LIMIT l.rows
  ) AS c
), cut AS MATERIALIZED (
  SELECT f.line, f.rank, f.available_at, f.position FROM found AS f
  WHERE f.nth = f.rows
  ORDER BY f.rank, f.available_at, f.position LIMIT 1
), picked AS MATERIALIZED (
  SELECT f.place, f.limited, f.rank, f.available_at, f.position,
    CASE WHEN f.limited THEN ($7::text[])[f.line] END AS type, NULL::text AS limit_key
  FROM found AS f
  WHERE f.ready AND ((f.rank, f.available_at, f.position)
    <= (SELECT c.rank, c.available_at, c.position FROM cut AS c)) IS NOT FALSE
  ORDER BY f.rank, f.available_at, f.position
  LIMIT $5::integer
), ${ALLOWED}, ${CLAIMED}, ${RECORD_CLAIM}
-- First what is true of the whole claim, also of one that finds nothing; then the jobs, in any order.
SELECT f.epoch, (SELECT now() - $13::integer * interval '1 millisecond') AS seen_until, ${CLOCK},
  (SELECT count(*)::integer FROM picked) AS found,
  (SELECT string_agg(f.line::text, ',') FROM found AS f WHERE f.nth = 1) AS seen,
  c.line::integer AS cut_line, c.available_at AS cut_at, c.position AS cut_position, ${REFUSED} AS refused,
  CASE WHEN $15::boolean THEN (
    SELECT (extract(epoch FROM min(n.available_at) - now()) * 1000)::bigint
    FROM unnest($7::text[], $8::integer[], $9::smallint[]) AS l(type, version, priority)
    CROSS JOIN LATERAL (
      SELECT i.available_at FROM holdfast.inbox AS i
      WHERE i.type COLLATE "C" = l.type AND i.version = l.version AND i.priority = l.priority
        AND i.available_at > now() AND i.available_at < 'infinity' AND i.crashes < 2 AND i.limit_key IS NULL
      ORDER BY i.available_at LIMIT 1
    ) AS n) END AS due_in_ms,
  ${newsOf('$15::boolean')},
  ${NO_JOB}
FROM holdfast.fleet AS f
LEFT JOIN cut AS c ON true
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ${NO_NEWS}, ${SELECT_TAKEN}
FROM claimed AS c`,
  columns: {
    epoch: int8.orNull,
    seen_until: timestamp.orNull,
    clock: int8.orNull,
    found: int4.orNull,
    seen: text.orNull,
    cut_line: int4.orNull,
    cut_at: timestamp.orNull,
    cut_position: int8.orNull,
    refused: json.orNull,
    due_in_ms: int8.orNull,
    ...NEWS_COLUMNS,
    ...TAKEN_COLUMNS,
  },
});

/** Nothing behind this row of a line was read, and nothing of other lines that is due later was taken. */
export interface Cut {
  /** Index into the lines of the request. */
  readonly line: number;
  readonly at: string;
  readonly position: number;
}

export interface TimeClaim extends Claimed {
  /** What was due before this was seen by the claim, unless it was not yet committed. */
  readonly seenUntil: string;
  /** So many jobs could be taken. The limit itself means that there is more. */
  readonly found: number;
  /** The lines of the request in which there was anything. */
  readonly seen: ReadonlySet<number>;
  /** Null: every line was read to its end. */
  readonly cut: Cut | null;
  readonly refused: Refused;
  /** Null unless it was asked for. */
  readonly news: QueueNews | null;
}

export async function claimTime(
  db: Executor,
  names: Names,
  request: TimeRequest,
): Promise<TimeClaim> {
  const { lines } = request;
  const rows = await db.run(claimByTime, names, [
    ...termsOf(request),
    textArray(lines.map(({ type }) => type)),
    plainArray(lines.map(({ version }) => version)),
    plainArray(lines.map(({ priority }) => priority)),
    textArray(lines.map(({ afterAt }) => afterAt)),
    plainArray(lines.map(({ afterPosition }) => afterPosition)),
    plainArray(lines.map((line) => line.rows)),
    request.lagMs,
    request.aged ?? false,
    request.ask,
  ]);
  const head = splitHead(rows);
  const { cutLine: line, cutAt: at, cutPosition: position } = head;
  return {
    epoch: head.epoch ?? 0,
    seenUntil: head.seenUntil ?? '-infinity',
    clock: head.clock ?? 0,
    found: head.found ?? 0,
    seen: new Set((head.seen ?? '').split(',').map((nth) => Number(nth) - 1)),
    cut:
      line === null || at === null || position === null ? null : { line: line - 1, at, position },
    refused: refusedIn(head.refused),
    news: newsIn(head, head.dueInMs),
    jobs: rows.sort(byDue),
  };
}

/** The order in which they are to be started. Postgres' timestamps sort as text. */
export function byDue(a: ClaimedJob, b: ClaimedJob): number {
  if (a.priority !== b.priority) return a.priority - b.priority;
  if (a.cursorAt !== b.cursorAt) return a.cursorAt < b.cursorAt ? -1 : 1;
  return a.cursorPosition - b.cursorPosition;
}
