/**
 * The rows of the queues as tests see them: jobs that wait or run, effect markers, and time, which is moved by
 * moving the rows. These statements are the kit's own: no worker runs them.
 */

import type { Queryable } from 'holdfast';
import type { Names } from 'holdfast/internal';
import { loadText } from 'holdfast/internal';

/** A job that waits or runs. */
export interface EnqueuedJob {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
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

export async function rowsOf(
  db: Queryable,
  names: Names,
  text: string,
  params: readonly unknown[] = [],
): Promise<Record<string, unknown>[]> {
  const result = await db.query(loadText(text, names), [...params]);
  return Array.isArray(result) ? result : result.rows;
}

export interface QueueState {
  readonly name: string;
  readonly ordering: string;
  readonly paused: boolean;
  readonly pausedTypes: readonly string[];
}

export async function queueStates(db: Queryable, schema: string): Promise<QueueState[]> {
  const text = `SELECT q.name, q.ordering::text AS ordering, q.paused::text AS paused,
      coalesce(to_jsonb(q.paused_types), '[]')::text AS paused_types
    FROM holdfast.queues AS q ORDER BY q.name`;
  const rows = await rowsOf(db, { schema, queue: 'inbox' }, text);
  return rows.map(({ name, ordering, paused, paused_types }) => ({
    name: String(name),
    ordering: String(ordering),
    paused: paused === 'true',
    pausedTypes: JSON.parse(String(paused_types)),
  }));
}

export async function queueNames(db: Queryable, schema: string): Promise<string[]> {
  return (await queueStates(db, schema)).map(({ name }) => name);
}

const WAITING = `
SELECT i.id::text AS id, i.type, i.partition_key AS key, i.payload::text AS payload,
  coalesce(i.headers, '{}')::text AS headers, i.priority::integer AS priority, i.attempts,
  (i.status = 'processing')::text AS running,
  greatest(0, round(extract(epoch FROM i.available_at - clock_timestamp()) * 1000))::text AS delay_ms
FROM holdfast.inbox AS i
WHERE i.status IN ('pending', 'processing') AND i.position > $1::text::bigint
ORDER BY i.position`;

/** The jobs of one queue that wait or run, in the order in which they were written. */
export async function enqueuedJobs(
  db: Queryable,
  names: Names,
  afterPosition = 0,
): Promise<EnqueuedJob[]> {
  const rows = await rowsOf(db, names, WAITING, [String(afterPosition)]);
  return rows.map((row) => ({
    id: String(row.id),
    type: String(row.type),
    queue: names.queue,
    partitionKey: String(row.key),
    payload: JSON.parse(String(row.payload)),
    headers: JSON.parse(String(row.headers)),
    priority: Number(row.priority),
    attempts: Number(row.attempts),
    delayMs: Number(row.delay_ms),
    running: row.running === 'true',
  }));
}

/** By queue, the last position that was given in it; what is written later has a higher one. */
export async function lastPositions(db: Queryable, schema: string): Promise<Map<string, number>> {
  const text = `SELECT left(s.sequencename, -13) AS queue, coalesce(s.last_value, 0)::text AS position
    FROM pg_sequences AS s WHERE s.schemaname = $1::text AND s.sequencename LIKE '%!_position!_seq' ESCAPE '!'`;
  const rows = await rowsOf(db, { schema, queue: 'inbox' }, text, [schema]);
  return new Map(rows.map(({ queue, position }) => [String(queue), Number(position)]));
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

/** What `ctx.once` has recorded for a job, by name. */
export async function effectsOf(
  db: Queryable,
  names: Names,
  jobId: string,
): Promise<Record<string, unknown>> {
  const text = `SELECT e.name, e.value::text AS value FROM holdfast.inbox_effects AS e
    WHERE e.job_id = $1::text::uuid ORDER BY e.created_at`;
  const rows = await rowsOf(db, names, text, [jobId]);
  return Object.fromEntries(
    rows.map(({ name, value }) => [String(name), JSON.parse(String(value)).value]),
  );
}

/** Where a job stands: what a targeted claim must know of it. */
export interface Place {
  readonly type: string;
  readonly version: number;
  readonly runAt: string;
  readonly position: number;
  readonly priority: number;
  readonly bucket: number;
  readonly key: string;
  readonly group: string;
  readonly crashes: number;
  readonly ordering: string;
  /** What of it is paused; null: nothing. */
  readonly paused: 'queue' | 'type' | 'key' | null;
}

/** Makes a waiting job due, or a lease run out, in this moment; null when it neither waits nor runs. */
export async function makeDue(db: Queryable, names: Names, id: string): Promise<Place | null> {
  const text = `
UPDATE holdfast.inbox AS i
SET available_at = least(i.available_at, now()),
    -- Jobs with such a key stand elsewhere, and no limit holds here.
    limit_key = NULL,
    lease_expires_at = CASE WHEN i.status = 'processing' THEN now() END
FROM holdfast.queues AS q
WHERE q.name = 'inbox' AND i.id = $1::text::uuid AND i.status IN ('pending', 'processing')
RETURNING i.type, i.version::integer AS version, i.available_at::text AS available_at, i.position::text AS position,
  i.priority::integer AS priority, i.partition_bucket::integer AS bucket, i.partition_key AS key,
  coalesce(i.group_key, '') AS group_key, i.crashes, q.ordering::text AS ordering,
  CASE WHEN q.paused THEN 'queue' WHEN i.type = ANY (q.paused_types) THEN 'type'
    WHEN i.partition_key = ANY (q.paused_keys) THEN 'key' END AS paused`;
  const [row] = await rowsOf(db, names, text, [id]);
  if (!row) return null;
  return {
    type: String(row.type),
    version: Number(row.version),
    runAt: String(row.available_at),
    position: Number(row.position),
    priority: Number(row.priority),
    bucket: Number(row.bucket),
    key: String(row.key),
    group: String(row.group_key),
    crashes: Number(row.crashes),
    ordering: String(row.ordering),
    paused: (row.paused ?? null) as Place['paused'],
  };
}

export async function setAttempts(
  db: Queryable,
  names: Names,
  id: string,
  spent: number,
): Promise<void> {
  const text =
    'UPDATE holdfast.inbox AS i SET attempts = $2::text::integer WHERE i.id = $1::text::uuid';
  await rowsOf(db, names, text, [id, String(spent)]);
}

export interface WaitingKind {
  readonly type: string;
  readonly version: number;
  readonly count: number;
}

/** The pending jobs of a queue by type, and how long until the first is due. */
export async function pendingKinds(db: Queryable, names: Names): Promise<WaitingKind[]> {
  const text = `SELECT i.type, i.version::integer AS version, count(*)::text AS count
    FROM holdfast.inbox AS i WHERE i.status = 'pending' GROUP BY 1, 2 ORDER BY 1, 2`;
  const rows = await rowsOf(db, names, text);
  return rows.map((row) => ({
    type: String(row.type),
    version: Number(row.version),
    count: Number(row.count),
  }));
}

/** The key of a pending job that is paused; null: there is none. */
export async function pausedKey(db: Queryable, names: Names): Promise<string | null> {
  const text = `SELECT i.partition_key AS key FROM holdfast.inbox AS i JOIN holdfast.queues AS q ON q.name = 'inbox'
    WHERE i.status = 'pending' AND i.partition_key = ANY (q.paused_keys) ORDER BY i.position LIMIT 1`;
  const [row] = await rowsOf(db, names, text);
  return row ? String(row.key) : null;
}

/** In how many milliseconds the next job of these types is due; null when none waits for its time. */
export async function nextDueMs(
  db: Queryable,
  names: Names,
  types: readonly string[],
): Promise<number | null> {
  const text = `SELECT ceil(extract(epoch FROM min(i.available_at) - clock_timestamp()) * 1000)::text AS ms
    FROM holdfast.inbox AS i
    WHERE i.status = 'pending' AND i.available_at > clock_timestamp()
      AND i.type IN (SELECT jsonb_array_elements_text($1::text::jsonb))`;
  const [row] = await rowsOf(db, names, text, [JSON.stringify(types)]);
  return row?.ms == null ? null : Math.max(0, Number(row.ms));
}
