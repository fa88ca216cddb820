/** One job with everything that is known of it, and what is left of one that is in no queue and no archive any more. */
import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, int8, type Row, statement, text } from '../../postgres/statement.js';
import type { QueueRow } from '../queue/queues.js';
import { instant, JOB, moment, parsed } from '../reading/columns.js';

export const showJobRow = statement({
  name: 'show_job',
  text: `
SELECT 'inbox' AS queue, false AS archived, i.id, i.status::text AS status, i.type, i.version,
  i.partition_key, i.partition_bucket, i.priority::integer AS priority,
  (SELECT q.ordering::text FROM holdfast.queues AS q WHERE q.name = 'inbox') AS ordering, i.parked,
  i.position, i.attempts, i.max_attempts, i.lease_generation, i.crashes, i.isolated, i.claimed_by,
  i.claimed_at, i.lease_expires_at, i.available_at AS run_at, i.created_at, i.completed_at, i.idempotency_key,
  i.last_error, i.history, i.headers, i.group_key, CASE WHEN $2::boolean THEN i.payload END AS payload,
  NULL::jsonb AS result
FROM holdfast.inbox AS i
WHERE i.id = $1::uuid
UNION ALL
SELECT 'inbox', true, a.id, a.status::text, a.type, a.version, a.partition_key, a.partition_bucket,
  a.priority::integer, NULL, false, NULL, a.attempts, a.max_attempts, a.lease_generation, 0, false,
  a.claimed_by, a.claimed_at, NULL, NULL, a.created_at, a.completed_at, a.idempotency_key,
  a.last_error, a.history, a.headers, a.group_key, CASE WHEN $2::boolean THEN a.payload END,
  CASE WHEN $2::boolean THEN a.result END
FROM holdfast.inbox_archive AS a
WHERE a.id = $1::uuid
LIMIT 1`,
  columns: {
    queue: text,
    archived: bool,
    ...JOB,
    /** How its queue is read; null in the archive. */
    ordering: text.orNull,
    /** It is a dead letter that does not hold its key. */
    parked: bool,
    position: int8.orNull,
    attempts: int4,
    max_attempts: int4,
    lease_generation: int8,
    crashes: int4,
    isolated: bool,
    claimed_by: text.orNull,
    claimed_at: instant,
    lease_expires_at: instant,
    run_at: instant,
    created_at: moment,
    completed_at: instant,
    idempotency_key: text.orNull,
    last_error: text.orNull,
    history: parsed,
    headers: parsed,
    /** Null: it belongs to no group. */
    group_key: text.orNull,
    payload: parsed,
    /** What the handler returned; null: nothing, or it is not completed. */
    result: parsed,
  },
});

export type ShownJob = Row<typeof showJobRow.columns>;

/** Looks through the queues in their order; null: none of them knows the id. */
export async function showJob(
  db: Executor,
  schema: string,
  queues: readonly string[],
  id: string,
  withPayload = false,
): Promise<ShownJob | null> {
  for (const queue of queues) {
    const [job] = await db.run(showJobRow, { schema, queue }, [id, withPayload]);
    if (job) return job;
  }
  return null;
}

export const findTrace = statement({
  name: 'trace_of_job',
  text: `
SELECT EXISTS (SELECT FROM holdfast.inbox_effects AS e WHERE e.job_id = $1::uuid)
    OR EXISTS (SELECT FROM holdfast.inbox_claims AS c WHERE $1::uuid = ANY (c.jobs)) AS ran,
  row_security_active('holdfast.inbox'::regclass) OR row_security_active('holdfast.inbox_archive'::regclass)
    AS filtered,
  $2::bigint IS NOT NULL AND EXISTS (SELECT FROM holdfast.inbox_archive AS a
    WHERE a.completed_at < to_timestamp($2::bigint / 1000.0)) AS covered`,
  columns: { ran: bool, filtered: bool, covered: bool },
});

export interface Trace {
  /** When the id was made, in milliseconds since 1970; null: it does not say. */
  readonly madeMs: number | null;
  /** A claim or an effect marker names it. */
  readonly ran: boolean;
  /** Queues of which row level security shows this user a part only. */
  readonly filtered: readonly string[];
  /** Queues whose archives have no job any more that ended before the id was made. */
  readonly uncovered: readonly string[];
}

/** The ids that Holdfast makes carry their time. */
function timeOf(id: string): number | null {
  const hex = id.replaceAll('-', '');
  return hex[12] === '7' ? Number.parseInt(hex.slice(0, 12), 16) : null;
}

export async function traceOf(
  db: Executor,
  schema: string,
  queues: readonly QueueRow[],
  id: string,
): Promise<Trace> {
  const madeMs = timeOf(id);
  let ran = false;
  const [filtered, uncovered]: [string[], string[]] = [[], []];
  for (const { name: queue } of queues) {
    const [found] = await db.run(findTrace, { schema, queue }, [id, madeMs]);
    ran ||= found?.ran ?? false;
    if (found?.filtered) filtered.push(queue);
    if (!found?.covered) uncovered.push(queue);
  }
  return { madeMs, ran, filtered, uncovered };
}
