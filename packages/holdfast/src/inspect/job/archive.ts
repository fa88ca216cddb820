/**
 * Finished jobs: the latest first for lists, and in the order of their enqueues for whoever brings them back.
 *
 * The archive has no index by time, only block ranges. So a page is looked for in a window that reaches back from its start
 * and grows until the page is full: by a factor, so that the last window costs most of it. One that would go over the
 * budget is left to the next page, which `next` names.
 */

import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  int4,
  int8,
  type Param,
  plainArray,
  type Row,
  statement,
  text,
  tid,
  uuid,
} from '../../postgres/statement.js';
import { asks } from '../reading/asks.js';
import { instant, JOB, moment } from '../reading/columns.js';
import { filterParams, filterText, type JobFilter } from './filter.js';

const FIRST_WINDOW_MS = 1_000;
const GROWTH = 8;
const BUDGET_MS = 150;

export const ARCHIVED_STATUSES = ['completed', 'cancelled', 'discarded'] as const;

/** A discarded dead letter keeps its status in the archive; a list calls it by what was done to it. */
export const storedStatus = (status: string) => (status === 'discarded' ? 'dead_letter' : status);

const params = ({ statuses, ...rest }: JobFilter) =>
  filterParams({ ...rest, statuses: statuses?.map(storedStatus) });

const ARCHIVED = {
  ...JOB,
  attempts: int4,
  max_attempts: int4,
  created_at: moment,
  completed_at: moment,
  claimed_by: text.orNull,
  claimed_at: instant,
  last_error: text.orNull,
} as const;

const PAGE = (more: { readonly columns: string; readonly which: string }) => `
SELECT a.id, CASE a.status WHEN 'dead_letter' THEN 'discarded' ELSE a.status::text END AS status,
  a.type, a.version, a.partition_key, a.partition_bucket, a.priority::integer AS priority,
  a.attempts, a.max_attempts, a.created_at, a.completed_at, a.claimed_by, a.claimed_at,
  left(a.last_error, 500) AS last_error${more.columns}
FROM holdfast.inbox_archive AS a
WHERE a.completed_at <= $7::timestamptz AND a.completed_at > $8::timestamptz
  AND (a.completed_at, a.id) < ($7::timestamptz, coalesce($9::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
  AND ${filterText('a', 'completed_at')}${more.which}
ORDER BY a.completed_at DESC, a.id DESC
LIMIT $10::integer`;

export const listArchived = statement({
  name: 'list_archived',
  text: PAGE({ columns: '', which: '' }),
  columns: ARCHIVED,
});

export const listEndedRuns = statement({
  name: 'list_ended_runs',
  text: PAGE({
    columns: ", a.headers ->> 'holdfast_tag' AS tag",
    which: "\n  AND ($11::text IS NULL OR a.headers ->> 'holdfast_tag' = $11::text)",
  }),
  columns: { ...ARCHIVED, tag: text.orNull },
});

export type ArchivedJob = Row<typeof ARCHIVED>;
export type EndedRun = Row<typeof listEndedRuns.columns>;

export const archiveReach = statement({
  name: 'archive_reach',
  text: `
SELECT clock_timestamp() AS now, least(q.created_at, clock_timestamp() - q.archive_retention * 2) AS start
FROM holdfast.queues AS q
WHERE q.name = 'inbox'`,
  columns: { now: moment, start: moment },
});

export interface ArchivePage<Job = ArchivedJob> {
  readonly jobs: readonly Job[];
  /** Where the search goes on, to be passed as `after`; null: there is nothing further. */
  readonly next: string | null;
}

export interface ArchiveRequest {
  readonly after?: string | null | undefined;
  readonly limit: number;
  readonly budgetMs?: number | undefined;
}

const PLACE =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z)(\/([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?(\/\d{1,14})?)?$/;

export function isArchivePlace(text: string): boolean {
  const [, time = ''] = PLACE.exec(text) ?? [];
  return !Number.isNaN(Date.parse(time));
}

export function listArchive(
  db: Executor,
  names: Names,
  filter: JobFilter,
  request: ArchiveRequest,
): Promise<ArchivePage> {
  const page = (window: Param[]) => db.run(listArchived, names, [...params(filter), ...window]);
  return inWindows(db, names, request, page);
}

/** The same of runs: with a tag only those that were started with it. */
export function endedRuns(
  db: Executor,
  names: Names,
  filter: JobFilter,
  tag: string | undefined,
  request: ArchiveRequest,
): Promise<ArchivePage<EndedRun>> {
  const page = (window: Param[]) =>
    db.run(listEndedRuns, names, [...params(filter), ...window, tag ?? null]);
  return inWindows(db, names, request, page);
}

/** A place in the archive travels as `<time>/<id>/<window>`: a search that goes on does so at its stride. */
async function inWindows<Job extends Pick<ArchivedJob, 'id' | 'completedAt'>>(
  db: Executor,
  names: Names,
  request: ArchiveRequest,
  page: (window: Param[]) => Promise<readonly Job[]>,
): Promise<ArchivePage<Job>> {
  const [reach] = await db.run(archiveReach, names, []);
  if (!reach) return { jobs: [], next: null };
  const [from = reach.now, id, stride] = request.after?.split('/') ?? [];
  const budgetMs = request.budgetMs ?? BUDGET_MS;
  for (let windowMs = Number(stride) || FIRST_WINDOW_MS; ; windowMs *= GROWTH) {
    const started = performance.now();
    const edge = new Date(Date.parse(from) - windowMs).toISOString();
    const last = Date.parse(edge) <= Date.parse(reach.start);
    const jobs = await page([from, last ? '-infinity' : edge, id || null, request.limit]);
    const end = jobs.at(-1);
    if (jobs.length === request.limit) return { jobs, next: `${end?.completedAt}/${end?.id}` };
    if (last) return { jobs, next: null };
    if ((performance.now() - started) * GROWTH > budgetMs) {
      return { jobs, next: `${edge}//${windowMs * GROWTH}` };
    }
  }
}

export const countOlder = statement({
  name: 'count_archived',
  text: `
SELECT count(*) AS jobs FROM (
  SELECT FROM holdfast.inbox_archive AS a
  WHERE a.completed_at < now() - $1::bigint * interval '1 millisecond'
  LIMIT $2::integer
) AS old`,
  columns: { jobs: int8 },
});

/** How many ended longer ago than this, counted up to `limit`. */
export async function countArchivedOlder(
  db: Executor,
  names: Names,
  olderMs: number,
  limit: number,
): Promise<number> {
  const [row] = await db.run(countOlder, names, [olderMs, limit]);
  return row?.jobs ?? 0;
}

/**
 * The archive does not know the position that a job had. So the order is by the time of the enqueue, then by id, which
 * rises within a process and, from Postgres 18 on, within a session.
 */
const FINISHED = { id: uuid, ctid: tid, created_at: moment, status: text } as const;
const SELECTED = `SELECT a.id, a.ctid, a.created_at,
  CASE a.status WHEN 'dead_letter' THEN 'discarded' ELSE a.status::text END AS status
FROM holdfast.inbox_archive AS a`;

export type FinishedJob = Row<typeof FINISHED>;

/** The next of them, the first enqueued first; fewer than `limit`: there are no more. */
export const finishedJobs = asks({
  name: 'list_finished',
  text: `
${SELECTED}
WHERE ${filterText('a', 'completed_at')}
  AND ($7::timestamptz IS NULL OR (a.created_at, a.id) > ($7::timestamptz, $8::uuid))
ORDER BY a.created_at, a.id
LIMIT $9::integer`,
  columns: FINISHED,
  params: (
    filter: JobFilter,
    after: Pick<FinishedJob, 'createdAt' | 'id'> | null,
    limit: number,
  ) => [...[...params(filter), after?.createdAt ?? null, after?.id ?? null, limit]],
});

export const finishedByIds = asks({
  name: 'list_finished_by_ids',
  text: `
${SELECTED}
WHERE a.id = ANY ($1::uuid[])
ORDER BY a.created_at, a.id`,
  columns: FINISHED,
  params: (ids: readonly string[]) => [plainArray(ids)],
});

export const countFinishedJobs = statement({
  name: 'count_finished',
  text: `
SELECT count(*) AS jobs FROM holdfast.inbox_archive AS a WHERE ${filterText('a', 'completed_at')}`,
  columns: { jobs: int8 },
});

export async function countFinished(db: Executor, names: Names, filter: JobFilter) {
  const [row] = await db.run(countFinishedJobs, names, params(filter));
  return row?.jobs ?? 0;
}
