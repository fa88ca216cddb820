/** What jobs fail of, in a bounded part. Errors are one if they differ by numbers or ids only: "no order 9182", "no order 9183". */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, int8, type Row, statement, text, uuid } from '../../postgres/statement.js';
import { type Answer, asks } from '../reading/asks.js';
import { moment } from '../reading/columns.js';
import { inLines, LINES, share } from '../reading/lines.js';
import { filterParams, filterText, type JobFilter } from './filter.js';

export const SCAN_LETTERS = 50_000;
export const MAX_GROUPS = 100;

/** Of the first line. */
const FOLDED = 300;
const VARYING = '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9]+';

/** The first line of the last error, without its numbers and ids. */
export const foldedError = (alias: string) => `regexp_replace(
    left(split_part(coalesce(${alias}.last_error, ''), E'\\n', 1), ${FOLDED}), '${VARYING}', '#', 'g')`;

/** The same of an error that was read. */
export function foldError(error: string | null): string {
  const [first = ''] = (error ?? '').split('\n', 1);
  // Characters, as Postgres counts them.
  return [...first].slice(0, FOLDED).join('').replace(new RegExp(VARYING, 'g'), '#');
}

export const deadLetterGroups = asks({
  name: 'group_dead_letters',
  text: `
SELECT l.type, l.error, min(l.key) AS key, count(DISTINCT l.key) AS keys, count(*) AS jobs, count(*) OVER () AS groups,
  min(l.created_at) AS oldest, max(l.created_at) AS newest, min(l.id::text)::uuid AS first, max(l.id::text)::uuid AS example
FROM (
  SELECT j.id, j.type, j.created_at, j.partition_key AS key, ${foldedError('j')} AS error
  FROM (
    SELECT i.* FROM holdfast.inbox AS i
    WHERE i.available_at = 'infinity' ORDER BY i.id DESC LIMIT $7::integer
  ) AS j
  WHERE j.status = 'dead_letter' AND ${filterText('j', 'created_at')}
) AS l
GROUP BY l.type, l.error, CASE WHEN $9::boolean THEN l.key END
ORDER BY count(*) DESC, l.type, l.error, min(l.key)
LIMIT $8::integer`,
  columns: {
    type: text,
    /** `#` replaces a number or an id. */
    error: text,
    /** The first of its partition keys. */
    key: text,
    keys: int8,
    jobs: int8,
    /** How many groups there are, with those that are left out. */
    groups: int8,
    oldest: moment,
    newest: moment,
    /** The id of the oldest of those that were read. */
    first: uuid,
    /** The id of the newest. */
    example: uuid,
  },
  params: (filter: JobFilter, byKey?: boolean) => [
    ...filterParams(filter),
    ...[SCAN_LETTERS, MAX_GROUPS, byKey ?? false],
  ],
});

export type DeadLetterGroupRow = Answer<typeof deadLetterGroups>;

export const moreLetters = asks({
  name: 'more_dead_letters',
  text: `
SELECT true AS more FROM holdfast.inbox AS i
WHERE i.available_at = 'infinity' ORDER BY i.id DESC OFFSET ${SCAN_LETTERS} LIMIT 1`,
  columns: { more: bool },
});

const ROWS = 2_000;
const WITHIN_MS = 5 * 60_000;

/** `waiting`: by time, of each type the jobs that are due next, where retries lie, and those due last; by key, the oldest. */
const MOST = (waiting: string, lines = '') => `${lines}
SELECT f.type, f.error, count(*) AS jobs, max(f.id::text)::uuid AS example
FROM (
  SELECT j.id, j.type, ${foldedError('j')} AS error
  FROM (${waiting}
    UNION ALL
    (SELECT i.id, i.type, i.status, i.last_error, i.history FROM holdfast.inbox AS i
     WHERE i.available_at = 'infinity' ORDER BY i.id DESC LIMIT $1::integer)
  ) AS j
  WHERE j.status <> 'processing' AND j.last_error IS NOT NULL
    AND j.history #>> '{-1,outcome}' IN ('failed', 'dead_letter')
    AND (j.history #>> '{-1,at}')::timestamptz > now() - $2::integer * interval '1 millisecond'
) AS f
GROUP BY f.type, f.error
ORDER BY count(*) DESC, f.type, f.error
LIMIT 1`;

const COLUMNS = {
  type: text,
  /** `#` replaces a number or an id. */
  error: text,
  jobs: int8,
  example: uuid,
};

const PART = (when: string, order: 'ASC' | 'DESC') =>
  inLines({
    columns: 'i.id, i.type, i.status, i.last_error, i.history',
    ...{ when, order, most: share('$1::integer') },
  });

export const commonErrorByTime = statement({
  name: 'common_error_by_time',
  text: MOST(
    `${PART(`i.available_at > now() AND i.available_at < 'infinity'`, 'ASC')}
    UNION ALL ${PART('i.available_at <= now()', 'DESC')}`,
    `WITH RECURSIVE ${LINES}`,
  ),
  columns: COLUMNS,
});

export const commonErrorByKey = statement({
  name: 'common_error_by_key',
  text: MOST(`
    (SELECT i.id, i.type, i.status, i.last_error, i.history FROM holdfast.inbox AS i
     ORDER BY i.id LIMIT $1::integer)`),
  columns: COLUMNS,
});

export type CommonError = Row<typeof COLUMNS>;

/** Null: none was found where it looked. */
export async function commonError(db: Executor, names: Names, keyed: boolean) {
  const found = keyed ? commonErrorByKey : commonErrorByTime;
  const [most] = await db.run(found, names, [ROWS, WITHIN_MS]);
  return most ?? null;
}

/** Of dead letters whose retry may end the next process: it forgets their crashes. */
export const MOST_POISON = 100;

export const listPoison = statement({
  name: 'list_poison',
  text: `
SELECT i.id
FROM holdfast.inbox AS i
WHERE i.crashes > 1 AND i.status = 'dead_letter' AND i.history -> -1 ->> 'outcome' = 'vanished'
ORDER BY i.id
LIMIT ${MOST_POISON}`,
  columns: { id: uuid },
});

export async function findPoison(db: Executor, names: Names): Promise<string[]> {
  return (await db.run(listPoison, names, [])).map(({ id }) => id);
}

const MOST_SUSPECTS = 3;

/** Those of jobs that are not over that have crashed their workers most often. */
export const listSuspects = statement({
  name: 'list_suspects',
  text: `
SELECT s.id, s.type, s.crashes
FROM (SELECT i.id, i.type, i.crashes FROM holdfast.inbox AS i WHERE i.crashes > 1 AND i.status <> 'dead_letter' LIMIT 1000) AS s
ORDER BY s.crashes DESC, s.id
LIMIT ${MOST_SUSPECTS}`,
  columns: { id: uuid, type: text, crashes: int4 },
});

export const findSuspects = (db: Executor, names: Names) => db.run(listSuspects, names, []);
