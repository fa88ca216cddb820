/**
 * Ticks: what is due, and the statement that makes jobs of it.
 *
 * `writeTicks` advances a schedule and writes its jobs in one statement, so both happen or neither. It moves a
 * schedule only from the instant that was read, and only while it says what it said then; a schedule that another
 * worker has locked is passed over. Each job stands under the idempotency key `schedule:NAME:INSTANT`, so an
 * instant becomes one job also when a schedule is set back by hand or made anew. Joins go from the ticks to the
 * tables by their keys, because a worker's sessions know nested loops only.
 */
import { uuidv7 } from '../job/uuid.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, int8, type Row, statement, text, textArray } from '../postgres/statement.js';
import { type CatchUp, ticksOf } from './due.js';

/** What the timing of a schedule depends on. */
const PLAN = `concat_ws('|', s.cron, s.every, s.timezone, s.jitter, s.catch_up)`;
const ms = (expression: string) => `floor(extract(epoch FROM ${expression}) * 1000)::bigint`;

export const readDueSchedules = statement({
  name: 'due_schedules',
  text: `
SELECT q.queue, ${ms('statement_timestamp()')} AS now, n.later, d.name, d.cron, d.every, d.timezone, d.jitter,
  d.catch_up, d.next_instant, d.plan
FROM unnest($1::text::text[]) AS q(queue)
LEFT JOIN LATERAL (
  SELECT ${ms('s.next_at')} AS later
  FROM holdfast.schedules AS s
  WHERE s.queue = q.queue AND NOT s.paused AND s.next_at > statement_timestamp()
  ORDER BY s.next_at
  LIMIT 1
) AS n ON true
LEFT JOIN LATERAL (
  SELECT s.name, s.cron, ${ms('s.every')} AS every, s.timezone, ${ms('s.jitter')} AS jitter, s.catch_up,
    ${ms('s.next_instant')} AS next_instant, ${PLAN} AS plan
  FROM holdfast.schedules AS s
  WHERE s.queue = q.queue AND NOT s.paused AND s.next_at <= statement_timestamp()
  ORDER BY s.next_at
  LIMIT $2::integer
) AS d ON true`,
  columns: {
    ...{ queue: text, now: int8, later: int8.orNull, name: text.orNull, cron: text.orNull },
    ...{ every: int8.orNull, timezone: text.orNull, jitter: int8.orNull, catch_up: text.orNull },
    ...{ next_instant: int8.orNull, plan: text.orNull },
  },
});

type DueRow = Row<typeof readDueSchedules.columns>;

/** A schedule that is due, with the ticks that are to be written. */
export interface Tick {
  readonly name: string;
  readonly plan: string;
  readonly expected: number;
  readonly instants: readonly number[];
  readonly missed: number;
  readonly next: number | null;
  readonly nextAt: number | null;
}

export interface DueTicks {
  /** By queue; a queue without due schedules is not there. */
  readonly queues: ReadonlyMap<string, readonly Tick[]>;
  /** Schedules that cannot be read here, such as one in a zone that this worker's Node does not know. */
  readonly unreadable: readonly { readonly name: string; readonly error: unknown }[];
  /** A queue may have more than the limit. */
  readonly full: boolean;
  /** The database's time, in milliseconds, and when a schedule is due next; null: never. */
  readonly now: number;
  readonly later: number | null;
}

/** What is due in these queues, the longest due first, at most `limit` a queue. */
export async function readDue(
  db: Executor,
  names: Names,
  queues: readonly string[],
  limit: number,
): Promise<DueTicks> {
  const rows = await db.run(readDueSchedules, names, [textArray(queues), limit]);
  const found = new Map<string, Tick[]>();
  const unreadable: { name: string; error: unknown }[] = [];
  const read = new Map<string, number>();
  for (const row of rows) {
    if (row.name === null) continue;
    read.set(row.queue, 1 + (read.get(row.queue) ?? 0));
    try {
      found.set(row.queue, [...(found.get(row.queue) ?? []), tickOf(row)]);
    } catch (error) {
      // It must not keep the others from their ticks.
      unreadable.push({ name: row.name, error });
    }
  }
  const laters = rows.map(({ later }) => later).filter((later) => later !== null);
  return {
    queues: found,
    unreadable,
    // With those that cannot be read; but where nothing else was found, another look would find the same.
    full: [...found.keys()].some((queue) => (read.get(queue) ?? 0) >= limit),
    now: rows[0]?.now ?? 0,
    later: laters.length === 0 ? null : Math.min(...laters),
  };
}

function tickOf(row: DueRow): Tick {
  const name = row.name as string;
  const expected = row.nextInstant as number;
  const ticks = ticksOf(
    {
      ...{ name, cron: row.cron, everyMs: row.every, timezone: row.timezone as string },
      ...{ jitterMs: row.jitter ?? 0, catchUp: row.catchUp as CatchUp, nextInstant: expected },
    },
    row.now,
  );
  return { name, plan: row.plan as string, expected, ...ticks };
}

export const writeDueTicks = statement({
  name: 'write_ticks',
  text: `
WITH wanted AS MATERIALIZED (
  SELECT w.*
  FROM jsonb_to_recordset($1::text::jsonb) AS w(name text, plan text, expected timestamptz,
    next timestamptz, at timestamptz, missed integer, ticks jsonb)
), held AS MATERIALIZED (
  SELECT s.*, w.next, w.at, w.missed AS now_missed, w.ticks AS wanted,
    s.overlap = 'skip' AND EXISTS (
      SELECT FROM holdfast.inbox AS i WHERE i.id = s.last_job AND i.status <> 'dead_letter') AS busy,
    -- A queue that has been changed since may have no groups any more.
    (SELECT s.group_key FROM holdfast.queues AS q WHERE q.name = 'inbox' AND q.ordering = 'turns') AS in_group
  FROM wanted AS w
  JOIN holdfast.schedules AS s ON s.name = w.name
  WHERE s.queue = 'inbox' AND NOT s.paused AND ${PLAN} = w.plan
    AND date_trunc('milliseconds', s.next_instant) = w.expected
  ORDER BY s.name
  FOR UPDATE OF s SKIP LOCKED
), due AS MATERIALIZED (
  SELECT h.*, t.ids, t.instants, coalesce(cardinality(t.ids), 0) AS written
  FROM held AS h
  CROSS JOIN LATERAL (
    SELECT array_agg(w.id ORDER BY w.number) AS ids, array_agg(w.instant ORDER BY w.number) AS instants
    FROM jsonb_to_recordset(h.wanted) AS w(id uuid, instant text, number integer)
    -- Of one that skips overlaps a second tick would overlap the first.
    WHERE (h.overlap <> 'skip' OR (w.number = 1 AND NOT h.busy))
      AND NOT EXISTS (SELECT FROM holdfast.inbox_idempotency AS k
        WHERE k.key = concat('schedule:', h.name, ':', w.instant))
  ) AS t
), keys AS (
  INSERT INTO holdfast.inbox_idempotency (key, job_id, fingerprint, expires_at)
  SELECT concat('schedule:', d.name, ':', t.instant), t.id,
    sha256(convert_to(d.type || E'\\n' || d.payload::text, 'UTF8')),
    now() + (SELECT q.idempotency_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')
  FROM due AS d
  CROSS JOIN LATERAL unnest(d.ids, d.instants) AS t(id, instant)
  ORDER BY 1
), jobs AS (
  INSERT INTO holdfast.inbox (id, type, version, partition_key, group_key, limit_key, partition_bucket, payload,
    headers, priority, max_attempts, idempotency_key, parked)
  SELECT t.id, d.type, d.version, coalesce(d.partition_key, t.id::text), d.in_group, d.limit_key,
    holdfast.bucket_of(coalesce(d.in_group, d.partition_key, t.id::text)), d.payload,
    jsonb_build_object('holdfast_schedule', d.name, 'holdfast_scheduled_at', t.instant),
    d.priority, d.max_attempts, concat('schedule:', d.name, ':', t.instant), false
  FROM due AS d
  CROSS JOIN LATERAL unnest(d.ids, d.instants) WITH ORDINALITY AS t(id, instant, number)
  ORDER BY d.next_at, t.number
), moved AS (
  UPDATE holdfast.schedules AS s
  SET next_instant = d.next, next_at = d.at,
      last_instant = coalesce(d.instants[d.written]::timestamptz, s.last_instant),
      last_at = CASE WHEN d.written > 0 THEN statement_timestamp() ELSE s.last_at END,
      last_job = coalesce(d.ids[d.written], s.last_job),
      ticks = s.ticks + d.written,
      skipped = s.skipped + CASE WHEN s.overlap = 'skip' THEN jsonb_array_length(d.wanted) - d.written ELSE 0 END,
      missed = s.missed + d.now_missed
  FROM due AS d
  WHERE s.name = d.name
)
SELECT d.name, d.type, d.written, d.now_missed AS missed,
  CASE WHEN d.overlap = 'skip' THEN jsonb_array_length(d.wanted) - d.written ELSE 0 END AS skipped,
  ${ms('statement_timestamp()')} - ${ms('d.next_at')} AS lag_ms
FROM due AS d`,
  columns: { name: text, type: text, written: int4, missed: int4, skipped: int4, lag_ms: int8 },
});

export type WrittenTicks = Row<typeof writeDueTicks.columns>;

const iso = (at: number | null) => (at === null ? null : new Date(at).toISOString());

/** Returns the schedules that were advanced here; another worker has advanced the others. */
export function writeTicks(
  db: Executor,
  names: Names,
  ticks: readonly Tick[],
): Promise<WrittenTicks[]> {
  const wanted = ticks.map(({ name, plan, expected, instants, missed, next, nextAt }) => ({
    ...{ name, plan, expected: iso(expected), next: iso(next), at: iso(nextAt), missed },
    ticks: instants.map((at, n) => ({ id: uuidv7(), instant: iso(at), number: n + 1 })),
  }));
  return db.run(writeDueTicks, names, [JSON.stringify(wanted)]);
}
