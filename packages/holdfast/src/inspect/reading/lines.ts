/**
 * Reading a queue that is read by time without reading all of it. Its jobs stand in lines, oldest first: one for each type,
 * version and priority, and for jobs whose rate has keys one for each type, key and priority. They are found by stepping
 * from one to the next in the index, at the same cost at any backlog. A statement begins `WITH RECURSIVE ${LINES}`.
 */

/** No more lines than this are looked at: of the types, and again of the keys. */
export const MAX_LINES = 1_000;

/** As the index has it: the jobs of one type and version. */
export const lineOf = (of: string) => `hashtextextended(${of}.type, ${of}.version)`;

const TYPE_LINE = (after: string) => `
    SELECT ${lineOf('i')} AS line, i.type COLLATE "C" AS type, i.version, i.priority FROM holdfast.inbox AS i
    WHERE i.crashes < 2 AND i.limit_key IS NULL ${after}
    ORDER BY ${lineOf('i')}, i.priority LIMIT 1`;

const KEY_LINE = (after: string) => `
    SELECT i.type COLLATE "C" AS type, i.limit_key COLLATE "C" AS key, i.priority FROM holdfast.inbox AS i
    WHERE i.crashes < 2 AND i.limit_key IS NOT NULL ${after}
    ORDER BY i.type COLLATE "C", i.limit_key COLLATE "C", i.priority LIMIT 1`;

/** `lines` and `key_lines`, each with how many there are. A line of a key has jobs of any version and says 0. */
export const LINES = `walk AS (
  SELECT n.*, 1 AS nth FROM (${TYPE_LINE('')}) AS n
  UNION ALL
  SELECT n.*, w.nth + 1 FROM walk AS w CROSS JOIN LATERAL (${TYPE_LINE(`
      AND (${lineOf('i')}, i.priority) > (w.line, w.priority)`)}
  ) AS n
  WHERE w.nth < ${MAX_LINES}
), key_walk AS (
  SELECT n.*, 1 AS nth FROM (${KEY_LINE('')}) AS n
  UNION ALL
  SELECT n.*, w.nth + 1 FROM key_walk AS w CROSS JOIN LATERAL (${KEY_LINE(`
      AND (i.type COLLATE "C", i.limit_key COLLATE "C", i.priority) > (w.type, w.key, w.priority)`)}
  ) AS n
  WHERE w.nth < ${MAX_LINES}
), lines AS MATERIALIZED (
  SELECT w.line, w.type, w.version, w.priority, count(*) OVER () AS lines FROM walk AS w
), key_lines AS MATERIALIZED (
  SELECT w.type, 0 AS version, w.key, w.priority, count(*) OVER () AS lines FROM key_walk AS w
)`;

export interface LineRows {
  /** Of the row, `i`. */
  readonly columns: string;
  /** Which lines `l` are read at all. */
  readonly which?: string;
  /** A condition on the row that the order of the line serves. */
  readonly when: string;
  /** One that it does not serve: every row that fails it is read and passed over. */
  readonly but?: string;
  readonly order?: 'ASC' | 'DESC';
  /** At most so many rows of a line `l`. */
  readonly most: string;
}

/** Rows of each line, in its order. */
export function inLines(rows: LineRows): string {
  const { columns, which = 'true', when, but = 'true', order = 'ASC', most } = rows;
  const part = (lines: string, line: string) => `
    SELECT r.* FROM ${lines} AS l CROSS JOIN LATERAL (
      SELECT ${columns} FROM holdfast.inbox AS i
      WHERE ${line} AND i.priority = l.priority AND i.crashes < 2
        AND ${when} AND ${but}
      ORDER BY i.available_at ${order}, i.position ${order} LIMIT ${most}
    ) AS r
    WHERE ${which}`;
  return `${part('lines', `${lineOf('i')} = l.line AND i.limit_key IS NULL`)}
    UNION ALL ${part('key_lines', 'i.type COLLATE "C" = l.type AND i.limit_key COLLATE "C" = l.key AND i.limit_key IS NOT NULL')}`;
}

/** A part of `rows` for each line, so that many lines do not cost more than few. */
export const share = (rows: string | number) => `greatest(20, ${rows} / l.lines)`;
