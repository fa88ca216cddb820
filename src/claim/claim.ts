/**
 * Claiming from a queue that is read by time: the oldest due jobs, priority by priority.
 *
 * The statement reads one index in due order, from a cursor for each priority, and stops as soon as it has
 * what was asked for. Row locks are taken with SKIP LOCKED and the update goes by the locked rows' places,
 * so two claimers never wait for each other and never get the same generation of a job. The cursor lets it
 * skip the dead index entries of finished jobs. It is a hint, never a fact: what commits late, is released or
 * recovered lies behind it, so the worker starts over from the front now and then and after such a hint.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int8, plainArray, statement, textArray, timestamp } from '../postgres/statement.js';
import {
  CLOCK,
  type Claimed,
  type ClaimedJob,
  type ClaimTerms,
  EXPIRED,
  HANDLED,
  LIMITS_KNOWN,
  NO_JOB,
  RECORD_CLAIM,
  RETURN_TAKEN,
  SELECT_TAKEN,
  splitHead,
  TAKE,
  TAKEN_COLUMNS,
  termsOf,
} from './taking.js';

/** Read the jobs of a priority that come after this place; '-infinity' and 0 read from the front. */
export interface DueCursor {
  readonly priority: number;
  readonly afterAt: string;
  readonly afterPosition: number;
}

export interface ClaimRequest extends ClaimTerms {
  readonly cursors: readonly DueCursor[];
  /** How far behind the clock `seenUntil` is: a row that commits a little late is still ahead of it. */
  readonly lagMs: number;
  /** Also say when the next job is due, whether suspects wait, and when the queue was maintained. */
  readonly ask: boolean;
}

/** What a claim says of its queue when it is asked. */
export interface QueueNews {
  /** How long until the next job is due; null: none is known. */
  readonly dueInMs: number | null;
  /** There are jobs that crashed their workers and are to be run apart. */
  readonly suspects: boolean;
  /** How long ago a round of maintenance began; null before the first. */
  readonly maintainedMs: number | null;
}

/** Asked by claims that read by time and by key. */
export const SUSPECTS_WAIT = `EXISTS (SELECT FROM holdfast.inbox AS s
    WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now())`;
export const MAINTAINED_MS = `(SELECT (extract(epoch FROM now() - q.maintained_at) * 1000)::bigint
    FROM holdfast.queues AS q WHERE q.name = 'inbox')`;

export const claimJobs = statement({
  name: 'claim',
  text: `
WITH claimed AS (
  UPDATE holdfast.inbox AS i
  SET ${TAKE}, isolated = false
  WHERE i.ctid = ANY (ARRAY(
  SELECT c.ctid
  FROM unnest($8::smallint[], $9::timestamptz[], $10::bigint[]) AS p(priority, after_at, after_position)
  CROSS JOIN LATERAL (
    SELECT i.ctid
    FROM holdfast.inbox AS i
    WHERE i.priority = p.priority
      AND (i.available_at, i.position) > (p.after_at, p.after_position)
      AND i.available_at <= now()
      AND i.crashes < 2
      AND (i.status = 'pending' OR ${EXPIRED})
      AND ${HANDLED}
    ORDER BY i.available_at, i.position
    LIMIT $5::integer
    FOR UPDATE SKIP LOCKED
  ) AS c
  WHERE EXISTS (SELECT FROM holdfast.queues AS q
    WHERE q.name = 'inbox' AND NOT q.paused AND q.ordering = 'none' AND ${LIMITS_KNOWN})
  LIMIT $5::integer
  ))
  RETURNING ${RETURN_TAKEN}
), ${RECORD_CLAIM}
-- First what is true of the whole claim, also of one that finds nothing; then the jobs, in any order.
SELECT f.epoch, (SELECT now() - $11::integer * interval '1 millisecond') AS seen_until, ${CLOCK},
  CASE WHEN $12::boolean THEN (
    SELECT (extract(epoch FROM min(n.available_at) - now()) * 1000)::bigint
    FROM unnest($8::smallint[]) AS p(priority)
    CROSS JOIN LATERAL (
      SELECT i.available_at FROM holdfast.inbox AS i
      WHERE i.priority = p.priority AND i.available_at > now() AND i.available_at < 'infinity'
        AND i.crashes < 2
      ORDER BY i.available_at LIMIT 1
    ) AS n) END AS due_in_ms,
  CASE WHEN $12::boolean THEN ${SUSPECTS_WAIT} END AS suspects,
  CASE WHEN $12::boolean THEN ${MAINTAINED_MS} END AS maintained_ms,
  ${NO_JOB}
FROM holdfast.fleet AS f
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, ${SELECT_TAKEN}
FROM claimed AS c`,
  columns: {
    epoch: int8.orNull,
    seen_until: timestamp.orNull,
    clock: int8.orNull,
    due_in_ms: int8.orNull,
    suspects: bool.orNull,
    maintained_ms: int8.orNull,
    ...TAKEN_COLUMNS,
  },
});

export interface ClaimedByTime extends Claimed {
  /** What was due before this was seen by the claim, unless it was not yet committed. */
  readonly seenUntil: string;
  /** Null unless it was asked for. */
  readonly news: QueueNews | null;
}

export async function claim(
  db: Executor,
  names: Names,
  request: ClaimRequest,
): Promise<ClaimedByTime> {
  const { cursors } = request;
  const rows = await db.run(claimJobs, names, [
    ...termsOf(request),
    plainArray(cursors.map(({ priority }) => priority)),
    textArray(cursors.map(({ afterAt }) => afterAt)),
    plainArray(cursors.map(({ afterPosition }) => afterPosition)),
    request.lagMs,
    request.ask,
  ]);
  const { epoch, seenUntil, clock, suspects, dueInMs, maintainedMs } = splitHead(rows);
  return {
    epoch: epoch ?? 0,
    seenUntil: seenUntil ?? '-infinity',
    clock: clock ?? 0,
    news: suspects === null ? null : { suspects, dueInMs, maintainedMs },
    jobs: rows.sort(byDue),
  };
}

/** The order in which the index has them. Postgres' timestamps sort as text. */
export function byDue(a: ClaimedJob, b: ClaimedJob): number {
  if (a.priority !== b.priority) return a.priority - b.priority;
  if (a.cursorAt !== b.cursorAt) return a.cursorAt < b.cursorAt ? -1 : 1;
  return a.cursorPosition - b.cursorPosition;
}
