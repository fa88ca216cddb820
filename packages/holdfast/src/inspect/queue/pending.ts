/**
 * How many jobs are pending in a queue too large to read: due ones, and those that wait for their time. In a queue that is read
 * by time both are counted up to a bound, by the index of the lines, in which runs that wait stand behind. What is beyond the
 * bound is estimated: how many rows of a sample of the table are pending, times its size. So nothing is estimated by what is
 * left after another estimate, and none pending is none. The sample is the same for each reader, as long as the table is.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, statement } from '../../postgres/statement.js';
import { asleep } from '../../postgres/taken.js';
import { inLines, LINES, MAX_LINES, share } from '../reading/lines.js';
import { ON_HOLD } from '../reading/pauses.js';
import { isPartlyPaused, listQueues } from './queues.js';
import { queueSize } from './size.js';

/** So many are counted one by one. */
export const EXACT_PART = 10_000;
/** So many pages of the table are a sample. */
const SAMPLE_PAGES = 1_000;

export const countDueJobs = statement({
  name: 'count_due_jobs',
  text: `
WITH RECURSIVE ${LINES}
SELECT count(*) FILTER (WHERE due.status = 'pending') AS jobs, count(*) AS seen,
  (SELECT count(*) FROM key_lines) >= ${MAX_LINES} AS more_lines
FROM (
  SELECT o.status FROM (${inLines({
    columns: 'i.status',
    ...{ when: 'i.available_at <= now()', most: '$1::integer' },
  })}
  ) AS o
  UNION ALL
  -- Suspects are not in the indexes that claims read.
  SELECT s.status FROM holdfast.inbox AS s
  WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now()
  LIMIT $1::integer
) AS due`,
  columns: { jobs: int8, seen: int8, more_lines: bool },
});

export const countScheduled = statement({
  name: 'count_scheduled',
  text: `
WITH RECURSIVE ${LINES}
SELECT count(*) FILTER (WHERE NOT scheduled.asleep) AS jobs, count(*) AS seen,
  (SELECT count(*) FROM key_lines) >= ${MAX_LINES} AS more_lines
FROM (
  SELECT later.asleep FROM (${inLines({
    columns: `${asleep('i')} AS asleep`,
    // Runs that wait for no time are the last of their line.
    ...{ when: `i.available_at > now() AND i.available_at < '9999-12-31'`, most: '$1::integer' },
  })}
  ) AS later
  UNION ALL
  -- Suspects are not in the indexes that claims read.
  SELECT ${asleep('s')} FROM holdfast.inbox AS s
  WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at > now() AND s.available_at < 'infinity'
  LIMIT $1::integer
) AS scheduled`,
  columns: { jobs: int8, seen: int8, more_lines: bool },
});

export const samplePending = statement({
  name: 'sample_pending',
  text: `
SELECT count(*) AS seen, count(*) FILTER (WHERE s.pending AND NOT s.later) AS due,
  count(*) FILTER (WHERE s.pending AND s.later) AS later
FROM (
  SELECT i.status = 'pending' AND NOT ${asleep('i')} AS pending, i.available_at > now() AS later
  FROM holdfast.inbox AS i TABLESAMPLE SYSTEM (least(100, 100.0 * ${SAMPLE_PAGES}
    * current_setting('block_size')::integer / greatest(1, pg_relation_size('holdfast.inbox'::regclass)))) REPEATABLE (0)
) AS s`,
  columns: { seen: int8, due: int8, later: int8 },
});

export interface Pending {
  readonly pending: number;
  /** Null: they are too many to count. */
  readonly scheduled: number | null;
}

/** `total`: how many rows the queue has. */
export async function pendingJobs(
  db: Executor,
  names: Names,
  { total, keyed }: { readonly total: number; readonly keyed: boolean },
): Promise<Pending> {
  const due = keyed ? null : await upTo(db, names, countDueJobs);
  const later = keyed ? null : await upTo(db, names, countScheduled);
  if (due?.isAll && later?.isAll) return { pending: due.jobs + later.jobs, scheduled: later.jobs };
  const [sample] = await db.run(samplePending, names, []);
  const scaled = (rows = 0) => Math.round((rows * total) / Math.max(1, sample?.seen ?? 0));
  const part = (counted: Counted | null, rows: number | undefined) =>
    counted?.isAll ? counted.jobs : Math.max(counted?.jobs ?? 0, scaled(rows));
  return {
    pending: part(due, sample?.due) + part(later, sample?.later),
    scheduled: later?.isAll ? later.jobs : null,
  };
}

const HOLD_ROWS = 20_000;

const HELD_BACK = (jobs: string, lines = '') => `${lines}
SELECT count(*) AS jobs
FROM (${jobs}
) AS j
CROSS JOIN holdfast.queues AS q
WHERE q.name = 'inbox' AND j.status = 'pending' AND ${ON_HOLD('j')}`;

const HOLD_COLUMNS = { jobs: int8 };

export const heldBackByTime = statement({
  name: 'held_back_by_time',
  text: HELD_BACK(
    inLines({
      columns: 'i.status, i.type, i.partition_key',
      ...{ when: `i.available_at < '9999-12-31'`, most: share(HOLD_ROWS) },
    }),
    `WITH RECURSIVE ${LINES}`,
  ),
  columns: HOLD_COLUMNS,
});

export const heldBackByKey = statement({
  name: 'held_back_by_key',
  text: HELD_BACK(`
  SELECT i.status, i.type, i.partition_key
  FROM (SELECT * FROM holdfast.inbox ORDER BY id LIMIT ${5 * HOLD_ROWS}) AS i
  WHERE i.status <> 'dead_letter' AND NOT ${asleep('i')} LIMIT ${HOLD_ROWS}`),
  columns: HOLD_COLUMNS,
});

/** Jobs that a pause holds back, where they are too many to read: at least so many. `pending`: all that wait. */
export async function onHoldJobs(
  db: Executor,
  names: Names,
  { pending, keyed }: { readonly pending: number; readonly keyed: boolean },
): Promise<number> {
  const queue = (await listQueues(db, names)).find(({ name }) => name === names.queue);
  if (queue?.paused) return pending;
  if (!queue || !isPartlyPaused(queue)) return 0;
  const [row] = await db.run(keyed ? heldBackByKey : heldBackByTime, names, []);
  return row?.jobs ?? 0;
}

/** It is read by time, and so few jobs are due that all of them can be read. */
export async function hasFewDue(db: Executor, names: Names): Promise<boolean> {
  const { keyed } = await queueSize(db, names);
  return !keyed && (await upTo(db, names, countDueJobs)).isAll;
}

interface Counted {
  readonly jobs: number;
  readonly isAll: boolean;
}

async function upTo(
  db: Executor,
  names: Names,
  count: typeof countDueJobs | typeof countScheduled,
): Promise<Counted> {
  const [row] = await db.run(count, names, [EXACT_PART]);
  if (!row) return { jobs: 0, isAll: false };
  return { jobs: row.jobs, isAll: row.seen < EXACT_PART && !row.moreLines };
}
