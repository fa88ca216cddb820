/**
 * Cancelling by a human: jobs that wait or run go to the archive as `cancelled`. The owner of a running one is not asked:
 * its next renewal or settle finds the lease lost. One that waits for its time keeps it in its history: if it is brought
 * back, it waits again. Why the ids stand in a sub-select, and are locked first, is said in dead-letters.ts.
 */
import { checkIds } from '../job/id.js';
import { archived, CANCELLED_TOLD, historyWith, KEEPS_EFFECTS } from '../postgres/fragments.js';
import { inQueue } from '../postgres/in-queue.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { plainArray, statement, uuid } from '../postgres/statement.js';

/** The time that one waited for. A run that comes back finds out by itself what it waits for. */
const HISTORY = `CASE WHEN i.status = 'pending' AND i.available_at > now() AND (i.wait_until = i.available_at) IS NOT TRUE
    THEN ${historyWith(`'outcome', 'cancelled', 'due', i.available_at`)} ELSE i.history END`;

export const cancelJobs = statement({
  name: 'cancel',
  text: `
WITH jobs AS MATERIALIZED (
  SELECT i.id
  FROM holdfast.inbox AS i
  WHERE i.id = ANY ((SELECT $1::text::uuid[])::uuid[]) AND i.status IN ('pending', 'processing')
    -- What was found waiting may have been claimed since.
    AND ($3::text[] IS NULL OR i.status::text = ANY ($3::text[]))
  ORDER BY i.id
  FOR UPDATE
), gone AS (
  DELETE FROM holdfast.inbox AS i USING jobs WHERE i.id = jobs.id
  RETURNING i.*
), ${KEEPS_EFFECTS}
${archived('cancelled', { lastError: '$2::text', history: HISTORY })}
WHERE ${CANCELLED_TOLD}
RETURNING id`,
  columns: { id: uuid },
});

export async function cancel(
  db: Executor,
  names: Names,
  ids: readonly string[],
  reason: string,
  /** Only those that are in one of these states. */
  from?: readonly string[],
): Promise<string[]> {
  const params = [plainArray(checkIds(ids)), reason, from ? plainArray(from) : null];
  const rows = await inQueue(names, db.run(cancelJobs, names, params));
  return rows.map((row) => row.id);
}
