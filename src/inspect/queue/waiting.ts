/**
 * What the jobs of a queue wait for, counted by the reasons that `explain` gives for one of them; of several the first
 * one counts.
 *
 * It reads a bounded part of the queue: where that is read by time, the first jobs of each priority that are due and the
 * first that are not; where it is read by key, the first jobs by id, in which the earlier jobs of a key stand before the
 * later ones. Of a queue that is larger than that, the counts say at least so many.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, type Row, statement, text, textArray } from '../../postgres/statement.js';

/** So many are read where no index leaves the dead letters out. */
const WITH_DEAD = 100_000;

/** `obstacles`: those of a queue that is read by key. */
const REASON = (obstacles: string) => `
  CASE
    WHEN q.paused THEN 'queue_paused'
    WHEN j.type = ANY (q.paused_types) THEN 'type_paused'
    WHEN j.partition_key = ANY (q.paused_keys) THEN 'key_paused'
    WHEN j.limit_slot = j.available_at THEN 'rate_limited'
    WHEN j.available_at > now() AND j.attempts > 0 THEN 'retrying'
    WHEN j.available_at > now() THEN 'not_due'
    WHEN $2::boolean OR j.type = ANY ($3::text[]) THEN 'limit_reached'${obstacles}
    ELSE 'waiting_its_turn' END`;

const COUNTED = (jobs: string, obstacles: string) => `
SELECT w.reason, count(*) AS jobs
FROM (
  SELECT ${REASON(obstacles)} AS reason
  FROM (${jobs}) AS j
  CROSS JOIN holdfast.queues AS q
  WHERE q.name = 'inbox' AND j.status = 'pending'
) AS w
GROUP BY w.reason
ORDER BY w.reason`;

const COLUMNS = { reason: text, jobs: int8 };

const PART = (when: string) => `
    (SELECT i.status, i.type, i.partition_key, i.available_at, i.limit_slot, i.attempts
     FROM holdfast.inbox AS i
     WHERE i.priority = p.priority::smallint AND i.crashes < 2 AND ${when}
     ORDER BY i.available_at, i.position LIMIT $1::integer)`;

export const waitingByTime = statement({
  name: 'waiting_by_time',
  text: COUNTED(
    `
    SELECT r.* FROM generate_series(1, 4) AS p(priority)
    CROSS JOIN LATERAL (${PART('i.available_at <= now()')}
      UNION ALL ${PART(`i.available_at > now() AND i.available_at < 'infinity'`)}
    ) AS r
    UNION ALL
    -- Suspects are not in the index that claims read.
    (SELECT s.status, s.type, s.partition_key, s.available_at, s.limit_slot, s.attempts
     FROM holdfast.inbox AS s WHERE s.crashes > 1 LIMIT $1::integer)`,
    '',
  ),
  columns: COLUMNS,
});

export const waitingByKey = statement({
  name: 'waiting_by_key',
  text: COUNTED(
    `
    SELECT i.status, i.type, i.partition_key, i.available_at, i.limit_slot, i.attempts, i.group_key,
      row_number() OVER (PARTITION BY i.partition_bucket, i.partition_key ORDER BY i.position) AS nth,
      count(*) FILTER (WHERE i.status = 'processing') OVER (PARTITION BY i.group_key, i.partition_key) AS of_key,
      count(*) FILTER (WHERE i.status = 'processing') OVER (PARTITION BY i.group_key) AS of_group
    FROM (
      SELECT a.* FROM (SELECT * FROM holdfast.inbox ORDER BY id LIMIT ${WITH_DEAD}) AS a
      WHERE NOT a.parked LIMIT $1::integer
    ) AS i`,
    `
    WHEN q.ordering <> 'turns' AND j.nth > 1 THEN 'key_held'
    WHEN j.of_key >= q.per_key THEN 'key_full'
    WHEN j.group_key IS NOT NULL AND j.of_group >= q.per_group THEN 'group_full'`,
  ),
  columns: COLUMNS,
});

export type Waiting = Row<typeof COLUMNS>;

export interface WaitingOptions {
  readonly keyed: boolean;
  /** So many of each part are read. */
  readonly rows: number;
  /** Types whose places are all taken. */
  readonly fullTypes: readonly string[];
  /** Those of the whole queue are. */
  readonly queueFull: boolean;
}

/** Reasons for which none waits are left out. */
export function waitingByReason(
  db: Executor,
  names: Names,
  { keyed, rows, fullTypes, queueFull }: WaitingOptions,
): Promise<Waiting[]> {
  const values = [rows, queueFull, textArray(fullTypes)];
  return db.run(keyed ? waitingByKey : waitingByTime, names, values);
}
