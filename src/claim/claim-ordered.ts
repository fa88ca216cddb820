/**
 * Claiming jobs that wait for their key: the head of a key, and what follows it without a gap (a run).
 *
 * The statement walks the order index from key to key and reads rows in small chunks; a key that is
 * blocked or long is stepped over. It takes a run only if it can lock every row of it, in the very
 * version that its snapshot showed, and the row behind it too. That is the whole of the safety. A job
 * that is gone never comes back, and one that is put back in line gets a new position; so the head of a
 * key in the snapshot is its head as long as it stands, and whoever claims a job behind it must lock it
 * first. Two claimers of one key therefore want the same row, whatever they believe of the ring: one
 * finds it locked or changed, and takes nothing of that key. A row that a live owner holds blocks what
 * follows. Only jobs whose enqueues overlapped may be seen late, ahead of a claim that did not see them:
 * they wait for it if it stands within the chunk or right behind their run, and may run beside it if not.
 *
 * A suspect comes alone, and so does a job that has failed before, or whose type fails often: what follows
 * would only be released.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, int8, plainArray, statement, text, textArray } from '../postgres/statement.js';
import type { Claimed } from './claim.js';
import {
  CLOCK,
  handles,
  plainTypes,
  RETURN_TAKEN,
  SELECT_TAKEN,
  TAKE,
  TAKEN_COLUMNS,
} from './taking.js';

/** A stretch of the order index: everything after one place and before another. */
export interface OrderProbe {
  readonly bucket: number;
  readonly afterKey: string;
  /** Of that key: -1 reads all of it, AFTER_KEY nothing of it. */
  readonly afterPosition: number;
  readonly untilBucket: number;
  readonly untilKey: string;
}

/** Behind every position that a job can have. */
export const AFTER_KEY = Number.MAX_SAFE_INTEGER;

export interface OrderedClaimRequest {
  readonly workerId: string;
  /** Read one after the other. No two of them may have a key in common. */
  readonly probes: readonly OrderProbe[];
  readonly limit: number;
  /** At most so many jobs of one key. */
  readonly run: number;
  readonly leaseMs: number;
  /** Handled types with the newest payload version that this worker understands. */
  readonly versions: Readonly<Record<string, number>>;
  /** By type, the versions up to which other workers take the jobs; none for most. */
  readonly above: Readonly<Record<string, number>>;
  readonly deadWorkers: readonly string[];
  /** Types of which each job is claimed alone, because they fail often. */
  readonly wary: readonly string[];
  /** After so many rows it stops in any case. Default `WALK`. */
  readonly walk?: number;
}

const WALK = 1_000;
export const MAX_RUN = 1_000;

export const claimOrderedJobs = statement({
  name: 'claim_ordered',
  text: `
WITH RECURSIVE walk AS (
  -- One row per chunk: where it ended, and the places of what it would take and of what stands behind.
  SELECT 0 AS step, 1 AS probe, ($1::integer[])[1] AS bucket, ($2::text[])[1] COLLATE "C" AS key,
    ($3::bigint[])[1] AS position, 0::bigint AS run, 0::bigint AS nth, 0 AS head, 32::bigint AS chunk,
    0::bigint AS seen, 0::bigint AS wanted,
    NULL::tid[] AS places, NULL::bigint[] AS runs, NULL::tid[] AS behind, NULL::bigint[] AS behind_runs
  WHERE NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox' AND q.paused)
  UNION ALL
  SELECT w.step + 1,
    -- A chunk that came back short was the last of its probe.
    CASE WHEN k.rows < w.chunk THEN w.probe + 1 ELSE w.probe END,
    CASE WHEN k.rows < w.chunk THEN ($1::integer[])[w.probe + 1] ELSE k.bucket END,
    CASE WHEN k.rows < w.chunk THEN ($2::text[])[w.probe + 1] ELSE k.key END COLLATE "C",
    -- On from here while a run goes on, else with the next key.
    CASE WHEN k.rows < w.chunk THEN ($3::bigint[])[w.probe + 1]
      WHEN k.goes_on THEN k.position ELSE 9223372036854775807 END,
    k.run, CASE WHEN k.goes_on THEN k.nth ELSE 0 END, k.head,
    -- The rest of a run and the row behind it; little where lines are long and not much is taken of them.
    CASE WHEN k.goes_on THEN greatest(32, $12::integer - k.nth + 1)
      WHEN k.taken * 2 <= k.rows AND k.keys < greatest(2, k.rows / 5) THEN 2 ELSE 32 END,
    w.seen + k.rows, w.wanted + k.taken,
    k.places[1 : $6::integer - w.wanted], k.runs[1 : $6::integer - w.wanted], k.behind, k.behind_runs
  FROM walk AS w
  CROSS JOIN LATERAL (
    SELECT count(*) AS rows, count(*) FILTER (WHERE j.nth = 1) AS keys,
      count(*) FILTER (WHERE j.taken) AS taken,
      max(j.bucket) FILTER (WHERE j.last) AS bucket, max(j.key) FILTER (WHERE j.last) AS key,
      max(j.position) FILTER (WHERE j.last) AS position, max(j.run) FILTER (WHERE j.last) AS run,
      max(j.nth) FILTER (WHERE j.last) AS nth, max(j.head) FILTER (WHERE j.last) AS head,
      bool_or(j.taken) FILTER (WHERE j.last) AS goes_on,
      array_agg(j.place) FILTER (WHERE j.taken) AS places,
      array_agg(j.run) FILTER (WHERE j.taken) AS runs,
      -- A row that a live owner holds has no place here: no run of its key is taken.
      array_agg(CASE WHEN j.kind > 0 THEN j.place END) FILTER (WHERE j.behind) AS behind,
      array_agg(j.run) FILTER (WHERE j.behind) AS behind_runs
    FROM (
      SELECT n.*,
        n.head > 1 AND (n.nth = 1 OR n.head = 3 AND n.nth <= $12::integer AND n.position < n.gap)
          AS taken,
        n.head > 1 AND (n.kind = 0 OR n.kind = 3 AND n.nth = CASE WHEN n.head = 2 THEN 2
          WHEN n.position < n.gap THEN $12::integer + 1 END) AS behind
      FROM (
        SELECT r.bucket, r.key, r.position, r.kind, r.place,
          CASE WHEN r.same THEN w.head ELSE first_value(r.kind) OVER q END AS head,
          CASE WHEN r.same THEN w.run ELSE w.seen + rank() OVER q END AS run,
          CASE WHEN r.same THEN w.nth ELSE 0 END + row_number() OVER q - rank() OVER q + 1 AS nth,
          coalesce(min(r.position) FILTER (WHERE r.kind < 3) OVER q, 9223372036854775807) AS gap,
          lead(true) OVER q IS NULL AS last
        FROM (
          SELECT i.ctid AS place, i.partition_bucket AS bucket, i.partition_key COLLATE "C" AS key,
            i.position, w.nth > 0 AND i.partition_key COLLATE "C" = w.key AS same,
            -- 0: a live owner holds it. 1: it waits, or is not for us. 2: to be run alone. 3: ready.
            CASE WHEN i.status = 'processing' AND i.lease_expires_at > now()
                AND i.claimed_by <> ALL ($10::text[]) THEN 0
              WHEN ${handles('$14', '$9', '$11')} THEN
                CASE WHEN i.status = 'processing' THEN 2
                  WHEN i.status <> 'pending' OR i.available_at > now() THEN 1
                  -- One that may well fail, or fail again: what follows it is not taken along.
                  WHEN i.crashes > 0 OR i.attempts > 0 OR i.type = ANY ($15::text[]) THEN 2 ELSE 3 END
              ELSE 1 END AS kind
          FROM holdfast.inbox AS i
          WHERE i.ordering IN ('key', 'key_strict')
            AND (i.partition_bucket, i.partition_key COLLATE "C", i.position)
              > (w.bucket, w.key, w.position)
            AND (i.partition_bucket, i.partition_key COLLATE "C")
              < (($4::integer[])[w.probe], ($5::text[])[w.probe])
          ORDER BY i.partition_bucket, i.partition_key COLLATE "C", i.position
          LIMIT w.chunk
        ) AS r
        WINDOW q AS (ORDER BY r.bucket, r.key RANGE BETWEEN CURRENT ROW AND CURRENT ROW)
      ) AS n
      OFFSET 0
    ) AS j
  ) AS k
  WHERE w.wanted < $6::integer AND w.seen < $13::integer AND w.probe <= cardinality($1::integer[])
), locked AS MATERIALIZED (
  SELECT p.run, p.taken, l.place, coalesce(l.place = p.place, false) AS unchanged
  FROM (
    SELECT t.place, t.run, true AS taken
    FROM walk AS w CROSS JOIN LATERAL unnest(w.places, w.runs) AS t(place, run)
    UNION ALL
    SELECT b.place, b.run, false
    FROM walk AS w CROSS JOIN LATERAL unnest(w.behind, w.behind_runs) AS b(place, run)
    -- Runs are numbered as they come; those beyond the limit are nobody's business.
    WHERE b.run <= coalesce(w.runs[cardinality(w.runs)], b.run)
  ) AS p
  LEFT JOIN LATERAL (
    SELECT i.ctid AS place FROM holdfast.inbox AS i WHERE i.ctid = p.place FOR UPDATE SKIP LOCKED
  ) AS l ON true
), kept AS MATERIALIZED (
  SELECT l.place
  FROM (
    SELECT l.place, l.taken, bool_and(l.unchanged) OVER (PARTITION BY l.run) AS whole
    FROM locked AS l
  ) AS l
  WHERE l.whole AND l.taken
), claimed AS (
  UPDATE holdfast.inbox AS i
  SET ${TAKE}
  WHERE i.ctid = ANY (ARRAY(SELECT place FROM kept))
  RETURNING ${RETURN_TAKEN}
)
SELECT f.epoch, ${CLOCK}, ${SELECT_TAKEN},
  s.probe AS stop_probe, coalesce(cut.partition_bucket, s.bucket) AS stop_bucket,
  coalesce(cut.partition_key, s.key) AS stop_key, s.wanted
FROM holdfast.fleet AS f
LEFT JOIN (SELECT w.* FROM walk AS w ORDER BY w.step DESC LIMIT 1) AS s ON true
-- The last chunk may hold more than was asked for: then the walk ended with the last job that it took.
LEFT JOIN holdfast.inbox AS cut
  ON s.wanted > $6::integer AND cut.ctid = s.places[cardinality(s.places)]
LEFT JOIN claimed AS c ON true
WHERE f.one
ORDER BY c.partition_bucket, c.partition_key COLLATE "C", c.cursor_position`,
  columns: {
    epoch: int8,
    clock: int8,
    ...TAKEN_COLUMNS,
    stop_probe: int4.orNull,
    stop_bucket: int4.orNull,
    stop_key: text.orNull,
    wanted: int8.orNull,
  },
});

/** The walk ended with this key; what lies behind it in the probe, and later probes, was not read. */
export interface OrderStop {
  /** Index into the probes of the request. */
  readonly probe: number;
  readonly bucket: number;
  readonly key: string;
}

export interface OrderedClaim extends Claimed {
  /** Null: everything that was asked for was read. */
  readonly stop: OrderStop | null;
  /** How many jobs were ready. More than came back: somebody else was claiming them just then. */
  readonly wanted: number;
}

/** The jobs of a key stand together, in its order. `cursorPosition` is a job's position. */
export async function claimOrdered(
  db: Executor,
  names: Names,
  request: OrderedClaimRequest,
): Promise<OrderedClaim> {
  const { probes } = request;
  const rows = await db.run(claimOrderedJobs, names, [
    plainArray(probes.map((probe) => probe.bucket)),
    textArray(probes.map((probe) => probe.afterKey)),
    plainArray(probes.map((probe) => probe.afterPosition)),
    plainArray(probes.map((probe) => probe.untilBucket)),
    textArray(probes.map((probe) => probe.untilKey)),
    request.limit,
    request.workerId,
    request.leaseMs,
    JSON.stringify(request.versions),
    textArray(request.deadWorkers),
    JSON.stringify(request.above),
    Math.max(1, Math.min(request.run, MAX_RUN)),
    request.walk ?? WALK,
    textArray(plainTypes(request.versions, request.above)),
    textArray(request.wary),
  ]);
  const [first] = rows;
  const { stopProbe = null, stopBucket = null, stopKey = null } = first ?? {};
  const inside = stopProbe !== null && stopProbe <= probes.length;
  return {
    epoch: first?.epoch ?? 0,
    clock: first?.clock ?? 0,
    // The one row of an empty claim has no job in it.
    jobs: first?.id ? rows : [],
    stop:
      inside && stopBucket !== null && stopKey !== null
        ? { probe: stopProbe - 1, bucket: stopBucket, key: stopKey }
        : null,
    wanted: first?.wanted ?? 0,
  };
}
