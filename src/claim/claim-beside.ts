/**
 * Claiming beside a long line: the jobs of one bucket that are not of the keys which fill it.
 *
 * claim.ts reads a bucket from its oldest job on, so a key that shares its bucket with a hundred thousand
 * jobs of another would wait behind all of them. This statement reads a stretch of the same index in the
 * same order, or back from its end, steps over the jobs of the named keys and takes what is left. It says
 * where the stretch ended, so that the next one of a pass can go on from there.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int8, statement, textArray, timestamp } from '../postgres/statement.js';
import { type ClaimedByTime, type ClaimRequest, SEEN_UNTIL, termsOf } from './claim.js';
import {
  CLAIMABLE,
  CLOCK,
  handles,
  RETURN_TAKEN,
  SELECT_TAKEN,
  TAKE,
  TAKEN_COLUMNS,
} from './taking.js';

export interface BesideProbe {
  readonly priority: number;
  readonly bucket: number;
  readonly afterAt: string;
  readonly afterPosition: number;
  /** The keys whose jobs are stepped over. */
  readonly without: readonly string[];
  /** Read back from the end of the bucket, as far as that place, and not on from it. */
  readonly atEnd: boolean;
  /** The length of the stretch, in jobs. */
  readonly reach: number;
}

export type BesideRequest = Omit<ClaimRequest, 'probes'> & { readonly probe: BesideProbe };

const text = (direction: '' | 'DESC') => `
WITH stretch AS MATERIALIZED (
  -- Arrays of places are cheap to fill: most of these rows are only stepped over.
  SELECT array_agg(s.place) FILTER (WHERE NOT s.of_line) AS others,
    (array_agg(s.place))[$14::integer] AS last
  FROM (
    SELECT i.ctid AS place, i.partition_key COLLATE "C" = ANY ($5::text[]) AS of_line
    FROM holdfast.inbox AS i
    WHERE i.priority = $1::smallint
      AND i.partition_bucket = $2::integer
      AND (i.available_at, i.position) > ($3::timestamptz, $4::bigint)
      AND i.available_at <= now()
      AND i.ordering IN ('none', 'parked')
      AND NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox' AND q.paused)
    ORDER BY i.available_at ${direction}, i.position ${direction}
    LIMIT $14::integer
  ) AS s
), picked AS MATERIALIZED (
  SELECT c.ctid AS place
  FROM (SELECT unnest(s.others) AS place FROM stretch AS s) AS other
  CROSS JOIN LATERAL (
    SELECT i.ctid
    FROM holdfast.inbox AS i
    WHERE i.ctid = other.place
      AND ${CLAIMABLE}
      AND ${handles('$13', '$9', '$12')}
    FOR UPDATE SKIP LOCKED
  ) AS c
  LIMIT $6::integer
), claimed AS (
  UPDATE holdfast.inbox AS i
  SET ${TAKE}
  WHERE i.ctid = ANY (ARRAY(SELECT place FROM picked))
  RETURNING ${RETURN_TAKEN}
), last AS (
  -- There is none if the bucket ended before.
  SELECT l.available_at, l.position FROM holdfast.inbox AS l
  WHERE l.ctid = (SELECT s.last FROM stretch AS s)
)
SELECT f.epoch, ${SEEN_UNTIL},
  (SELECT available_at FROM last) AS end_at, (SELECT position FROM last) AS end_position,
  (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint AS took_us,
  ${CLOCK}, ${SELECT_TAKEN}
FROM holdfast.fleet AS f
LEFT JOIN claimed AS c ON true
WHERE f.one
ORDER BY c.cursor_at, c.cursor_position`;

const columns = {
  epoch: int8,
  seen_until: timestamp,
  end_at: timestamp.orNull,
  end_position: int8.orNull,
  took_us: int8,
  clock: int8,
  ...TAKEN_COLUMNS,
} as const;

export const claimBesideJobs = statement({ name: 'claim_beside', text: text(''), columns });
export const claimAtEndJobs = statement({ name: 'claim_at_end', text: text('DESC'), columns });

export interface ClaimedBeside extends ClaimedByTime {
  /** Where the stretch ended; null when it came to the end of the bucket. */
  readonly end: { readonly at: string; readonly position: number } | null;
  /** What it took of the server's time: a busy process is late to hear the answer. */
  readonly tookMs: number;
}

export async function claimBeside(
  db: Executor,
  names: Names,
  request: BesideRequest,
): Promise<ClaimedBeside> {
  const { probe } = request;
  const rows = await db.run(probe.atEnd ? claimAtEndJobs : claimBesideJobs, names, [
    probe.priority,
    probe.bucket,
    probe.afterAt,
    probe.afterPosition,
    textArray(probe.without),
    ...termsOf(request),
    probe.reach,
  ]);
  const [first] = rows;
  const jobs = first?.id ? rows : [];
  const { epoch = 0, clock = 0, seenUntil = '-infinity', endAt, endPosition } = first ?? {};
  const end = endAt && endPosition ? { at: endAt, position: endPosition } : null;
  return { epoch, clock, jobs, seenUntil, end, tookMs: (first?.tookUs ?? 0) / 1_000 };
}
