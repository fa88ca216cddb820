/**
 * What taking a job asks, writes and returns: the same in every claim, so that a crash costs the same in all
 * of them. What is the same for all rows stands in a subquery of its own, which Postgres evaluates once.
 *
 * The parameters that all claims share come first: `$1` the worker, `$2` its lease in milliseconds, `$3` the
 * number of this claim, `$4` the worker's claims of which nothing is left, `$5` how many jobs it wants, `$6` how many
 * jobs of this queue it holds, by type. Claims that read by key go on with `$7`, the types whose first version it
 * handles, and `$8`, the newest version that it handles by type.
 */
import { type Param, plainArray, type Row, textArray } from '../postgres/statement.js';
import { TAKEN_COLUMNS, takeBy } from '../postgres/taken.js';

export { EXPIRED, RETURN_TAKEN, TAKEN_COLUMNS } from '../postgres/taken.js';

/** By type, and under '' in all, how many jobs of a queue a worker holds. */
export type Held = Readonly<Record<string, number>>;

export interface ClaimTerms {
  readonly workerId: string;
  readonly leaseMs: number;
  /** Counts the claims of this worker. */
  readonly number: number;
  /** Earlier claims of this worker of which nothing is left. */
  readonly finished: readonly number[];
  readonly limit: number;
  /** For limits. Left out: the claims of this worker are counted instead. `unlimited`: limits do not hold for this claim. */
  readonly held?: Held | 'unlimited';
}

export function termsOf(terms: ClaimTerms): Param[] {
  const { workerId, leaseMs, number, finished, limit, held } = terms;
  const counts = held === undefined ? null : JSON.stringify(held === 'unlimited' ? false : held);
  return [workerId, leaseMs, number, plainArray(finished), limit, counts];
}

/** Handled types with the newest payload version that a worker understands. */
export type Versions = Readonly<Record<string, number>>;

export const versionsOf = (versions: Versions): Param[] => [
  textArray(Object.keys(versions)),
  JSON.stringify(versions),
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

const LIMITED_TYPES = '(SELECT o.limited FROM open_queue AS o)::text[]';

/** A limit holds for jobs of this type. */
export const limited = (type: string) =>
  `(${type} = ANY (${LIMITED_TYPES}) OR '' = ANY (${LIMITED_TYPES})) IS TRUE`;

/**
 * Which of these limited jobs may start: see schema/functions/limits/allow.sql.ts. It locks their rows and pays. In a claim that
 * has found none it is not called. `limitedJobs` are in the order in which they are to start.
 */
export const allowed = (limitedJobs: string) => `allowed AS MATERIALIZED (
  SELECT a.*
  FROM (
    SELECT array_agg(p.place) AS places, array_agg(p.type) AS types, array_agg(p.limit_key) AS keys
    FROM (${limitedJobs}) AS p
  ) AS c
  CROSS JOIN LATERAL holdfast.inbox_allow($1::text, $6::jsonb, c.places, c.types, c.keys) AS a
  WHERE c.places IS NOT NULL
)`;

/**
 * Of the rows in `kept`, which a claim by key has locked, those of limited types. Without a limit nothing is read for it.
 * `order`: of those of one run.
 */
export const allowedOfKept = (order = '') =>
  allowed(`
      SELECT k.place, i.type, i.limit_key
      FROM kept AS k
      JOIN holdfast.inbox AS i ON i.ctid = k.place
      WHERE ${LIMITED_TYPES} IS NOT NULL AND ${limited('i.type')}
      ORDER BY k.run, ${order} i.available_at, i.position
    `);

/** The rows in `kept` but for those that no limit allows. */
export const KEPT_AND_ALLOWED = `SELECT k.place FROM kept AS k
    WHERE NOT EXISTS (SELECT FROM allowed AS a WHERE a.place = k.place AND NOT a.ok)`;

/**
 * In how many milliseconds (-1: when a permit is free) and in which bucket jobs may start that no limit allows now; with the
 * type if it holds for all of it.
 */
export const HELD_BACK = `(SELECT string_agg(DISTINCT concat_ws(':', coalesce(a.again_ms, -1), i.partition_bucket,
      CASE WHEN a.whole THEN a.type END), ',')
    FROM allowed AS a JOIN holdfast.inbox AS i ON i.ctid = a.place WHERE NOT a.ok)`;

/**
 * The last job in the order of the claim that a limit allows: its bucket, group and key, and whether another key of its bucket
 * must wait.
 */
export const LAST_ALLOWED = `(SELECT jsonb_build_array(l.partition_bucket, coalesce(l.group_key, ''), l.partition_key,
      coalesce(w.partition_bucket = l.partition_bucket
        AND (w.group_key, w.partition_key) IS DISTINCT FROM (l.group_key, l.partition_key), false))
    FROM (SELECT a.place FROM allowed AS a WHERE a.ok ORDER BY a.nth DESC LIMIT 1) AS g
    JOIN holdfast.inbox AS l ON l.ctid = g.place
    LEFT JOIN (
      (SELECT a.place FROM allowed AS a WHERE NOT a.ok ORDER BY a.nth LIMIT 1) AS r
      JOIN holdfast.inbox AS w ON w.ctid = r.place
    ) ON true)`;

/** How many jobs were ready that no limit allows now. */
export const REFUSED_JOBS = `(SELECT count(*) FROM allowed AS a WHERE NOT a.ok)`;

/** What a limit said of jobs that were found: of each type, of the first that must wait. */
export const REFUSED = `(SELECT jsonb_object_agg(r.type, r.again_ms) FROM (
    SELECT DISTINCT ON (a.type) a.type, a.again_ms FROM allowed AS a WHERE a.whole ORDER BY a.type, a.nth) AS r)`;

/** By type, when it may be asked for again, in milliseconds; null: when a permit is free. */
export type Refused = Readonly<Record<string, number | null>>;

export const refusedIn = (text: string | null): Refused => (text === null ? {} : JSON.parse(text));

/** Neither its type nor its key is paused. Where none is, the lists are NULL and nothing is compared. */
export const NOT_PAUSED = `(i.type = ANY ((SELECT o.paused_types FROM open_queue AS o)::text[])) IS NOT TRUE
        AND (i.partition_key = ANY ((SELECT o.paused_keys FROM open_queue AS o)::text[])) IS NOT TRUE`;

export const TAKE = takeBy('$1::text', "(SELECT now() + $2::integer * interval '1 millisecond')");

/**
 * The claim's own row: by it, others find what this worker holds. It is written in the statement that takes
 * the jobs, and deleted by a later claim of the same worker, when all of them have left.
 */
const record = (columns: string, values: string) => `recorded AS (
  INSERT INTO holdfast.inbox_claims (worker_id, number, jobs${columns})
  SELECT $1::text, $3::bigint, array_agg(c.id)${values} FROM claimed AS c HAVING count(*) > 0
), forgotten AS (
  DELETE FROM holdfast.inbox_claims AS f
  WHERE f.worker_id = $1::text AND f.number = ANY ($4::bigint[])
)`;

export const RECORD_CLAIM = record('', '');
/** With the buckets of its jobs. */
export const RECORD_CLAIM_IN_BUCKETS = record(
  ', buckets',
  ', array_agg(c.partition_bucket::smallint)',
);

/** The database's time of the claim, in milliseconds. */
export const CLOCK = `(SELECT (date_part('epoch', now()) * 1000)::bigint) AS clock`;

/** Of the rows that `RETURN_TAKEN` returned, as `c`. */
export const SELECT_TAKEN = Object.keys(TAKEN_COLUMNS)
  .map((name) => `c.${name}`)
  .join(', ');

/** In place of `SELECT_TAKEN`, in a row that is not about a job. */
export const NO_JOB = Object.entries(TAKEN_COLUMNS)
  .map(([name, { pgType }]) => `NULL::${pgType} AS ${name}`)
  .join(', ');

export type ClaimedJob = Row<typeof TAKEN_COLUMNS>;

export interface Claimed {
  /** Rises when the membership of the fleet changes. */
  readonly epoch: number;
  /** The database's time of the claim, in milliseconds. */
  readonly clock: number;
  readonly jobs: ClaimedJob[];
}

/** Takes the row about the whole claim out of the rows about its jobs. */
export function splitHead<R extends { readonly epoch: number | null }>(rows: R[]): R {
  const at = rows.findIndex((row) => row.epoch !== null);
  const [head] = at < 0 ? [] : rows.splice(at, 1);
  if (!head) throw new Error('the table fleet has lost its row');
  return head;
}
