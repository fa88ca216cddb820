/**
 * Queryable: the smallest thing that can run SQL, and the two ways a statement is run on one.
 *
 * `Queryable` is what a caller hands us: their client, inside their transaction, whichever driver or ORM
 * it comes from. `Executor` is what statements are run on; `executor()` makes one from a Queryable, and
 * `engineExecutor()` makes one from a `pg` client of our own, where rows stay raw text and statements
 * are prepared by name. Postgres' own errors pass through untouched.
 */
import type pg from 'pg';
import type { Names } from './names.js';
import { type Columns, load, type Param, type Row, type Statement } from './statement.js';

export interface Queryable {
  query(
    text: string,
    params?: unknown[],
  ): Promise<{ rows: Record<string, unknown>[] } | Record<string, unknown>[]>;
}

export interface Executor {
  run<C extends Columns>(
    statement: Statement<C>,
    names: Names,
    params: readonly Param[],
  ): Promise<Row<C>[]>;
}

/** Statements on a caller's client. Only statements whose columns are text or uuid belong here. */
export function executor(queryable: Queryable): Executor {
  return {
    async run(statement, names, params) {
      const loaded = load(statement, names);
      const result = await queryable.query(loaded.text, [...params]);
      const records = Array.isArray(result) ? result : result.rows;
      return records.map((record) => loaded.fromObject(record));
    },
  };
}

interface RawQuery {
  query(config: pg.QueryArrayConfig): Promise<pg.QueryArrayResult<(string | null)[]>>;
}

const RAW_TYPES = { getTypeParser: () => (value: string) => value };

/** Statements on a `pg` pool or client of our own: raw rows, prepared by name unless told otherwise. */
export function engineExecutor(client: RawQuery, options: { prepare: boolean }): Executor {
  return {
    async run(statement, names, params) {
      const loaded = load(statement, names);
      const config: pg.QueryArrayConfig = {
        text: loaded.text,
        values: params as Param[],
        rowMode: 'array',
        types: RAW_TYPES as unknown as pg.CustomTypesConfig,
      };
      if (options.prepare) config.name = loaded.preparedName;
      const result = await client.query(config);
      return result.rows.map(loaded.toRow);
    },
  };
}
