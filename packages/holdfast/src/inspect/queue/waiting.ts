/**
 * What the jobs of a queue wait for, by the first of the reasons that `explain` gives. Runs of workflows that wait are not
 * among them: they are no work yet. Of a large queue a bounded part is
 * read, and counts are lower bounds: by time, of each line the first jobs that are due and the first that are not; by key,
 * the first jobs by id, in which the earlier jobs of a key stand before the later ones.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, type Row, statement, text, textArray } from '../../postgres/statement.js';
import { asleep } from '../../postgres/taken.js';
import { inLines, LINES, share } from '../reading/lines.js';

/** So many are read where no index leaves the dead letters out. */
const WITH_DEAD = 100_000;

/** `obstacles`: those of a queue that is read by key. */
const REASON = (obstacles: string) => `
  CASE
    WHEN q.paused THEN 'queue_paused'
    WHEN j.type = ANY (q.paused_types) THEN 'type_paused'
    WHEN j.partition_key = ANY (q.paused_keys) THEN 'key_paused'
    WHEN j.available_at > now() AND j.attempts > 0 THEN 'retrying'
    WHEN j.available_at > now() THEN 'not_due'
    WHEN (j.type, coalesce(j.limit_key, '')) IN (SELECT p.type, p.key FROM unnest($4::text[], $5::text[]) AS p(type, key))
      THEN 'rate_limited'
    WHEN $2::boolean OR j.type = ANY ($3::text[]) THEN 'limit_reached'${obstacles}
    ELSE 'waiting_its_turn' END`;

const COUNTED = (jobs: string, obstacles: string, lines = '') => `${lines}
SELECT w.reason, count(*) AS jobs
FROM (
  SELECT ${REASON(obstacles)} AS reason
  FROM (${jobs}) AS j
  CROSS JOIN holdfast.queues AS q
  WHERE q.name = 'inbox' AND j.status = 'pending' AND NOT j.asleep
) AS w
GROUP BY w.reason
ORDER BY w.reason`;

const COLUMNS = { reason: text, jobs: int8 };

const SAMPLE = 20_000;

const PART = (when: string) =>
  inLines({
    columns: `i.status, i.type, i.partition_key, i.available_at, i.limit_key, i.attempts, ${asleep('i')} AS asleep`,
    ...{ when, most: `coalesce($1::integer, ${share(SAMPLE)})` },
  });

export const waitingByTime = statement({
  name: 'waiting_by_time',
  text: COUNTED(
    `${PART('i.available_at <= now()')}
    UNION ALL ${PART(`i.available_at > now() AND i.available_at < '9999-12-31'`)}
    UNION ALL
    -- Suspects are not in the indexes that claims read.
    (SELECT s.status, s.type, s.partition_key, s.available_at, s.limit_key, s.attempts,
       ${asleep('s')} AS asleep
     FROM holdfast.inbox AS s WHERE s.crashes > 1 LIMIT coalesce($1::integer, ${SAMPLE}))`,
    '',
    `WITH RECURSIVE ${LINES}`,
  ),
  columns: COLUMNS,
});

export const waitingByKey = statement({
  name: 'waiting_by_key',
  text: COUNTED(
    `
    SELECT i.status, i.type, i.partition_key, i.available_at, i.limit_key, i.attempts, i.group_key,
      ${asleep('i')} AS asleep, row_number() OVER (PARTITION BY i.partition_bucket, i.partition_key ORDER BY i.position) AS nth,
      count(*) FILTER (WHERE i.status = 'processing') OVER (PARTITION BY i.group_key, i.partition_key) AS of_key,
      count(*) FILTER (WHERE i.status = 'processing') OVER (PARTITION BY i.group_key) AS of_group
    FROM (
      SELECT a.* FROM (SELECT * FROM holdfast.inbox ORDER BY id LIMIT ${WITH_DEAD}) AS a
      WHERE NOT a.parked LIMIT coalesce($1::integer, ${SAMPLE})
    ) AS i`,
    `
    WHEN q.ordering <> 'turns' AND j.nth > 1 THEN 'key_held'
    WHEN j.of_key >= coalesce((SELECT w.per_key FROM holdfast.key_windows AS w
      WHERE w.queue = 'inbox' AND w.key = j.partition_key), q.per_key) THEN 'key_full'
    WHEN j.group_key IS NOT NULL AND j.of_group >= q.per_group THEN 'group_full'`,
  ),
  columns: COLUMNS,
});

export type Waiting = Row<typeof COLUMNS>;

export interface WaitingOptions {
  readonly keyed: boolean;
  /** It has at most so many jobs, and all are read; null: a part is. */
  readonly rows: number | null;
  /** Types all of whose permits are taken. */
  readonly fullTypes: readonly string[];
  /** Those of the whole queue are. */
  readonly queueFull: boolean;
  /** Types, and keys of rates, that have no token now. */
  readonly paced: readonly { readonly type: string; readonly limitKey: string | null }[];
}

/** Reasons for which none waits are left out. */
export function waitingByReason(
  db: Executor,
  names: Names,
  { keyed, rows, fullTypes, queueFull, paced }: WaitingOptions,
): Promise<Waiting[]> {
  const types = textArray(paced.map(({ type }) => type));
  const keys = textArray(paced.map(({ limitKey }) => limitKey ?? ''));
  const values = [rows, queueFull, textArray(fullTypes), types, keys];
  return db.run(keyed ? waitingByKey : waitingByTime, names, values);
}
