/** `holdfast jobs ls`, `dead-letters ls` and `archive ls`: what the filter names, in the queues or in their archives. */
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
import { type Search, search } from '../../ask/search.js';
import type { Call } from '../../command.js';
import { UsageError } from '../../failures.js';
import { countOption, filterOf, placeOf } from '../../parse/filters.js';
import type { TableColumn } from '../../print/table.js';
import { archivedColumns, jobColumns } from '../../print/views.js';

const DEFAULT_LIMIT = 50;

async function list(call: Call, preset?: readonly string[]): Promise<void> {
  const { given, session, args } = call;
  if (args.length > 0)
    throw new UsageError(`A list takes no argument, but "${args[0]}" was given.`);
  const asked = filterOf(given);
  const filter: JobFilter = { ...asked, statuses: asked.statuses ?? preset };
  const place = placeOf(filter);
  if (preset === ARCHIVED_STATUSES && place !== 'archive') {
    throw new UsageError(
      `Jobs that are ${asked.statuses?.join(', ')} are not in the archive: ask \`holdfast jobs ls\`.`,
    );
  }
  const all = given.flag('all');
  const queues = (await session.queues(given.texts('queue'))).map((queue) => queue.name);
  const common = {
    queues,
    after: given.text('after'),
    limit: countOption(given, 'limit', all ? Number.POSITIVE_INFINITY : DEFAULT_LIMIT),
    all,
  };
  const many = queues.length > 1;
  const now = await session.read((db) => databaseNow(db, session.schema));
  if (place === 'archive') {
    const ask: Search<ArchivedJob>['ask'] = (queue, after, limit) =>
      session.read((db) => listArchive(db, session.names(queue), filter, { after, limit }));
    return show(call, { ...common, isPlace: isArchivePlace, ask }, archivedColumns(now, many));
  }
  // What is in flight is old: it is found at once from that side, and in a large queue by the workers' claims.
  const order = given.flag('oldest') || only(filter, 'processing') ? 'oldest' : 'newest';
  const ask: Search<ListedJob>['ask'] = (queue, after, limit) =>
    session.read(
      (db) => listJobs(db, session.names(queue), filter, { after, limit, order, byClaims: !all }),
      { snapshot: true },
    );
  return show(
    call,
    { ...common, isPlace: isId, ask },
    jobColumns(now, many, only(filter, 'dead_letter')),
  );
}

async function show<Job>(
  { out }: Call,
  request: Search<Job>,
  columns: readonly TableColumn<Job & { queue: string }>[],
): Promise<void> {
  const pages = search(request);
  let found = 0;
  for (;;) {
    const step = await pages.next();
    if (step.done) {
      const { next, unfinished } = step.value;
      if (unfinished) out.note('The search was not finished; --all goes on to the end.');
      if (next !== null) out.note(`There is more: add --after ${next}`);
      else if (found === 0) out.note('No job matches.');
      return;
    }
    if (step.value.length > 0) await out.rows(step.value, columns, { headless: found > 0 });
    found += step.value.length;
  }
}

export const run = (call: Call) => list(call);
export const runDeadLetters = (call: Call) => list(call, ['dead_letter']);
export const runArchive = (call: Call) => list(call, ARCHIVED_STATUSES);
