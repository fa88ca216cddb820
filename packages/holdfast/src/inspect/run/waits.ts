/**
 * What the runs of a queue wait for, and since when. All open waits are read, up to a bound. If there are more, the oldest
 * and the newest are read, half of the bound each, and scaled by how many the server expects to be open.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, type Row, statement, text, uuid } from '../../postgres/statement.js';
import { asleep } from '../../postgres/taken.js';
import { instant, moment, parsed } from '../reading/columns.js';
import { stateOfRow } from './state.js';

/** What a run waits for, as it is read. */
export interface StoredWait {
  readonly name: string;
  readonly kind: string;
  readonly signals: readonly string[] | null;
  readonly since: string;
  readonly until: string | null;
  readonly remaining: number | null;
  readonly children: number | null;
  readonly attempts: number | null;
  readonly error: string | null;
}

/** The open markers of `run`, the first due first, as JSON: see `StoredWait`. */
export const waitsOf = (run: string) => `(
    SELECT jsonb_agg(jsonb_build_object('name', w.name, 'kind', w.kind, 'signals', CASE w.kind WHEN 'w' THEN w.value END,
      'since', w.at, 'until', w.due_at, 'remaining', w.remaining,
      'children', CASE w.kind WHEN 'c' THEN (w.value ->> 'count')::integer END, 'attempts', w.attempt, 'error', w.error ->> 'message')
      ORDER BY w.due_at, w.nth)
    FROM (
      SELECT s.* FROM holdfast.inbox_steps AS s
      WHERE s.run_id = ${run} AND s.place IS NULL AND (s.kind IN ('w', 'z', 'c') OR s.attempt IS NOT NULL)
      ORDER BY s.due_at, s.nth LIMIT 20
    ) AS w)`;

export const runNowRow = statement({
  name: 'run_now',
  text: `
SELECT ${stateOfRow('i')} AS state, ${asleep('i')} AS asleep, ${waitsOf('i.id')} AS waits
FROM holdfast.inbox AS i
WHERE i.id = $1::uuid`,
  columns: { state: text, asleep: bool, waits: parsed },
});

export interface RunNow {
  readonly state: string;
  /** It waits for what comes, and nobody wants it before. */
  readonly asleep: boolean;
  readonly waits: readonly StoredWait[];
}

/** Null: its queue does not have it. */
export async function runNow(db: Executor, names: Names, id: string): Promise<RunNow | null> {
  const [row] = await db.run(runNowRow, names, [id]);
  return row ? { ...row, waits: (row.waits ?? []) as StoredWait[] } : null;
}

export const longWaits = statement({
  name: 'long_waits',
  text: `
SELECT count(*) AS runs, min(w.at) AS oldest, (array_agg(w.run_id ORDER BY w.at))[1] AS example
FROM (
  SELECT s.run_id, s.at, s.kind, s.due_at FROM holdfast.inbox_steps AS s
  WHERE s.place IS NULL OR s.kind = '!' ORDER BY s.run_id LIMIT 10000
) AS w
WHERE w.kind = 'w' AND w.due_at IS NULL AND w.at < now() - $1::bigint * interval '1 millisecond'`,
  columns: { runs: int8, oldest: instant, example: uuid.orNull },
});

/** Waits for a signal without a time-out, longer than this; of the 10,000 oldest runs that wait. */
export async function waitingLong(db: Executor, names: Names, forMs: number) {
  const [row] = await db.run(longWaits, names, [forMs]);
  return row?.oldest && row.example ? { ...row, oldest: row.oldest, example: row.example } : null;
}

/** So many markers are read. */
const OPEN_ROWS = 50_000;
const MAX_GROUPS = 1_000;

/** `half` of the markers, from one end. */
const END = (order: 'ASC' | 'DESC') => `
    (SELECT s.run_id, s.at, s.kind, s.name, s.attempt FROM holdfast.inbox_steps AS s
     WHERE s.place IS NULL OR s.kind = '!' ORDER BY s.run_id ${order} LIMIT $1::integer / 2)`;

export const groupWaits = statement({
  name: 'group_waits',
  text: `
WITH open AS MATERIALIZED (${END('ASC')} UNION ${END('DESC')}
), seen AS (
  SELECT count(*) AS markers FROM open
), runs AS (
  SELECT i.type, o.kind, o.name, o.run_id, o.at
  FROM open AS o
  CROSS JOIN LATERAL (
    SELECT i.type FROM holdfast.inbox AS i
    WHERE i.id = o.run_id AND i.status = 'pending' AND ${asleep('i')} LIMIT 1
  ) AS i
  WHERE o.kind IN ('w', 'z', 'c') OR o.attempt IS NOT NULL
)
SELECT r.type AS workflow, CASE r.kind WHEN 'u' THEN substr(r.name, 2) ELSE r.name END AS name, r.kind::text AS kind,
  CASE WHEN s.markers < $1::integer THEN count(DISTINCT r.run_id)
    ELSE round(count(DISTINCT r.run_id)::numeric * greatest(x.expected, s.markers) / s.markers) END::bigint AS runs,
  min(r.at) AS oldest, s.markers >= $1::integer AS approximate
FROM runs AS r
CROSS JOIN seen AS s
CROSS JOIN (
  SELECT c.reltuples::bigint AS expected FROM pg_class AS c WHERE c.oid = to_regclass('holdfast.inbox_steps_open_idx')
) AS x
GROUP BY r.type, r.kind, r.name, s.markers, x.expected
ORDER BY runs DESC, r.type, r.name
LIMIT ${MAX_GROUPS}`,
  columns: {
    ...{ workflow: text, name: text, kind: text, runs: int8, oldest: moment },
    /** More is open than was read. */
    approximate: bool,
  },
});

export type WaitGroup = Row<typeof groupWaits.columns>;

/** A run that waits for several things is counted for each. */
export function waitGroups(db: Executor, names: Names, rows = OPEN_ROWS): Promise<WaitGroup[]> {
  return db.run(groupWaits, names, [rows]);
}
