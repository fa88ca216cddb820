/**
 * A statement: one static SQL text and the columns that it returns. The row type is written once, as a value; a test asks
 * a real Postgres to describe every registered statement and compares. snake_case becomes camelCase here and nowhere
 * else. Values arrive as the text that Postgres sent and are parsed by the column, so a result means the same whichever
 * driver carried it. Arrays travel as array literals built by the helpers below.
 */
import { hash32 } from '../job/key.js';
import { loadText, type Names } from './names.js';

/** About so many rows are read or written by one statement of a loop, so that each is over in a moment. */
export const MAX_ROWS = 1_000;

export interface Column<T> {
  readonly pgType: string;
  readonly parse: (text: string) => T;
  readonly nullable: boolean;
  /** What NULL stands for. */
  readonly missing?: T | null;
}

export interface ColumnKind<T> extends Column<T> {
  readonly orNull: Column<T | null>;
  /** NULL stands for the usual value, which a statement that returns many rows need not send. */
  or(usual: T): Column<T>;
}

function column<T>(pgType: string, parse: (text: string) => T): ColumnKind<T> {
  const orNull = { pgType, parse, nullable: true, missing: null };
  return {
    ...orNull,
    nullable: false,
    orNull,
    or: (usual) => ({ ...orNull, missing: usual }),
  };
}

const asIs = (text: string) => text;

export const uuid = column('uuid', asIs);
export const text = column('text', asIs);
export const json = column('jsonb', asIs);
export const int2 = column('int2', Number);
export const int4 = column('int4', Number);
/** Counters and positions: exact up to 2^53, which a queue does not reach in a lifetime. */
export const int8 = column('int8', Number);
export const bool = column('bool', (value) => value === 't' || value === 'true');
/** Kept as Postgres wrote it: microseconds survive, and it can be sent back as a cursor. */
export const timestamp = column('timestamptz', asIs);
export const jobStatus = column('inbox_status', asIs);
/** Where a row version stands in its table. */
export const tid = column('tid', asIs);

export type Columns = Readonly<Record<string, Column<unknown>>>;

type Camel<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : S;

export type Row<C extends Columns> = {
  readonly [K in keyof C & string as Camel<K>]: C[K] extends Column<infer T> ? T : never;
};

export interface Statement<C extends Columns = Columns> {
  readonly name: string;
  readonly text: string;
  readonly columns: C;
}

export interface LoadedStatement<C extends Columns = Columns> {
  /** Unique for the text, so that it can name a prepared statement on a shared connection. */
  readonly preparedName: string;
  readonly text: string;
  readonly toRow: (values: readonly (string | null)[]) => Row<C>;
  readonly fromObject: (record: Readonly<Record<string, unknown>>) => Row<C>;
}

export type Param = string | number | boolean | null;

const registry = new Map<string, Statement>();

/** Every statement of the product, for the test that describes them against a real server. */
export function allStatements(): readonly Statement[] {
  return [...registry.values()];
}

export function statement<const C extends Columns>(definition: Statement<C>): Statement<C> {
  if (registry.has(definition.name)) throw new Error(`two statements are named ${definition.name}`);
  registry.set(definition.name, definition);
  return definition;
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

const loadedByStatement = new WeakMap<Statement, Map<string, LoadedStatement>>();

export function load<C extends Columns>(
  definition: Statement<C>,
  names: Names,
): LoadedStatement<C> {
  let byNames = loadedByStatement.get(definition);
  if (!byNames) {
    byNames = new Map();
    loadedByStatement.set(definition, byNames);
  }
  const key = `${names.schema}.${names.queue}`;
  let loaded = byNames.get(key);
  if (!loaded) {
    loaded = build(definition, loadText(definition.text, names));
    byNames.set(key, loaded);
  }
  return loaded as LoadedStatement<C>;
}

interface Entry {
  readonly camel: string;
  readonly parse: (text: string) => unknown;
  readonly missing?: unknown;
}

type RowMaker = (values: readonly (string | null)[]) => Record<string, unknown>;

/**
 * An object literal that is compiled for these columns is made several times as fast as a loop makes one,
 * and a worker makes one for every job. Where code may not be made from strings, the loop does it.
 */
export function rowMaker(entries: readonly Entry[]): RowMaker {
  const fields = entries.map(({ camel, parse }, index) => {
    const value = parse === asIs ? `v[${index}]` : `p[${index}](v[${index}])`;
    return `${JSON.stringify(camel)}: v[${index}] === null ? m[${index}] : ${value}`;
  });
  try {
    const make = new Function('p', 'm', `return (v) => ({${fields.join(', ')}})`);
    return make(
      entries.map(({ parse }) => parse),
      entries.map(({ missing }) => missing ?? null),
    );
  } catch (error) {
    if (!(error instanceof EvalError)) throw error;
    return (values) => {
      const made = entries.map(({ camel, parse, missing }, index) => {
        const value = values[index];
        return [camel, value == null ? (missing ?? null) : parse(value)];
      });
      return Object.fromEntries(made);
    };
  }
}

function build<C extends Columns>(definition: Statement<C>, sql: string): LoadedStatement<C> {
  const entries = Object.entries(definition.columns).map(([snake, { parse, missing }]) => ({
    ...{ snake, camel: camelCase(snake), parse, missing },
  }));
  const toRow = rowMaker(entries) as LoadedStatement<C>['toRow'];
  return {
    preparedName: `${definition.name}_${hash32(sql).toString(16)}`,
    text: sql,
    toRow,
    fromObject(record) {
      // Some libraries rename `two_words` to `twoWords`.
      const values = entries.map(({ snake, camel }) => record[snake] ?? record[camel]);
      return toRow(values.map((value) => (value == null ? null : String(value))));
    },
  };
}

/** An array literal of values that need no quoting: uuids, integers, ISO timestamps. */
export function plainArray(values: readonly (string | number)[]): string {
  return `{${values.join(',')}}`;
}

const ESCAPED = /[\\"]/;

/** An array literal of arbitrary text; null stands for SQL NULL. */
export function textArray(values: readonly (string | null)[]): string {
  let out = '';
  for (const value of values) {
    if (out !== '') out += ',';
    if (value === null) out += 'NULL';
    else if (ESCAPED.test(value)) {
      out += `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
    } else out += `"${value}"`;
  }
  return `{${out}}`;
}
