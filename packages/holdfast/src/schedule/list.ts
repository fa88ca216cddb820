/** Schedules as they stand, by name. Read-only. */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import {
  bool,
  int2,
  int4,
  int8,
  json,
  type Row,
  statement,
  text,
  uuid,
} from '../postgres/statement.js';

const ms = (expression: string) => `floor(extract(epoch FROM ${expression}) * 1000)::bigint`;

export const listSchedules = statement({
  name: 'list_schedules',
  text: `
SELECT s.name, s.queue, s.type, s.version, s.payload, s.partition_key, s.group_key, s.limit_key, s.priority,
  s.max_attempts, s.cron,
  ${ms('s.every')} AS every_ms, s.timezone, s.catch_up, s.overlap, ${ms('s.jitter')} AS jitter_ms, s.paused,
  s.declared_by, ${ms('s.next_instant')} AS next_instant, ${ms('s.next_at')} AS next_at,
  ${ms('s.last_instant')} AS last_instant, ${ms('s.last_at')} AS last_at, s.last_job, s.ticks, s.skipped, s.missed,
  ${ms('s.created_at')} AS created_at, ${ms('s.updated_at')} AS updated_at,
  ${ms('statement_timestamp()')} AS now
FROM holdfast.schedules AS s
WHERE s.name >= $1::text AND ($2::boolean OR s.name <> $1::text) AND ($3::text IS NULL OR s.name = $3::text)
  AND ($4::text IS NULL OR s.queue = $4::text) AND ($5::text IS NULL OR s.declared_by = $5::text)
  AND ($6::boolean IS NULL OR s.paused = $6::boolean) AND starts_with(s.name, $7::text)
ORDER BY s.name
LIMIT $8::integer`,
  columns: {
    ...{ name: text, queue: text, type: text, version: int4, payload: json },
    ...{ partition_key: text.orNull, group_key: text.orNull, limit_key: text.orNull },
    ...{ priority: int2, max_attempts: int4, cron: text.orNull },
    ...{ every_ms: int8.orNull, timezone: text, catch_up: text, overlap: text, jitter_ms: int8 },
    ...{ paused: bool, declared_by: text.orNull, next_instant: int8.orNull, next_at: int8.orNull },
    ...{ last_instant: int8.orNull, last_at: int8.orNull, last_job: uuid.orNull, ticks: int8 },
    ...{ skipped: int8, missed: int8, created_at: int8, updated_at: int8, now: int8 },
  },
});

export type ScheduleRow = Row<typeof listSchedules.columns>;

export interface ScheduleFilter {
  readonly queue?: string | undefined;
  readonly declaredBy?: string | undefined;
  readonly paused?: boolean | undefined;
  /** How their names begin. */
  readonly prefix?: string | undefined;
}

export interface SchedulePage {
  /** Names after this one; null: from the first. */
  readonly after: string | null;
  readonly limit: number;
}

export function readSchedules(
  db: Executor,
  names: Names,
  filter: ScheduleFilter,
  { after, limit }: SchedulePage,
): Promise<ScheduleRow[]> {
  const { queue = null, declaredBy = null, paused = null, prefix = '' } = filter;
  const from = [after ?? '', after === null, null];
  return db.run(listSchedules, names, [...from, queue, declaredBy, paused, prefix, limit]);
}

export async function findSchedule(db: Executor, names: Names, name: string) {
  const [row] = await db.run(listSchedules, names, [name, true, name, null, null, null, '', 1]);
  return row ?? null;
}
