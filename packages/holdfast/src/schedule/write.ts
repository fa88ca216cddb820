/**
 * Making and changing schedules: one, or all that a part of a program declares. One that fires as it fired before keeps
 * its next instant, so a deploy that declares it again loses no tick; a pause stays as well. A schedule belongs to who
 * made it: a name that stands for somebody else's is refused, and nothing is written.
 */
import { HoldfastError } from '../job/errors/errors.js';
import { hash32 } from '../job/key.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, text, textArray } from '../postgres/statement.js';
import { delayOf, nextInstant, upcoming } from './instants.js';
import type { NewSchedule } from './options.js';

export const readScheduleFacts = statement({
  name: 'schedule_facts',
  text: `
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text AS now, q.name AS queue,
  q.ordering::text AS ordering
-- Two processes that declare for one name go one after the other.
FROM (SELECT CASE WHEN $2::boolean THEN pg_advisory_xact_lock($3::integer, $4::integer)::text END) AS l(held)
LEFT JOIN holdfast.queues AS q ON q.name = ANY ($1::text::text[])`,
  columns: { now: text, queue: text.orNull, ordering: text.orNull },
});

export const writeSchedules = statement({
  name: 'write_schedules',
  text: `
WITH input AS MATERIALIZED (
  SELECT i.*
  FROM jsonb_to_recordset($1::text::jsonb) AS i(name text, queue text, type text, version integer, payload jsonb,
    partition_key text, group_key text, limit_key text, priority smallint, max_attempts integer, cron text, every bigint, timezone text,
    catch_up text, overlap text, jitter bigint, next_instant timestamptz, next_at timestamptz)
), taken AS MATERIALIZED (
  SELECT s.name
  FROM input AS i
  JOIN holdfast.schedules AS s ON s.name = i.name
  WHERE s.declared_by IS DISTINCT FROM $2::text
), queueless AS MATERIALIZED (
  -- Whoever drops a queue has the schedules locked: this statement comes before the drop, or sees it.
  SELECT i.name FROM input AS i WHERE NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = i.queue)
), removed AS (
  DELETE FROM holdfast.schedules AS s
  WHERE s.declared_by = $2::text AND NOT EXISTS (SELECT FROM input AS i WHERE i.name = s.name)
    AND NOT EXISTS (SELECT FROM taken) AND NOT EXISTS (SELECT FROM queueless)
  RETURNING s.name
), written AS (
  INSERT INTO holdfast.schedules AS s (name, queue, type, version, payload, partition_key, group_key, limit_key,
    priority, max_attempts, cron, every, timezone, catch_up, overlap, jitter, declared_by, next_instant, next_at)
  SELECT i.name, i.queue, i.type, i.version, i.payload, i.partition_key, i.group_key, i.limit_key, i.priority,
    i.max_attempts, i.cron,
    i.every * interval '1 millisecond', i.timezone, i.catch_up, i.overlap, i.jitter * interval '1 millisecond',
    $2::text, i.next_instant, i.next_at
  FROM input AS i
  WHERE NOT EXISTS (SELECT FROM taken) AND NOT EXISTS (SELECT FROM queueless)
  ORDER BY i.name
  ON CONFLICT (name) DO UPDATE
  SET (queue, type, version, payload, partition_key, group_key, limit_key, priority, max_attempts, cron, every,
      timezone, catch_up, overlap, jitter, next_instant, next_at, updated_at) = (
    SELECT excluded.queue, excluded.type, excluded.version, excluded.payload, excluded.partition_key,
      excluded.group_key, excluded.limit_key, excluded.priority, excluded.max_attempts, excluded.cron, excluded.every, excluded.timezone,
      excluded.catch_up, excluded.overlap, excluded.jitter,
      CASE WHEN same THEN s.next_instant ELSE excluded.next_instant END,
      CASE WHEN same THEN s.next_at ELSE excluded.next_at END,
      now()
    FROM (SELECT (s.cron, s.every, s.timezone, s.jitter)
      IS NOT DISTINCT FROM (excluded.cron, excluded.every, excluded.timezone, excluded.jitter)) AS t(same))
  WHERE s.declared_by IS NOT DISTINCT FROM $2::text
  RETURNING s.name, (s.xmax = 0)::text AS made
)
SELECT w.name, CASE w.made WHEN 'true' THEN 'made' ELSE 'kept' END AS outcome FROM written AS w
UNION ALL
SELECT r.name, 'removed' FROM removed AS r
UNION ALL
SELECT t.name, 'taken' FROM taken AS t
UNION ALL
SELECT q.name, 'queueless' FROM queueless AS q
ORDER BY 1`,
  columns: { name: text, outcome: text },
});

/** What a declaration changed, by name. */
export interface WrittenSchedules {
  /** They are new. */
  readonly made: readonly string[];
  /** They existed already and say now what was declared. */
  readonly kept: readonly string[];
  /** The declarer had made them, and declares them no more. */
  readonly removed: readonly string[];
}

/** Needs a transaction. `declarer` null: one that is made at run time, and nothing is removed. */
export async function putSchedules(
  db: Executor,
  names: Names,
  declarer: string | null,
  schedules: readonly NewSchedule[],
): Promise<WrittenSchedules> {
  const lock = [hash32('holdfast.schedules') | 0, hash32(`${names.schema} ${declarer}`) | 0];
  const queues = textArray([...new Set(schedules.map(({ queue }) => queue))]);
  const facts = await db.run(readScheduleFacts, names, [queues, declarer !== null, ...lock]);
  const orders = new Map(facts.map(({ queue, ordering }) => [queue, ordering]));
  const now = Number(facts[0]?.now);
  const texts = schedules.map((one) => {
    checkQueue(one, orders.get(one.queue) ?? null, names.schema);
    return jsonOf(one, now);
  });
  const rows = await db.run(writeSchedules, names, [`[${texts.join(',')}]`, declarer]);
  const having = (wanted: string) =>
    rows.filter(({ outcome }) => outcome === wanted).map(({ name }) => name);
  const queueless = having('queueless');
  for (const one of schedules)
    if (queueless.includes(one.name)) checkQueue(one, null, names.schema);
  const put = { made: having('made'), kept: having('kept'), removed: having('removed') };
  const there = new Set([...put.made, ...put.kept]);
  const missing = schedules.filter(({ name }) => !there.has(name)).map(({ name }) => name);
  const others = having('taken');
  // Without others it was taken while this statement ran.
  if (missing.length > 0) throw taken(others.length > 0 ? others : missing, declarer);
  return put;
}

function checkQueue(schedule: NewSchedule, ordering: string | null, schema: string): void {
  const { name, queue, overlap, group } = schedule;
  if (ordering === null) {
    throw new HoldfastError(
      'QUEUE_UNKNOWN',
      `There is no queue "${queue}" in schema "${schema}", so schedule "${name}" was not made. ` +
        'Check the name, or make it with createQueue().',
    );
  }
  if (group !== null && ordering !== 'turns') {
    throw new HoldfastError(
      'OPTION_INVALID',
      `Schedule "${name}": queue "${queue}" has no groups. No schedule was made. ` +
        'Leave group out, or make a queue with perGroup, perKey or fair for its job.',
    );
  }
  if (overlap !== 'queue' || (ordering !== 'none' && ordering !== 'turns')) return;
  throw new HoldfastError(
    'OPTION_INVALID',
    `Schedule "${name}": overlap 'queue' lets one job run after the other, and queue "${queue}" keeps no order. ` +
      `No schedule was made. Make a queue with createQueue('reports', { ordering: 'key' }) for its job.`,
  );
}

function jsonOf(schedule: NewSchedule, now: number): string {
  const { payload, partitionKey, maxAttempts, everyMs, jitterMs, catchUp, ...others } = schedule;
  const { group, limitKey, ...rest } = others;
  const next = nextInstant(schedule, now);
  if (next === null) {
    throw new HoldfastError(
      'OPTION_INVALID',
      `Schedule "${rest.name}": cron "${rest.cron}" never fires again. No schedule was made. ` +
        'Look at its day, month and year.',
    );
  }
  checkJitter(schedule, next);
  const nextAt = next + delayOf(rest.name, jitterMs);
  const row = {
    ...{ ...rest, partition_key: partitionKey, max_attempts: maxAttempts, every: everyMs },
    ...{ jitter: jitterMs, catch_up: catchUp, group_key: group, limit_key: limitKey },
    ...{ next_instant: new Date(next).toISOString(), next_at: new Date(nextAt).toISOString() },
  };
  // The payload is JSON already, and keeps numbers that no double holds.
  return `${JSON.stringify(row).slice(0, -1)},"payload":${payload}}`;
}

/** So many instants are looked at. */
const LOOKED_AT = 10;

/** The jitter of an interval was checked before. */
function checkJitter({ name, cron, jitterMs, ...timing }: NewSchedule, first: number): void {
  if (cron === null || jitterMs === 0) return;
  const instants = [first, ...upcoming({ cron, ...timing }, first, LOOKED_AT)];
  const gaps = instants.slice(1).map((at, n) => at - (instants[n] as number));
  const least = Math.min(...gaps);
  if (jitterMs <= least) return;
  throw new HoldfastError(
    'OPTION_INVALID',
    `Schedule "${name}": jitter is ${jitterMs} ms, and cron "${cron}" fires every ${least} ms: a tick would come ` +
      'after the next one. No schedule was made. Give at most that.',
  );
}

function taken(names: readonly string[], declarer: string | null): HoldfastError {
  const list = names.slice(0, 3).map((name) => `"${name}"`);
  const whose = declarer === null ? 'are declared in code' : `were not made by "${declarer}"`;
  return new HoldfastError(
    'SCHEDULE_TAKEN',
    `These names stand for schedules that ${whose}: ${list.join(', ')}. Nothing was changed. ` +
      'Choose another name, or delete the schedule that has it.',
  );
}
