/**
 * Finished jobs in the order of their enqueues, for whoever brings them back: the archive is read once for a chunk of
 * them, and each comes with the place of its row. The archive does not know the position that a job had. So the order
 * is by the time of the enqueue, then by id, which rises within a process and, from Postgres 18 on, within a session.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  int8,
  plainArray,
  type Row,
  statement,
  text,
  tid,
  uuid,
} from '../../postgres/statement.js';
import { moment } from '../reading/columns.js';
import { storedStatus } from './archive.js';
import { filterParams, filterText, type JobFilter } from './filter.js';

const FINISHED = { id: uuid, ctid: tid, created_at: moment, status: text } as const;
const SELECTED = `SELECT a.id, a.ctid, a.created_at,
  CASE a.status WHEN 'dead_letter' THEN 'discarded' ELSE a.status::text END AS status
FROM holdfast.inbox_archive AS a`;

export type FinishedJob = Row<typeof FINISHED>;

export const listFinished = statement({
  name: 'list_finished',
  text: `
${SELECTED}
WHERE ${filterText('a', 'completed_at')}
  AND ($7::timestamptz IS NULL OR (a.created_at, a.id) > ($7::timestamptz, $8::uuid))
ORDER BY a.created_at, a.id
LIMIT $9::integer`,
  columns: FINISHED,
});

const params = ({ statuses, ...rest }: JobFilter) =>
  filterParams({ ...rest, statuses: statuses?.map(storedStatus) });

/** The next of them, the first enqueued first; fewer than `limit`: there are no more. */
export function finishedJobs(
  db: Executor,
  names: Names,
  filter: JobFilter,
  after: FinishedJob | null,
  limit: number,
): Promise<FinishedJob[]> {
  const from = [after?.createdAt ?? null, after?.id ?? null];
  return db.run(listFinished, names, [...params(filter), ...from, limit]);
}

export const listFinishedByIds = statement({
  name: 'list_finished_by_ids',
  text: `
${SELECTED}
WHERE a.id = ANY ($1::uuid[])
ORDER BY a.created_at, a.id`,
  columns: FINISHED,
});

export function finishedByIds(
  db: Executor,
  names: Names,
  ids: readonly string[],
): Promise<FinishedJob[]> {
  return db.run(listFinishedByIds, names, [plainArray(ids)]);
}

export const countFinishedJobs = statement({
  name: 'count_finished',
  text: `
SELECT count(*) AS jobs FROM holdfast.inbox_archive AS a WHERE ${filterText('a', 'completed_at')}`,
  columns: { jobs: int8 },
});

export async function countFinished(
  db: Executor,
  names: Names,
  filter: JobFilter,
): Promise<number> {
  const [row] = await db.run(countFinishedJobs, names, params(filter));
  return row?.jobs ?? 0;
}
