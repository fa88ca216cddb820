/**
 * Ticks: what is due, and the statement that makes jobs of it. `writeTicks` advances a schedule and writes its jobs in one
 * statement, only from the instant that was read, and only while it says what it said then; a schedule that another
 * worker has locked is passed over. Each job stands under the idempotency key `schedule:NAME:INSTANT`, so an instant
 * becomes one job also when a schedule is set back by hand or made anew.
 */
import { bucketOf } from '../job/key.js';
import { uuidv7 } from '../job/uuid.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import {
  int4,
  int8,
  plainArray,
  type Row,
  statement,
  text,
  textArray,
} from '../postgres/statement.js';
import { type CatchUp, FRESH_MS, ticksOf } from './due.js';

/** What the timing of a schedule depends on. */
const PLAN = `concat_ws('|', s.cron, s.every, s.timezone, s.jitter, s.catch_up)`;
const ms = (expression: string) => `floor(extract(epoch FROM ${expression}) * 1000)::bigint`;

/** Somebody worked on a backlog of this queue a moment ago. */
const AT_WORK = `(r.serviced_at ->> 'ticks')::timestamptz > statement_timestamp() - interval '${FRESH_MS} milliseconds'`;

export const readDueSchedules = statement({
  name: 'due_schedules',
  text: `
SELECT q.queue, ${ms('statement_timestamp()')} AS now, b.since, n.later, d.name, d.cron, d.every, d.timezone, d.jitter,
  d.catch_up, d.next_instant, d.plan
FROM unnest($1::text::text[]) AS q(queue)
LEFT JOIN LATERAL (
  SELECT ${ms(`(r.serviced_at ->> 'ticks_behind')::timestamptz`)} AS since
  FROM holdfast.queues AS r
  WHERE r.name = q.queue AND ${AT_WORK}
) AS b ON true
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
    ...{ queue: text, now: int8, since: int8.orNull, later: int8.orNull, name: text.orNull },
    ...{ cron: text.orNull, every: int8.orNull, timezone: text.orNull, jitter: int8.orNull },
    ...{ catch_up: text.orNull, next_instant: int8.orNull, plan: text.orNull },
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
  /** Of these queues more is due than was read, or than can be written in one step. */
  readonly behind: readonly string[];
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
  const behind = new Set<string>();
  for (const row of rows) {
    if (row.name === null) continue;
    const count = 1 + (read.get(row.queue) ?? 0);
    read.set(row.queue, count);
    const ticks = found.get(row.queue) ?? [];
    try {
      const tick = tickOf(row);
      found.set(row.queue, ticks);
      ticks.push(tick);
      if (count >= limit || (tick.nextAt !== null && tick.nextAt <= row.now)) behind.add(row.queue);
    } catch (error) {
      // It must not keep the others from their ticks.
      unreadable.push({ name: row.name, error });
    }
  }
  const laters = rows.map(({ later }) => later).filter((later) => later !== null);
  return {
    queues: found,
    behind: [...behind],
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
    row.since,
  );
  return { name, plan: row.plan as string, expected, ...ticks };
}

export const recordBacklog = statement({
  name: 'record_tick_backlog',
  text: `
UPDATE holdfast.queues AS q
SET serviced_at = q.serviced_at || jsonb_build_object('ticks', statement_timestamp(), 'ticks_behind',
  CASE WHEN r.at_work THEN q.serviced_at -> 'ticks_behind' ELSE to_jsonb(statement_timestamp()) END)
-- Somebody may change the queue in a long transaction; ticks do not wait for him.
FROM (SELECT r.name, ${AT_WORK} AS at_work FROM holdfast.queues AS r WHERE r.name = 'inbox'
  FOR NO KEY UPDATE SKIP LOCKED) AS r
WHERE q.name = r.name`,
  columns: {},
});

/** Until it is done, or nobody has said so for ten seconds, nothing that was fresh when the work began counts as missed. */
export async function keepBacklog(db: Executor, names: Names): Promise<void> {
  await db.run(recordBacklog, names, []);
}

export const writeDueTicks = statement({
  name: 'write_ticks',
  text: `
WITH held AS MATERIALIZED (
  SELECT s.*, w.next, w.at, w.missed AS now_missed, w.ids::uuid[] AS wanted, w.instants::text[] AS wanted_instants,
    w.buckets::integer[] AS wanted_buckets,
    s.overlap = 'skip' AND EXISTS (
      SELECT FROM holdfast.inbox AS i WHERE i.id = s.last_job AND i.status <> 'dead_letter') AS busy,
    -- A queue that has been changed since may have no groups any more.
    CASE WHEN (SELECT q.ordering = 'turns' FROM holdfast.queues AS q WHERE q.name = 'inbox')
      THEN s.group_key END AS in_group
  FROM unnest($1::text::text[], $2::text::text[], $3::text::timestamptz[], $4::text::timestamptz[],
    $5::text::timestamptz[], $6::text::integer[], $7::text::text[], $8::text::text[], $9::text::text[])
    AS w(name, plan, expected, next, at, missed, ids, instants, buckets)
  -- By name alone: a plan that is made while the table is empty would read all schedules of the queue for each. So a row
  -- is locked first, and then asked whether it still says what was read. The names come in their order.
  CROSS JOIN LATERAL (
    SELECT l.* FROM holdfast.schedules AS l WHERE l.name = w.name FOR UPDATE SKIP LOCKED
  ) AS s
  WHERE ${PLAN} = w.plan AND date_trunc('milliseconds', s.next_instant) = w.expected
), due AS MATERIALIZED (
  SELECT h.*, t.ids, t.instants, t.buckets, coalesce(cardinality(t.ids), 0) AS written,
    CASE WHEN h.overlap = 'skip' THEN cardinality(h.wanted) - coalesce(cardinality(t.ids), 0) ELSE 0 END AS now_skipped
  FROM held AS h
  CROSS JOIN LATERAL (
    SELECT array_agg(w.id ORDER BY w.number) AS ids, array_agg(w.instant ORDER BY w.number) AS instants,
      array_agg(w.bucket ORDER BY w.number) AS buckets
    FROM unnest(h.wanted, h.wanted_instants, h.wanted_buckets) WITH ORDINALITY AS w(id, instant, bucket, number)
    -- Of one that skips overlaps a second tick would overlap the first.
    WHERE (h.overlap <> 'skip' OR (w.number = 1 AND NOT h.busy))
      AND NOT EXISTS (SELECT FROM holdfast.inbox_idempotency AS k
        WHERE k.key = concat('schedule:', h.name, ':', w.instant))
  ) AS t
  WHERE h.queue = 'inbox' AND NOT h.paused
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
    coalesce(holdfast.bucket_of(coalesce(d.in_group, d.partition_key)), t.bucket), d.payload,
    jsonb_build_object('holdfast_schedule', d.name, 'holdfast_scheduled_at', t.instant),
    d.priority, d.max_attempts, concat('schedule:', d.name, ':', t.instant), false
  FROM due AS d
  CROSS JOIN LATERAL unnest(d.ids, d.instants, d.buckets) WITH ORDINALITY AS t(id, instant, bucket, number)
  ORDER BY d.next_at, t.number
), moved AS (
  UPDATE holdfast.schedules AS s
  SET next_instant = d.next, next_at = d.at,
      last_instant = coalesce(d.instants[d.written]::timestamptz, s.last_instant),
      last_at = CASE WHEN d.written > 0 THEN statement_timestamp() ELSE s.last_at END,
      last_job = coalesce(d.ids[d.written], s.last_job),
      ticks = s.ticks + d.written,
      skipped = s.skipped + d.now_skipped,
      missed = s.missed + d.now_missed
  FROM due AS d
  WHERE s.name = d.name
)
SELECT d.name, d.type, d.written, d.now_missed AS missed, d.now_skipped AS skipped,
  ${ms('statement_timestamp()')} - ${ms('d.next_at')} AS lag_ms
FROM due AS d`,
  columns: { name: text, type: text, written: int4, missed: int4, skipped: int4, lag_ms: int8 },
});

export type WrittenTicks = Row<typeof writeDueTicks.columns>;

const iso = (at: number | null) => (at === null ? null : new Date(at).toISOString());

/** Returns the schedules that were advanced here; another worker has advanced the others. */
export function writeTicks(db: Executor, names: Names, due: readonly Tick[]) {
  const ticks = due.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const ids = ticks.map(({ instants }) => instants.map(() => uuidv7()));
  return db.run(writeDueTicks, names, [
    textArray(ticks.map(({ name }) => name)),
    textArray(ticks.map(({ plan }) => plan)),
    textArray(ticks.map(({ expected }) => iso(expected))),
    textArray(ticks.map(({ next }) => iso(next))),
    textArray(ticks.map(({ nextAt }) => iso(nextAt))),
    plainArray(ticks.map(({ missed }) => missed)),
    textArray(ids.map(plainArray)),
    textArray(ticks.map(({ instants }) => plainArray(instants.map((at) => iso(at) as string)))),
    // Of those that are streams of their own; the database knows the others.
    textArray(ids.map((made) => plainArray(made.map(bucketOf)))),
  ]);
}
