/**
 * `holdfast jobs ls`, `dead-letters ls` and `archive ls`: what the filter names, queue by queue, a page at a time. A search
 * for rare jobs in a large queue is given up after a while unless all are wanted; then it says where to go on.
 */
import {
  ARCHIVED_STATUSES,
  type ArchivedJob,
  isArchivePlace,
  listArchive,
} from '../../../inspect/job/archive.js';
import { type JobFilter, only } from '../../../inspect/job/filter.js';
import { type ListedJob, listJobs } from '../../../inspect/job/list.js';
import { databaseNow } from '../../../inspect/reading/reading.js';
import { isId } from '../../../job/id.js';
import type { Call } from '../../command.js';
import { UsageError } from '../../failures.js';
import { filterOf, placeOf } from '../../parse/filters.js';
import { countOption } from '../../parse/values.js';
import type { TableColumn } from '../../print/table.js';
import { archivedColumns, jobColumns } from '../../print/views.js';

const PAGE = 500;
const PATIENCE_MS = 2_000;

interface Search<Job> {
  readonly queues: readonly string[];
  readonly ask: (
    queue: string,
    after: string | null,
    limit: number,
  ) => Promise<{ readonly jobs: readonly Job[]; readonly next: string | null }>;
  /** Whether a text is a place in such a list. */
  readonly isPlace: (text: string) => boolean;
  readonly columns: readonly TableColumn<Job & { queue: string }>[];
  /** What is said if nothing was found. */
  readonly none?: string;
}

async function list(call: Call, preset?: readonly string[]): Promise<void> {
  const { given, session } = call;
  const asked = filterOf(given);
  const filter: JobFilter = { ...asked, statuses: asked.statuses ?? preset };
  const place = placeOf(filter);
  if (preset === ARCHIVED_STATUSES && place !== 'archive') {
    throw new UsageError(
      `Jobs that are ${asked.statuses?.join(', ')} are not in the archive: ask \`holdfast jobs ls\`.`,
    );
  }
  const queues = await session.queueNames(given.texts('queue'));
  const many = queues.length > 1;
  const now = await session.read((db) => databaseNow(db, session.schema));
  if (place === 'archive') {
    return search<ArchivedJob>(call, {
      ...{ queues, isPlace: isArchivePlace, columns: archivedColumns(now, many) },
      ask: (queue, after, limit) =>
        session.read((db) => listArchive(db, session.names(queue), filter, { after, limit })),
    });
  }
  // What is in flight is old: it is found at once from that side, and in a large queue by the workers' claims.
  const order = given.flag('oldest') || only(filter, 'processing') ? 'oldest' : 'newest';
  const byClaims = !given.flag('all');
  return search<ListedJob>(call, {
    ...{ queues, isPlace: isId, columns: jobColumns(now, many, only(filter, 'dead_letter')) },
    ask: (queue, after, limit) =>
      session.read(
        (db) => listJobs(db, session.names(queue), filter, { after, limit, order, byClaims }),
        { snapshot: true },
      ),
  });
}

/** A place travels as `queue:place`; in a single queue a job's id is a place as well. */
function placeAfter(
  text: string | undefined,
  { queues, isPlace }: Pick<Search<unknown>, 'queues' | 'isPlace'>,
) {
  if (text === undefined) return { queue: queues[0], after: null };
  const colon = text.indexOf(':');
  const named = text.slice(0, Math.max(0, colon));
  const queue = queues.includes(named) ? named : queues.length === 1 ? queues[0] : undefined;
  const after = queue === named ? text.slice(colon + 1) : text;
  if (queue !== undefined && (isPlace(after) || (after === '' && queue === named)))
    return { queue, after: after || null };
  throw new UsageError(
    `--after takes what the list before named, or with one --queue the place in it; "${text}" is neither.`,
  );
}

export async function search<Job>({ given, out }: Call, request: Search<Job>): Promise<void> {
  const { queues, ask, columns } = request;
  const all = given.flag('all');
  const limit = countOption(given, 'limit', all ? Number.POSITIVE_INFINITY : 50);
  const start = placeAfter(given.text('after'), request);
  const untilMs = performance.now() + PATIENCE_MS;
  let found = 0;
  for (let n = Math.max(0, queues.indexOf(start.queue as string)); n < queues.length; n++) {
    const queue = queues[n] as string;
    let after = queue === start.queue ? start.after : null;
    do {
      const { jobs, next } = await ask(queue, after, Math.min(PAGE, limit - found));
      const rows = jobs.map((job) => ({ ...job, queue }));
      if (rows.length > 0) await out.rows(rows, columns, { headless: found > 0 });
      found += rows.length;
      after = next;
      const late = !all && after !== null && performance.now() > untilMs;
      if (found < limit && !late) continue;
      if (found < limit) out.note('The search was not finished; --all goes on to the end.');
      const following = queues[n + 1];
      const place = after !== null ? `${queue}:${after}` : following && `${following}:`;
      if (place) out.note(`There is more: add --after ${place}`);
      return;
    } while (after !== null);
  }
  if (found === 0) out.note(request.none ?? 'No job matches.');
}

export const run = (call: Call) => list(call);
export const runDeadLetters = (call: Call) => list(call, ['dead_letter']);
export const runArchive = (call: Call) => list(call, ARCHIVED_STATUSES);
