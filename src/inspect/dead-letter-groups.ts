/**
 * Dead letters by what they have in common: their type and the first line of their error. Numbers and ids in it are
 * left out, so that "no order 9182" and "no order 9183" are one group. At most `scan` letters are read, the newest
 * first, from their own index.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int8, type Row, statement, text, uuid } from '../postgres/statement.js';
import { moment } from './columns.js';
import { filterParams, filterText, type JobFilter } from './filter.js';

export const SCAN_LETTERS = 50_000;
export const MAX_GROUPS = 100;

/** The first line of the last error, without its numbers and ids. */
export const foldedError = (alias: string) => `regexp_replace(
    left(split_part(coalesce(${alias}.last_error, ''), E'\\n', 1), 300),
    '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9]+', '#', 'g')`;

export const groupDeadLetters = statement({
  name: 'group_dead_letters',
  text: `
SELECT l.type, l.error, count(*) AS jobs, min(l.created_at) AS oldest, max(l.created_at) AS newest,
  max(l.id::text)::uuid AS example
FROM (
  SELECT j.id, j.type, j.created_at, ${foldedError('j')} AS error
  FROM (
    SELECT i.* FROM holdfast.inbox AS i
    WHERE i.available_at = 'infinity' ORDER BY i.id DESC LIMIT $7::integer
  ) AS j
  WHERE j.status = 'dead_letter' AND ${filterText('j', 'created_at')}
) AS l
GROUP BY l.type, l.error
ORDER BY count(*) DESC, l.type, l.error
LIMIT $8::integer`,
  columns: {
    type: text,
    /** `#` stands for a number or an id. */
    error: text,
    jobs: int8,
    oldest: moment,
    newest: moment,
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
): Promise<DeadLetterGroupRow[]> {
  return db.run(groupDeadLetters, names, [...filterParams(filter), SCAN_LETTERS, MAX_GROUPS]);
}
