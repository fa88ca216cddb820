/**
 * Why Postgres did not run a statement: because of the rows in it, or because of the database. In the second case
 * another statement of the same kind fares no better, whatever its rows are, and the fix is an operator's.
 */

/**
 * Classes of SQLSTATE that speak of the database: features, roles and rights, a database that is read-only or full,
 * catalogues, names of tables and columns, objects in the wrong state, the disk, the configuration, internal errors. A
 * trigger that raises an exception, a constraint and a value out of range speak of a row, and so does corrupt data
 * (XX001, XX002).
 */
const OF_THE_DATABASE = /^(0A|0L|0P|25006|26|28|3D|3F|42|53|55|58|F0|XX000)/;

const codeOf = (error: unknown) => (error as { code?: unknown } | null)?.code;

/** A right is missing, a table is gone, …: the database refuses this to everybody who asks it in this way. */
export function isRefusedToAll(error: unknown): boolean {
  const code = codeOf(error);
  return typeof code === 'string' && code.length === 5 && OF_THE_DATABASE.test(code);
}

/** A whole table was locked. A wait for one row says in which row it was; a wait for a table says nothing. */
export function isTableLocked(error: unknown): boolean {
  return codeOf(error) === '55P03' && !(error as { where?: unknown }).where;
}
