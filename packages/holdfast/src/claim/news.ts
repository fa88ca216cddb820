/** What a claim says of its queue when it is asked: what else there is to do, and when the next job is due. */
import { bool, int8 } from '../postgres/statement.js';

export interface QueueNews {
  /** How long until the next job is due; null: none is known. */
  readonly dueInMs: number | null;
  /** There are jobs that crashed their workers and are to be run apart. */
  readonly suspects: boolean;
  /** How long ago a round of maintenance began; null before the first. */
  readonly maintainedMs: number | null;
  /** The queue has a bound, and it is time to count what waits. */
  readonly recount: boolean;
}

/** `asked`: the parameter that says whether the claim is asked. */
export const newsOf = (
  asked: string,
) => `CASE WHEN ${asked} THEN EXISTS (SELECT FROM holdfast.inbox AS s
    WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now()) END AS suspects,
  CASE WHEN ${asked} THEN (SELECT (extract(epoch FROM now() - q.maintained_at) * 1000)::bigint
    FROM holdfast.queues AS q WHERE q.name = 'inbox') END AS maintained_ms,
  CASE WHEN ${asked} THEN (SELECT q.max_pending IS NOT NULL AND coalesce(q.recount_at <= now(), true)
    FROM holdfast.queues AS q WHERE q.name = 'inbox') END AS recount`;

export const NEWS_COLUMNS = {
  suspects: bool.orNull,
  maintained_ms: int8.orNull,
  recount: bool.orNull,
} as const;

/** In place of `newsOf`, in a row that is about a job. */
export const NO_NEWS = 'NULL, NULL, NULL';

interface NewsRow {
  readonly suspects: boolean | null;
  readonly maintainedMs: number | null;
  readonly recount: boolean | null;
}

/** Null: it was not asked. */
export function newsIn(
  { suspects, maintainedMs, recount }: NewsRow,
  dueInMs: number | null,
): QueueNews | null {
  if (suspects === null) return null;
  return { suspects, dueInMs, maintainedMs, recount: recount ?? false };
}
