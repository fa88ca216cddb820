/**
 * What a human does to a schedule: pause, resume, run now, delete. Each returns the queue of the schedule and whether
 * it changed anything, for the audit, and works in a caller's transaction.
 *
 * A pause is no outage: a schedule that is resumed goes on with its next instant from now, and catches nothing up.
 */
import { HoldfastError } from '../job/errors/errors.js';
import { uuidv7 } from '../job/uuid.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, text, uuid } from '../postgres/statement.js';
import { delayOf, nextInstant } from './instants.js';

export const pauseSchedule = statement({
  name: 'pause_schedule',
  text: `
UPDATE holdfast.schedules AS s SET paused = true
FROM (SELECT b.name, b.paused FROM holdfast.schedules AS b WHERE b.name = $1::text FOR NO KEY UPDATE) AS before
WHERE s.name = before.name
RETURNING s.queue, before.paused::text AS was`,
  columns: { queue: text, was: text },
});

/** What an act did to a schedule. */
export interface Turned {
  readonly queue: string;
  /** False: it was so before. */
  readonly changed: boolean;
}

export async function pause(db: Executor, names: Names, name: string): Promise<Turned> {
  const [row] = await db.run(pauseSchedule, names, [name]);
  if (!row) throw unknownSchedule(name);
  return { queue: row.queue, changed: row.was === 'false' };
}

export const readTiming = statement({
  name: 'schedule_timing',
  text: `
SELECT s.cron, (extract(epoch FROM s.every) * 1000)::bigint::text AS every_ms, s.timezone,
  (extract(epoch FROM s.jitter) * 1000)::bigint::text AS jitter_ms,
  floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text AS now
FROM holdfast.schedules AS s
WHERE s.name = $1::text`,
  columns: {
    ...{ cron: text.orNull, every_ms: text.orNull, timezone: text },
    ...{ jitter_ms: text, now: text },
  },
});

async function timingOf(db: Executor, names: Names, name: string) {
  const [row] = await db.run(readTiming, names, [name]);
  if (!row) throw unknownSchedule(name);
  return row;
}

export const resumeSchedule = statement({
  name: 'resume_schedule',
  text: `
UPDATE holdfast.schedules AS s
SET paused = false,
    next_instant = CASE WHEN before.paused THEN $2::text::timestamptz ELSE s.next_instant END,
    next_at = CASE WHEN before.paused THEN $3::text::timestamptz ELSE s.next_at END
FROM (SELECT b.name, b.paused FROM holdfast.schedules AS b WHERE b.name = $1::text FOR NO KEY UPDATE) AS before
WHERE s.name = before.name
RETURNING s.queue, before.paused::text AS was`,
  columns: { queue: text, was: text },
});

export async function resume(db: Executor, names: Names, name: string): Promise<Turned> {
  const { cron, everyMs, timezone, jitterMs, now } = await timingOf(db, names, name);
  const timing = { cron, everyMs: everyMs === null ? null : Number(everyMs), timezone };
  const next = nextInstant(timing, Number(now));
  const times = next === null ? [null, null] : [next, next + delayOf(name, Number(jitterMs))];
  const params = [name, ...times.map((at) => (at === null ? null : new Date(at).toISOString()))];
  const [row] = await db.run(resumeSchedule, names, params);
  if (!row) throw unknownSchedule(name);
  return { queue: row.queue, changed: row.was === 'true' };
}

export const deleteSchedule = statement({
  name: 'delete_schedule',
  text: `DELETE FROM holdfast.schedules AS s WHERE s.name = $1::text RETURNING s.queue`,
  columns: { queue: text },
});

/** Its jobs stay. */
export async function remove(db: Executor, names: Names, name: string): Promise<Turned> {
  const [row] = await db.run(deleteSchedule, names, [name]);
  if (!row) throw unknownSchedule(name);
  return { queue: row.queue, changed: true };
}

/** Before anything is looked at: what another one wrote for the schedule is then seen by the next statement. */
export const lockSchedule = statement({
  name: 'lock_schedule',
  text: `SELECT s.queue FROM holdfast.schedules AS s WHERE s.name = $1::text FOR NO KEY UPDATE`,
  columns: { queue: text },
});

export const runSchedule = statement({
  name: 'run_schedule',
  text: `
WITH held AS MATERIALIZED (
  SELECT s.*, to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS instant,
    s.overlap = 'skip' AND EXISTS (
      SELECT FROM holdfast.inbox AS i WHERE i.id = s.last_job AND i.status <> 'dead_letter') AS busy,
    (SELECT s.group_key FROM holdfast.queues AS q WHERE q.name = 'inbox' AND q.ordering = 'turns') AS in_group
  FROM holdfast.schedules AS s
  WHERE s.name = $1::text AND s.queue = 'inbox'
), written AS (
  INSERT INTO holdfast.inbox (id, type, version, partition_key, group_key, limit_key, partition_bucket, payload,
    headers, priority, max_attempts, parked)
  SELECT $2::text::uuid, h.type, h.version, coalesce(h.partition_key, $2::text), h.in_group, h.limit_key,
    holdfast.bucket_of(coalesce(h.in_group, h.partition_key, $2::text)), h.payload,
    jsonb_build_object('holdfast_schedule', h.name, 'holdfast_scheduled_at', h.instant),
    h.priority, h.max_attempts, false
  FROM held AS h
  WHERE NOT h.busy
), moved AS (
  UPDATE holdfast.schedules AS s
  SET last_job = $2::text::uuid
  FROM held AS h
  WHERE s.name = h.name AND NOT h.busy
)
SELECT CASE WHEN h.busy THEN h.last_job ELSE $2::text::uuid END AS id, h.busy::text AS skipped
FROM held AS h`,
  columns: { id: uuid, skipped: text },
});

/** The job that `schedules.runNow()` wrote. */
export interface RanNow {
  /** The job, or the one that is not over yet. */
  readonly id: string;
  /** The schedule skips overlaps, and its last job is not over: nothing was written. */
  readonly skipped: boolean;
}

/** Writes a job of the schedule at once, paused or not; when it fires next stays as it is. */
export async function runNow(
  db: Executor,
  { schema }: Names,
  name: string,
): Promise<RanNow & Turned> {
  const [locked] = await db.run(lockSchedule, { schema, queue: 'inbox' }, [name]);
  if (!locked) throw unknownSchedule(name);
  const { queue } = locked;
  const [row] = await db.run(runSchedule, { schema, queue }, [name, uuidv7()]);
  if (!row) throw unknownSchedule(name);
  const skipped = row.skipped === 'true';
  return { id: row.id, skipped, queue, changed: !skipped };
}

export function unknownSchedule(name: string): HoldfastError {
  return new HoldfastError(
    'SCHEDULE_UNKNOWN',
    `There is no schedule "${name}"; nothing was done. hf.schedules.list() has their names.`,
  );
}
