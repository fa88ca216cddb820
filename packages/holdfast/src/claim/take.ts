/**
 * What taking a job asks, writes and returns: the same in every claim, so that a crash costs the same in all
 * of them. What is the same for all rows stands in a subquery of its own, which Postgres evaluates once.
 *
 * The parameters that all claims share come first: `$1` the worker, `$2` its lease in milliseconds, `$3` the
 * number of this claim, `$4` the worker's claims whose jobs have all left, `$5` how many jobs it wants, `$6` how many
 * jobs of this queue it holds, by type. Claims that read by key go on with `$7`, the types whose first version it
 * handles, and `$8`, the newest version that it handles by type.
 */

import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import {
  bool,
  type Column,
  type Columns,
  int8,
  json,
  type Param,
  plainArray,
  type Row,
  type Statement,
  statement,
  textArray,
} from '../postgres/statement.js';
import { RETURN_TAKEN, TAKEN_COLUMNS, takeBy } from '../postgres/taken.js';
import type { Refused } from './allowed.js';

/** By type, and under '' in all, how many jobs of a queue a worker holds. */
export type Held = Readonly<Record<string, number>>;

export interface ClaimTerms {
  readonly workerId: string;
  readonly leaseMs: number;
  /** Counts the claims of this worker. */
  readonly number: number;
  /** Earlier claims of this worker whose jobs have all left. */
  readonly finished: readonly number[];
  readonly limit: number;
  /** For limits. Left out: the claims of this worker are counted instead. `unlimited`: limits do not hold for this claim. */
  readonly held?: Held | 'unlimited';
}

function termsOf(terms: ClaimTerms): Param[] {
  const { workerId, leaseMs, number, finished, limit, held } = terms;
  const counts = held === undefined ? null : JSON.stringify(held === 'unlimited' ? false : held);
  return [workerId, leaseMs, number, plainArray(finished), limit, counts];
}

/** An array literal of each of these fields. */
export const arraysOf = <T>(rows: readonly T[], ...fields: readonly (keyof T)[]): Param[] =>
  fields.map((field) => textArray(rows.map((row) => String(row[field]))));

/** Handled types with the newest payload version that a worker understands; or, of a workflow, all that it has a body for. */
export type Versions = Readonly<Record<string, number | readonly number[]>>;

export const newestOf = (of: number | readonly number[]): number =>
  typeof of === 'number' ? of : Math.max(...of);

export const versionsOf = (versions: Versions): Param[] => [
  textArray(Object.keys(versions)),
  JSON.stringify(
    Object.fromEntries(Object.entries(versions).map(([type, of]) => [type, newestOf(of)])),
  ),
];

/** Whether this worker handles the job. Nearly every job is of version 1; that is cheap to find out. */
export const HANDLED = `(i.version = 1 AND i.type = ANY ($7::text[])
        OR i.version <= ($8::jsonb -> i.type)::integer)`;

/**
 * The queue, while jobs may be claimed from it in the way that `how` says. `limited`: the types that have a limit, with
 * '' for that of the queue; NULL, at no cost, in a queue that never had one.
 */
export const openQueue = (how: string) => `open_queue AS MATERIALIZED (
  SELECT q.paused_types, q.paused_keys, q.age_after, q.ordering,
    CASE WHEN q.limits_version > 0 AND $6::jsonb IS DISTINCT FROM 'false' THEN (
      SELECT array_agg(coalesce(l.type, '')) FROM holdfast.limits AS l
      WHERE l.queue = 'inbox' AND (l.concurrency IS NOT NULL OR l.rate_limit IS NOT NULL)) END AS limited
  FROM holdfast.queues AS q
  WHERE q.name = 'inbox' AND NOT q.paused AND ${how}
)`;

/** Neither its type nor its key is paused. Where none is, the lists are NULL and nothing is compared. */
export const NOT_PAUSED = `(i.type = ANY ((SELECT o.paused_types FROM open_queue AS o)::text[])) IS NOT TRUE
        AND (i.partition_key = ANY ((SELECT o.paused_keys FROM open_queue AS o)::text[])) IS NOT TRUE`;

/** What a claim says of the whole of itself: by column, its SQL and its type. */
export type Head = Readonly<Record<string, readonly [sql: string, type: Column<unknown>]>>;

export type ColumnsOf<H extends Head> = { readonly [C in keyof H]: H[C][1] };

const SHARED = { epoch: int8.orNull, clock: int8.or(0), refused: json.orNull } as const;
const CLOCK = `(SELECT (date_part('epoch', now()) * 1000)::bigint)`;
/** Of each type what was said of the first that must wait. */
const REFUSED = `(SELECT jsonb_object_agg(r.type, r.again_ms) FROM (
    SELECT DISTINCT ON (a.type) a.type, a.again_ms FROM allowed AS a WHERE a.whole ORDER BY a.type, a.nth) AS r)`;

/** What a claim says of its queue when it is asked, from the row `d`. */
export const NEWS_HEAD = {
  due_in_ms: ['d.due_in_ms', int8.orNull],
  suspects: ['d.suspects', bool.orNull],
  maintained_ms: ['d.maintained_ms', int8.orNull],
  recount: ['d.recount', bool.orNull],
} as const;

/** In the row about the whole claim. */
const noJob = (columns: Columns): Head =>
  Object.fromEntries(
    Object.entries(columns).map(([name, type]) => [name, [`NULL::${type.pgType}`, type]]),
  );

export interface ClaimPart<H extends Head, K extends Columns> {
  readonly name: string;
  /** `WITH`, `open_queue`, and all that comes before what is taken. */
  readonly ctes: string;
  /** The rows of the UPDATE. */
  readonly taking: string;
  readonly isolated?: string;
  /** Left out, what `allowed` says. */
  readonly refused?: string;
  readonly head: H;
  /** What the head reads beside the row of the fleet. */
  readonly joins?: string;
  /** Columns of `kept` that are said of each job. Then the buckets of the jobs are recorded too. */
  readonly ofKept?: K;
}

/**
 * Takes jobs. By the claim's own row others find what this worker holds: it is written in the statement that takes the jobs,
 * and deleted by a later claim of the same worker, when all of them have left. The first row that is returned is about the
 * whole claim, also about one that finds nothing; then the jobs come, in any order.
 */
export function claimStatement<
  const H extends Head,
  const K extends Columns = Record<never, never>,
>({
  name,
  ctes,
  taking,
  isolated = 'false',
  refused = REFUSED,
  head,
  joins = '',
  ofKept,
}: ClaimPart<H, K>) {
  const ofJobs = { ...ofKept, ...TAKEN_COLUMNS };
  const shared = {
    ...{ epoch: ['f.epoch', SHARED.epoch], clock: [CLOCK, SHARED.clock] },
    refused: [refused, SHARED.refused],
  } as const;
  const all: Head = { ...shared, ...head, ...noJob(ofJobs) };
  const more = Object.keys(ofKept ?? {}).map((column) => `, k.${column}`);
  const [buckets, values] = ofKept
    ? [', buckets', ', array_agg(c.partition_bucket::smallint)']
    : ['', ''];
  const columns = Object.fromEntries(
    Object.entries(all).map(([column, [, type]]) => [column, type]),
  );
  return statement({
    name,
    columns: columns as typeof SHARED & ColumnsOf<H> & K & typeof TAKEN_COLUMNS,
    text: `
${ctes}, claimed AS (
  UPDATE holdfast.inbox AS i
  SET ${takeBy('$1::text', "(SELECT now() + $2::integer * interval '1 millisecond')")}, isolated = ${isolated}
  ${taking}
  RETURNING ${RETURN_TAKEN}${more.join('')}
), recorded AS (
  INSERT INTO holdfast.inbox_claims (worker_id, number, jobs${buckets})
  SELECT $1::text, $3::bigint, array_agg(c.id)${values} FROM claimed AS c HAVING count(*) > 0
), forgotten AS (
  DELETE FROM holdfast.inbox_claims AS f
  WHERE f.worker_id = $1::text AND f.number = ANY ($4::bigint[])
)
SELECT ${Object.entries(all)
      .map(([column, [sql]]) => `${sql} AS ${column}`)
      .join(', ')}
FROM holdfast.fleet AS f
${joins}
WHERE f.one
UNION ALL
SELECT ${Object.keys(all)
      .map((column) => (column in ofJobs ? `c.${column}` : 'NULL'))
      .join(', ')}
FROM claimed AS c`,
  });
}

/** `more`: where keys take turns, more of its key waits, or is due soon. */
export type ClaimedJob = Row<typeof TAKEN_COLUMNS> & { readonly more?: boolean };

export interface Claimed {
  /** Rises when the membership of the fleet changes. */
  readonly epoch: number;
  /** The database's time of the claim, in milliseconds. */
  readonly clock: number;
  readonly refused: Refused;
  readonly jobs: ClaimedJob[];
}

/** Claims: the row about the whole claim, and the rows about its jobs in order. `params`: those after the terms. */
export async function claim<C extends Columns & typeof SHARED>(
  db: Executor,
  names: Names,
  definition: Statement<C>,
  terms: ClaimTerms,
  params: readonly Param[],
  order: (a: Row<C>, b: Row<C>) => number,
) {
  const rows: (Row<C> & Row<typeof SHARED>)[] = await db.run(definition, names, [
    ...termsOf(terms),
    ...params,
  ]);
  const at = rows.findIndex(({ epoch }) => epoch !== null);
  const [head] = at < 0 ? [] : rows.splice(at, 1);
  if (!head) throw new Error('the table fleet has lost its row');
  const refused: Refused = head.refused === null ? {} : JSON.parse(head.refused);
  return { head, epoch: head.epoch ?? 0, clock: head.clock, refused, jobs: rows.sort(order) };
}

/** Postgres' timestamps sort as text. */
export const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

export const byDueTime = (a: ClaimedJob, b: ClaimedJob) =>
  byText(a.cursorAt, b.cursorAt) || a.cursorPosition - b.cursorPosition;

/** The order in which they are to be started. */
export const byDue = (a: ClaimedJob, b: ClaimedJob) => a.priority - b.priority || byDueTime(a, b);

/** What a claim says of its queue when it is asked: what else there is to do, and when the next job is due. */
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

/** Null: it was not asked. */
export function newsIn(
  head: { readonly [N in keyof QueueNews]: QueueNews[N] | null },
): QueueNews | null {
  const { dueInMs, suspects, maintainedMs, recount } = head;
  return suspects === null ? null : { dueInMs, suspects, maintainedMs, recount: recount ?? false };
}
