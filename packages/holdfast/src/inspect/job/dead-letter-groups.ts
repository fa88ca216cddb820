/**
 * Dead letters by what they have in common: their type and the first line of their error, and their key if that is
 * asked for. Numbers and ids in the error are left out, so that "no order 9182" and "no order 9183" are one group. At
 * most `scan` letters are read, the newest first, from their own index.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, type Row, statement, text, uuid } from '../../postgres/statement.js';
import { moment } from '../reading/columns.js';
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

export const groupDeadLetters = statement({
  name: 'group_dead_letters',
  text: `
SELECT l.type, l.error, min(l.key) AS key, count(DISTINCT l.key) AS keys, count(*) AS jobs,
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
    /** `#` stands for a number or an id. */
    error: text,
    /** The first of its partition keys. */
    key: text,
    keys: int8,
    jobs: int8,
    oldest: moment,
    newest: moment,
    /** The id of the oldest of those that were read. */
    first: uuid,
    /** The id of the newest. */
    example: uuid,
  },
});

export type DeadLetterGroupRow = Row<typeof groupDeadLetters.columns>;

/** The largest first. */
export function deadLetterGroups(
  db: Executor,
  names: Names,
  filter: JobFilter,
  byKey = false,
): Promise<DeadLetterGroupRow[]> {
  const params = [...filterParams(filter), SCAN_LETTERS, MAX_GROUPS, byKey];
  return db.run(groupDeadLetters, names, params);
}
