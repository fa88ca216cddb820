/**
 * Queryable: the smallest thing that can run SQL, and the ways a statement is run on one. `Queryable` is what a caller
 * hands us: their client, inside their transaction, whichever driver or ORM it comes from. `Executor` is what statements
 * are run on. Postgres' own errors pass through untouched.
 */
import type pg from 'pg';
import { type PooledQueries, queryPooled } from './connect/pooled.js';
import type { Names } from './names.js';
import { type Columns, load, type Param, type Row, type Statement } from './statement.js';

/** Your database client: anything that runs SQL with `$1` parameters, or an adapter. */
export interface Queryable {
  /** Runs one statement and returns its rows. */
  query(
    text: string,
    params?: unknown[],
  ): Promise<{ rows: Record<string, unknown>[] } | Record<string, unknown>[]>;
}

/** A caller's open transaction. A pool has a `totalCount`, and the compiler shows this sentence. */
export type Transaction = Queryable & {
  readonly totalCount?: 'A pool is no transaction: pass the client on which you ran BEGIN.';
};

export interface Executor {
  run<C extends Columns>(
    statement: Statement<C>,
    names: Names,
    params: readonly Param[],
  ): Promise<Row<C>[]>;
}

/**
 * Statements on a caller's client. Only those belong here whose parameters are text, whose columns are text, uuid, int4 or
 * bool. Some libraries rename `two_words` to `twoWords`: both are read.
 */
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

export interface EngineMode {
  /** Prepare statements by name; never done behind a pooler. */
  readonly prepare: boolean;
  /** The engine's settings go with every statement, because the session cannot keep them. */
  readonly pooled?: boolean;
}

/**
 * Statements on a `pg` pool or client of our own: rows stay raw text. They are prepared by name unless told otherwise;
 * behind a pooler they bring their settings along.
 */
export function engineExecutor(client: RawQuery, { prepare, pooled }: EngineMode): Executor {
  return {
    async run(statement, names, params) {
      const { text, preparedName, toRow } = load(statement, names);
      if (pooled)
        return (await queryPooled(client as unknown as PooledQueries, text, params)).map(toRow);
      const config: pg.QueryArrayConfig = {
        ...{ text, values: params as Param[], rowMode: 'array' },
        types: RAW_TYPES as unknown as pg.CustomTypesConfig,
      };
      if (prepare) config.name = preparedName;
      return (await client.query(config)).rows.map(toRow);
    },
  };
}

/** Statements that want the planner's free choice: the same way, without the engine's settings. */
export function plainExecutor(client: RawQuery, mode: EngineMode): Executor {
  return engineExecutor(client, { prepare: mode.prepare && !mode.pooled });
}
