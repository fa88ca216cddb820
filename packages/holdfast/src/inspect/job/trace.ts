/**
 * What is left of a job that is in no queue and in no archive: effect markers and claims outlive it for a while.
 * And how far back the archives reach, since an archive that was pruned or not restored proves nothing.
 */
import type { Executor } from '../../postgres/queryable.js';
import { bool, statement } from '../../postgres/statement.js';
import type { QueueRow } from '../queue/queues.js';

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
