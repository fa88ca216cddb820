/**
 * Adapters: enqueue inside the transaction of whatever library the caller uses.
 *
 * Each takes the library's transaction object and returns a `Queryable` for the `tx` option. Nothing is
 * imported from those libraries; the types name what is called, and one thing more that only a
 * transaction has. So the pool in its place, which would enqueue outside the transaction, does not
 * compile, and where nobody compiles it is refused. A `pg` client needs no adapter; `fromPg` only refuses what is
 * none. Our statements use `$1`-style parameters, each of them text.
 */
import { invalid, shown } from '../job/errors/holdfast-error.js';
import type { Queryable, Transaction } from '../postgres/queryable.js';
import { spread } from './spread.js';
import { checkTx, refuseTransaction } from './transaction.js';

export { fromMikroOrm, fromSequelize, fromSlonik, fromTypeOrm } from './adapters-orm.js';

type Records = Record<string, unknown>[];

/** Throws unless it has one of these, which only a transaction has. */
function mustHave(what: string, given: object, members: readonly string[], fix: string): void {
  const known = given as Record<string, unknown> | null | undefined;
  if (members.some((name) => known?.[name] != null && known[name] !== false)) return;
  refuseTransaction(`${what} is no transaction`, fix);
}

/** pg: a client on which BEGIN was run. */
export function fromPg(client: Transaction): Queryable {
  checkTx(client);
  return client;
}

/** postgres.js: the `sql` of `sql.begin(async (sql) => …)`, or a reserved one on which BEGIN was run. */
export function fromPostgresJs(
  sql: { unsafe(text: string, params?: never[]): PromiseLike<unknown> } & (
    | { savepoint: unknown }
    | { release: unknown }
  ),
): Queryable {
  const fix =
    'Pass the sql of sql.begin(async (sql) => …), or a reserved one on which you ran BEGIN.';
  mustHave('What fromPostgresJs() got', sql, ['savepoint', 'release'], fix);
  return {
    async query(text, params = []) {
      const rows = await sql.unsafe(text, params as never[]);
      return [...(rows as Records)];
    },
  };
}

interface CompiledQueryLike {
  readonly sql: string;
  readonly parameters: readonly unknown[];
  readonly query: {
    readonly kind: 'RawNode';
    readonly sqlFragments: readonly string[];
    readonly parameters: readonly never[];
  };
  readonly queryId: { readonly queryId: string };
}

/** Kysely: the `trx` of `db.transaction().execute(async (trx) => …)`. */
export function fromKysely(trx: {
  readonly isTransaction: true;
  executeQuery(query: never, ...rest: never[]): Promise<{ rows: unknown[] }>;
}): Queryable {
  const fix = 'Pass the trx of db.transaction().execute(async (trx) => …).';
  mustHave('What fromKysely() got', trx, ['isTransaction'], fix);
  return {
    async query(text, params = []) {
      const compiled: CompiledQueryLike = {
        sql: text,
        parameters: params,
        query: { kind: 'RawNode', sqlFragments: [text], parameters: [] },
        queryId: { queryId: 'holdfast' },
      };
      const result = await trx.executeQuery(compiled as never);
      return { rows: result.rows as Records };
    },
  };
}

/** Knex: the `trx` of `knex.transaction(async (trx) => …)`. */
export function fromKnex(trx: {
  isCompleted(): boolean;
  raw(sql: string, bindings: never[]): PromiseLike<unknown>;
}): Queryable {
  const fix = 'Pass the trx of knex.transaction(async (trx) => …).';
  mustHave('What fromKnex() got', trx, ['isCompleted'], fix);
  return {
    async query(text, params = []) {
      const { parts, values } = spread(text, params);
      const sql = parts.map((part) => part.replaceAll('?', '\\?')).join('?');
      return (await trx.raw(sql, values as never[])) as { rows: Records };
    },
  };
}

/** Drizzle: the `tx` of `db.transaction(async (tx) => …)` and the `sql` tag of drizzle-orm. */
export function fromDrizzle(
  tx: { rollback(): never; execute(query: never): PromiseLike<unknown> },
  sql: (strings: TemplateStringsArray, ...values: never[]) => unknown,
): Queryable {
  const fix = 'Pass the tx of db.transaction(async (tx) => …).';
  mustHave('What fromDrizzle() got', tx, ['rollback'], fix);
  if (typeof sql !== 'function') {
    throw invalid(
      `The second argument of fromDrizzle() is ${shown(sql)}; nothing was written. ` +
        "Pass the tag: import { sql } from 'drizzle-orm'.",
    );
  }
  return {
    async query(text, params = []) {
      const { parts, values } = spread(text, params);
      const strings = Object.assign([...parts], { raw: parts }) as unknown as TemplateStringsArray;
      const result = await tx.execute(sql(strings, ...(values as never[])) as never);
      return Array.isArray(result) ? [...(result as Records)] : (result as { rows: Records });
    },
  };
}

/** Prisma: the `tx` of `prisma.$transaction(async (tx) => …)`. */
export function fromPrisma(tx: {
  $connect?: never;
  $queryRawUnsafe(text: string, ...params: never[]): PromiseLike<unknown>;
}): Queryable {
  if (typeof tx?.$queryRawUnsafe !== 'function' || tx.$connect !== undefined) {
    const fix = 'Pass the tx of prisma.$transaction(async (tx) => …).';
    refuseTransaction('What fromPrisma() got is no transaction', fix);
  }
  return {
    async query(text, params = []) {
      return [...((await tx.$queryRawUnsafe(text, ...(params as never[]))) as Records)];
    },
  };
}
