/**
 * The rows of the queues as tests see them: jobs that wait or run, effect markers, and time, which is moved by
 * moving the rows. These statements are the kit's own: no worker runs them. Figures and JSON come as text, because
 * drivers differ in what they make of them.
 */
import type { Queryable, QueueName } from 'holdfast';
import {
  bool,
  type Column,
  type Columns,
  executor,
  int4,
  int8,
  loadText,
  type Names,
  type Row,
  type Statement,
  text,
} from 'holdfast/internal';

/** A job that waits or runs. */
export interface EnqueuedJob {
  readonly id: string;
  readonly type: string;
  readonly queue: QueueName;
  readonly partitionKey: string;
  readonly payload: unknown;
  readonly headers: Readonly<Record<string, string>>;
  readonly priority: number;
  /** Attempts that are spent. */
  readonly attempts: number;
  /** How long until it is due; 0 when it is due, or runs. */
  readonly delayMs: number;
  readonly running: boolean;
}

/** A statement that returns nothing. */
export const execute = (db: Queryable, names: Names, sql: string, params: readonly string[] = []) =>
  db.query(loadText(sql, names), [...params]);

/** Not registered, as those of the product are. */
const statement = <const C extends Columns>(columns: C, sql: string): Statement<C> => ({
  ...{ name: 'test_kit', text: sql, columns },
});

const json = <Value>(): Column<Value> => ({ pgType: 'text', parse: JSON.parse, nullable: false });

const QUEUES = statement(
  { name: text, ordering: text, paused: bool, paused_types: json<readonly string[]>() },
  `SELECT q.name, q.ordering::text AS ordering, q.paused::text AS paused,
  coalesce(to_jsonb(q.paused_types), '[]')::text AS paused_types
FROM holdfast.queues AS q ORDER BY q.name`,
);

export const queueStates = (db: Queryable, schema: string) =>
  executor(db).run(QUEUES, { schema, queue: 'inbox' }, []);

export async function queueNames(db: Queryable, schema: string): Promise<string[]> {
  return (await queueStates(db, schema)).map(({ name }) => name);
}

const WAITING = statement(
  {
    ...{ id: text, type: text, partition_key: text, payload: json<unknown>() },
    ...{ headers: json<EnqueuedJob['headers']>(), priority: int4, attempts: int4 },
    ...{ running: bool, delay_ms: int8 },
  },
  `SELECT i.id::text AS id, i.type, i.partition_key, i.payload::text AS payload,
  coalesce(i.headers, '{}')::text AS headers, i.priority::integer AS priority, i.attempts,
  (i.status = 'processing')::text AS running,
  greatest(0, round(extract(epoch FROM i.available_at - clock_timestamp()) * 1000))::text AS delay_ms
FROM holdfast.inbox AS i
WHERE i.status IN ('pending', 'processing') AND i.position > $1::text::bigint
ORDER BY i.position`,
);

/** The jobs of one queue that wait or run, in the order in which they were written. */
export async function enqueuedJobs(
  db: Queryable,
  names: Names,
  afterPosition = 0,
): Promise<EnqueuedJob[]> {
  const rows = await executor(db).run(WAITING, names, [String(afterPosition)]);
  return rows.map((row) => ({ ...row, queue: names.queue }));
}

const POSITIONS = statement(
  { queue: text, position: int8 },
  `SELECT left(s.sequencename, -13) AS queue, coalesce(s.last_value, 0)::text AS position
FROM pg_sequences AS s WHERE s.schemaname = $1::text AND s.sequencename LIKE '%!_position!_seq' ESCAPE '!'`,
);

/** By queue, the last position that was given in it; what is written later has a higher one. */
export async function lastPositions(db: Queryable, schema: string): Promise<Map<string, number>> {
  const rows = await executor(db).run(POSITIONS, { schema, queue: 'inbox' }, [schema]);
  return new Map(rows.map(({ queue, position }) => [queue, position]));
}

/** What was written to any queue since, beside one job. */
export async function writtenSince(
  db: Queryable,
  schema: string,
  before: ReadonlyMap<string, number>,
  own: { readonly id: string; readonly queue: string },
): Promise<EnqueuedJob[]> {
  const found: EnqueuedJob[] = [];
  for (const [queue, position] of await lastPositions(db, schema)) {
    const from = before.get(queue) ?? 0;
    // Its own job has taken one.
    if (position - from <= (queue === own.queue ? 1 : 0)) continue;
    found.push(...(await enqueuedJobs(db, { schema, queue }, from)));
  }
  return found.filter(({ id }) => id !== own.id);
}

const EFFECTS = statement(
  { name: text, value: json<{ value?: unknown }>() },
  `SELECT e.name, e.value::text AS value FROM holdfast.inbox_effects AS e
WHERE e.job_id = $1::text::uuid ORDER BY e.created_at`,
);

/** What `ctx.once` has recorded for a job, by name. */
export async function effectsOf(
  db: Queryable,
  names: Names,
  jobId: string,
): Promise<Record<string, unknown>> {
  const rows = await executor(db).run(EFFECTS, names, [jobId]);
  return Object.fromEntries(rows.map(({ name, value }) => [name, value.value]));
}

const MAKE_DUE = statement(
  {
    ...{ type: text, version: int4, run_at: text, position: int8, priority: int4, bucket: int4 },
    ...{ key: text, group_key: text, crashes: int4, ordering: text, paused: text.orNull },
  },
  `UPDATE holdfast.inbox AS i
SET available_at = least(i.available_at, now()),
    -- Jobs with such a key stand elsewhere, and no limit holds here.
    limit_key = NULL,
    lease_expires_at = CASE WHEN i.status = 'processing' THEN now() END
FROM holdfast.queues AS q
WHERE q.name = 'inbox' AND i.id = $1::text::uuid AND i.status IN ('pending', 'processing')
RETURNING i.type, i.version::integer AS version, i.available_at::text AS run_at, i.position::text AS position,
  i.priority::integer AS priority, i.partition_bucket::integer AS bucket, i.partition_key AS key,
  coalesce(i.group_key, '') AS group_key, i.crashes, q.ordering::text AS ordering,
  CASE WHEN q.paused THEN 'queue' WHEN i.type = ANY (q.paused_types) THEN 'type'
    WHEN i.partition_key = ANY (q.paused_keys) THEN 'key' END AS paused`,
);

/** Where a job stands: what a targeted claim must know of it. `paused`: what of it is paused. */
export type Place = Row<typeof MAKE_DUE.columns>;

/** Makes a waiting job due, or a lease run out, in this moment; null when it neither waits nor runs. */
export async function makeDue(db: Queryable, names: Names, id: string): Promise<Place | null> {
  return (await executor(db).run(MAKE_DUE, names, [id]))[0] ?? null;
}

const SPEND =
  'UPDATE holdfast.inbox AS i SET attempts = $2::text::integer WHERE i.id = $1::text::uuid';

export const setAttempts = (db: Queryable, names: Names, id: string, spent: number) =>
  execute(db, names, SPEND, [id, String(spent)]);

const KINDS = statement(
  { type: text, version: int4, count: int8 },
  `SELECT i.type, i.version::integer AS version, count(*)::text AS count
FROM holdfast.inbox AS i WHERE i.status = 'pending' GROUP BY 1, 2 ORDER BY 1, 2`,
);

/** The pending jobs of a queue, by type and version. */
export const pendingKinds = (db: Queryable, names: Names) => executor(db).run(KINDS, names, []);

const PAUSED_KEY = statement(
  { key: text },
  `SELECT i.partition_key AS key FROM holdfast.inbox AS i JOIN holdfast.queues AS q ON q.name = 'inbox'
WHERE i.status = 'pending' AND i.partition_key = ANY (q.paused_keys) ORDER BY i.position LIMIT 1`,
);

/** The key of a pending job that is paused; null: there is none. */
export async function pausedKey(db: Queryable, names: Names): Promise<string | null> {
  return (await executor(db).run(PAUSED_KEY, names, []))[0]?.key ?? null;
}

const NEXT_DUE = statement(
  { ms: int8.orNull },
  `SELECT ceil(extract(epoch FROM min(i.available_at) - clock_timestamp()) * 1000)::text AS ms
FROM holdfast.inbox AS i
WHERE i.status = 'pending' AND i.available_at > clock_timestamp() AND i.available_at < '9999-01-01'
  AND i.type IN (SELECT jsonb_array_elements_text($1::text::jsonb))`,
);

/** In how many milliseconds the next job of these types is due; null when none waits for its time. */
export async function nextDueMs(db: Queryable, names: Names, types: readonly string[]) {
  const [row] = await executor(db).run(NEXT_DUE, names, [JSON.stringify(types)]);
  return row?.ms == null ? null : Math.max(0, row.ms);
}
