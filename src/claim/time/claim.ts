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
 * Jobs whose rate has keys stand in lines of their own, one for each key, and those are walked: a key without a token is
 * stepped over. An aged claim takes only jobs that have been due for longer than the queue's `age_after`, whatever their
 * priority.
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
  EXPIRED,
  limited,
  NO_JOB,
  openQueue,
  RECORD_CLAIM,
  REFUSED,
  RETURN_TAKEN,
  type Refused,
  refusedIn,
  SELECT_TAKEN,
  splitHead,
  TAKE,
  TAKEN_COLUMNS,
  termsOf,
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

/** The keys of a type's rate, from behind this one. */
export interface RateWalk {
  readonly type: string;
  readonly version: number;
  readonly afterKey: string;
}

export interface TimeRequest extends ClaimTerms {
  readonly lines: readonly LineRequest[];
  readonly walks: readonly RateWalk[];
  /** At most so many keys of each walk. */
  readonly keys: number;
  /** How far behind the clock `seenUntil` is: a row that commits a little late is still ahead of it. */
  readonly lagMs: number;
  /** Also say what `QueueNews` has. */
  readonly ask: boolean;
  /** Only jobs that have been due for longer than the queue lets a job wait for more urgent ones. */
  readonly aged?: boolean;
}

const READY = `(i.status = 'pending' OR ${EXPIRED})
        AND (i.partition_key = ANY ((SELECT o.paused_keys FROM open_queue AS o)::text[])) IS NOT TRUE`;
const UNTIL = `CASE WHEN $18::boolean THEN (SELECT now() - o.age_after FROM open_queue AS o) ELSE now() END`;
const NOT_PAUSED_TYPE = (type: string) =>
  `EXISTS (SELECT FROM open_queue AS o WHERE (${type} = ANY (o.paused_types)) IS NOT TRUE)`;
/** Aged jobs stand in one order, whatever their priority. */
const RANK = 'CASE WHEN $18::boolean THEN 0::smallint ELSE i.priority::smallint END';

export const claimByTime = statement({
  name: 'claim',
  text: `
WITH ${openQueue(`q.ordering = 'none'`)}, keys AS MATERIALIZED (
  SELECT k.*, ($14::integer[])[array_position($13::text[], k.type)] AS version
  FROM holdfast.inbox_rate_keys($13::text[], $15::text[], $16::integer, $5::integer) AS k
  WHERE $13::text[] <> '{}'
), found AS MATERIALIZED (
  SELECT l.nth AS line, l.rows, c.*
  FROM unnest($7::text[], $8::integer[], $9::smallint[], $10::timestamptz[], $11::bigint[], $12::integer[])
    WITH ORDINALITY AS l(type, version, priority, after_at, after_position, rows, nth)
  CROSS JOIN LATERAL (
    SELECT i.ctid AS place, ${RANK} AS rank, i.available_at, i.position, i.type, i.limit_key,
      ${READY} AS ready, row_number() OVER () AS nth
    FROM holdfast.inbox AS i
    WHERE i.type COLLATE "C" = l.type AND i.version = l.version AND i.priority = l.priority
      AND (i.available_at, i.position) > (l.after_at, l.after_position)
      AND i.available_at <= ${UNTIL} AND i.crashes < 2 AND i.limit_key IS NULL
    ORDER BY i.available_at, i.position
    LIMIT l.rows
  ) AS c
  WHERE ${NOT_PAUSED_TYPE('l.type')}
  UNION ALL
  SELECT 0, NULL, c.*
  FROM keys AS k
  CROSS JOIN LATERAL (
    SELECT c.* FROM generate_series(1, 4) AS p(priority)
    CROSS JOIN LATERAL (
      SELECT i.ctid AS place, ${RANK} AS rank, i.available_at, i.position, i.type, i.limit_key, true AS ready, 0::bigint AS nth
      FROM holdfast.inbox AS i
      WHERE i.type COLLATE "C" = k.type AND i.limit_key COLLATE "C" = k.key AND i.priority = p.priority::smallint
        AND i.available_at <= ${UNTIL} AND i.crashes < 2 AND i.limit_key IS NOT NULL
        AND i.version <= k.version AND ${READY}
      ORDER BY i.available_at, i.position
      LIMIT k.tokens
    ) AS c
    LIMIT k.tokens
  ) AS c
  WHERE k.tokens > 0 AND ${NOT_PAUSED_TYPE('k.type')}
), cut AS MATERIALIZED (
  SELECT f.line, f.rank, f.available_at, f.position FROM found AS f
  WHERE f.nth = f.rows
  ORDER BY f.rank, f.available_at, f.position LIMIT 1
), picked AS MATERIALIZED (
  SELECT f.place, f.type, f.limit_key, ${limited('f.type')} AS limited,
    row_number() OVER (ORDER BY f.rank, f.available_at, f.position) AS nth
  FROM found AS f
  WHERE f.ready AND ((f.rank, f.available_at, f.position)
    <= (SELECT c.rank, c.available_at, c.position FROM cut AS c)) IS NOT FALSE
  ORDER BY nth
  LIMIT $5::integer
), ${ALLOWED}, claimed AS (
  UPDATE holdfast.inbox AS i
  SET ${TAKE}, isolated = false
  WHERE i.ctid = ANY (ARRAY(
    SELECT i.ctid FROM holdfast.inbox AS i
    WHERE i.ctid = ANY (ARRAY(SELECT p.place FROM picked AS p WHERE NOT p.limited)) AND ${READY}
    FOR UPDATE SKIP LOCKED
  ) || ARRAY(SELECT a.place FROM allowed AS a WHERE a.ok))
  RETURNING ${RETURN_TAKEN}
), ${RECORD_CLAIM}
-- First what is true of the whole claim, also of one that finds nothing; then the jobs, in any order.
SELECT f.epoch, (SELECT now() - $17::integer * interval '1 millisecond') AS seen_until, ${CLOCK},
  (SELECT count(*)::integer FROM picked) AS found,
  (SELECT string_agg(DISTINCT f.line::text, ',') FROM found AS f WHERE f.line > 0) AS seen,
  c.line::integer AS cut_line, c.available_at AS cut_at, c.position AS cut_position, ${REFUSED} AS refused,
  (SELECT jsonb_object_agg(k.type, k.last) FROM (
    SELECT k.type, CASE WHEN count(*) >= $16::integer THEN max(k.key) ELSE '' END AS last FROM keys AS k GROUP BY k.type
  ) AS k) AS walked,
  least((SELECT min(k.again_ms) FROM keys AS k), (SELECT min(a.again_ms) FROM allowed AS a WHERE NOT a.whole)) AS walk_ms,
  CASE WHEN $19::boolean THEN (
    SELECT (extract(epoch FROM min(n.available_at) - now()) * 1000)::bigint
    FROM unnest($7::text[], $8::integer[], $9::smallint[]) AS l(type, version, priority)
    CROSS JOIN LATERAL (
      SELECT i.available_at FROM holdfast.inbox AS i
      WHERE i.type COLLATE "C" = l.type AND i.version = l.version AND i.priority = l.priority
        AND i.available_at > now() AND i.available_at < 'infinity' AND i.crashes < 2 AND i.limit_key IS NULL
      ORDER BY i.available_at LIMIT 1
    ) AS n) END AS due_in_ms,
  ${newsOf('$19::boolean')},
  ${NO_JOB}
FROM holdfast.fleet AS f
LEFT JOIN cut AS c ON true
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ${NO_NEWS}, ${SELECT_TAKEN}
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
    walked: json.orNull,
    walk_ms: int8.orNull,
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
  /** By type of which there are jobs with keys, the key with which a walk ended; '': it came to the end. */
  readonly walked: Readonly<Record<string, string>>;
  /** When a key that was walked has a token; null: none waits for one. */
  readonly walkMs: number | null;
  /** Null unless it was asked for. */
  readonly news: QueueNews | null;
}

export async function claimTime(
  db: Executor,
  names: Names,
  request: TimeRequest,
): Promise<TimeClaim> {
  const { lines, walks } = request;
  const rows = await db.run(claimByTime, names, [
    ...termsOf(request),
    textArray(lines.map(({ type }) => type)),
    plainArray(lines.map(({ version }) => version)),
    plainArray(lines.map(({ priority }) => priority)),
    textArray(lines.map(({ afterAt }) => afterAt)),
    plainArray(lines.map(({ afterPosition }) => afterPosition)),
    plainArray(lines.map((line) => line.rows)),
    textArray(walks.map(({ type }) => type)),
    plainArray(walks.map(({ version }) => version)),
    textArray(walks.map(({ afterKey }) => afterKey)),
    request.keys,
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
    walked: head.walked === null ? {} : JSON.parse(head.walked),
    walkMs: head.walkMs,
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
