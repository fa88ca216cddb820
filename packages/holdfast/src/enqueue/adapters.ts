/**
 * Adapters: enqueue inside the transaction of whatever library the caller uses. Each takes the library's transaction and
 * returns a `Queryable` for the `tx` option.
 *
 * Nothing is imported from those libraries. The types name what is called, and one thing more that only a transaction has:
 * a pool in its place, which would enqueue outside the transaction, does not compile, and is refused where nobody compiles.
 * Our statements use `$1`-style parameters, each of them text.
 */
import { invalid, shown } from '../job/errors/holdfast-error.js';
import type { Queryable, Transaction } from '../postgres/queryable.js';
import {
  checkTx,
  type QueryRunnerLike,
  refuseTransaction,
  transactionalRunner,
} from './transaction.js';

type Records = Record<string, unknown>[];

/** Throws unless it has one of these, which only a transaction has. */
function mustHave(what: string, given: object, members: readonly string[], fix: string): void {
  const known = given as Record<string, unknown> | null | undefined;
  if (members.some((name) => known?.[name] != null && known[name] !== false)) return;
  refuseTransaction(`${what} is no transaction`, fix);
}

/** Splits `… $2 … $1 …` into the text between the parameters and the values in their order. */
function spread(text: string, params: readonly unknown[]) {
  const parts: string[] = [];
  const values: unknown[] = [];
  let from = 0;
  for (const match of text.matchAll(/\$(\d+)/g)) {
    parts.push(text.slice(from, match.index));
    values.push(params[Number(match[1]) - 1]);
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return { parts, values };
}

/** The same for libraries that write `?`, and mean a question mark by `\?`. */
function withQuestionMarks(text: string, params: readonly unknown[]) {
  const { parts, values } = spread(text, params);
  const sql = parts.map((part) => part.replaceAll('?', '\\?')).join('?');
  return { sql, values: values as never[] };
}

/**
 * pg: a client on which you ran BEGIN. You may pass the client itself as `tx`.
 * @example await hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: fromPg(client) });
 */
export function fromPg(client: Transaction): Queryable {
  checkTx(client);
  return client;
}

/**
 * postgres.js: the `sql` of `sql.begin(async (sql) => …)`, or a reserved one on which you ran BEGIN.
 * @example await sql.begin((tx) => hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: fromPostgresJs(tx) }));
 */
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

/**
 * Kysely: the `trx` of `db.transaction().execute(async (trx) => …)`.
 * @example
 * await kysely.transaction().execute(async (trx) => {
 *   await hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: fromKysely(trx) });
 * });
 */
export function fromKysely(trx: {
  readonly isTransaction: true;
  executeQuery(query: never, ...rest: never[]): Promise<{ rows: unknown[] }>;
}): Queryable {
  const fix = 'Pass the trx of db.transaction().execute(async (trx) => …).';
  mustHave('What fromKysely() got', trx, ['isTransaction'], fix);
  return {
    async query(text, params = []) {
      const query = { kind: 'RawNode', sqlFragments: [text], parameters: [] };
      const compiled = { sql: text, parameters: params, query, queryId: { queryId: 'holdfast' } };
      const result = await trx.executeQuery(compiled as never);
      return { rows: result.rows as Records };
    },
  };
}

/**
 * Knex: the `trx` of `knex.transaction(async (trx) => …)`.
 * @example await knex.transaction((trx) => hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: fromKnex(trx) }));
 */
export function fromKnex(trx: {
  isCompleted(): boolean;
  raw(sql: string, bindings: never[]): PromiseLike<unknown>;
}): Queryable {
  const fix = 'Pass the trx of knex.transaction(async (trx) => …).';
  mustHave('What fromKnex() got', trx, ['isCompleted'], fix);
  return {
    async query(text, params = []) {
      const { sql, values } = withQuestionMarks(text, params);
      return (await trx.raw(sql, values)) as { rows: Records };
    },
  };
}

/**
 * Drizzle: the `tx` of `db.transaction(async (tx) => …)` and the `sql` tag of drizzle-orm.
 * @example
 * import { sql } from 'drizzle-orm';
 * await drizzle.transaction((tx) => hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: fromDrizzle(tx, sql) }));
 */
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

/**
 * Prisma: the `tx` of `prisma.$transaction(async (tx) => …)`.
 * @example await prisma.$transaction((tx) => hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: fromPrisma(tx) }));
 */
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

interface TypeOrmRunner extends QueryRunnerLike {
  query(text: string, params: unknown[], structured: true): Promise<{ records?: unknown }>;
}

/**
 * TypeORM: the `manager` of `dataSource.transaction(async (manager) => …)`, or a query runner with one open.
 * @example await typeorm.transaction((manager) => hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: fromTypeOrm(manager) }));
 */
export function fromTypeOrm(
  manager: { readonly createQueryRunner?: never } & (
    | { readonly queryRunner?: QueryRunnerLike | undefined; readonly connection: object }
    | QueryRunnerLike
  ),
): Queryable {
  const runner = transactionalRunner(manager) as TypeOrmRunner;
  return {
    async query(text, params = []) {
      const { records } = await runner.query(text, params, true);
      return (records ?? []) as Records;
    },
  };
}

/**
 * Sequelize: the `t` of `sequelize.transaction(async (t) => …)`.
 * @example await sequelize.transaction((t) => hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: fromSequelize(t) }));
 */
export function fromSequelize(transaction: {
  commit(): PromiseLike<unknown>;
  rollback(): PromiseLike<unknown>;
}): Queryable {
  const { sequelize, finished } = (transaction ?? {}) as {
    sequelize?: { query(text: string, options: object): PromiseLike<unknown> };
    finished?: unknown;
  };
  if (!sequelize || finished) {
    const fix = 'Pass the t of sequelize.transaction(async (t) => …).';
    refuseTransaction('What fromSequelize() got is no open transaction', fix);
  }
  return {
    async query(text, params = []) {
      const options = { bind: params, transaction, type: 'SELECT', raw: true, logging: false };
      return [...((await sequelize.query(text, options)) as Records)];
    },
  };
}

/**
 * MikroORM: the `em` of `em.transactional(async (em) => …)`.
 * @example await mikro.transactional((em) => hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: fromMikroOrm(em) }));
 */
export function fromMikroOrm(em: {
  isInTransaction(): boolean;
  execute(query: string, params: never[], method: 'all'): PromiseLike<unknown>;
}): Queryable {
  if (typeof em?.isInTransaction !== 'function' || !em.isInTransaction()) {
    const fix = 'Pass the em of em.transactional(async (em) => …).';
    refuseTransaction('What fromMikroOrm() got has no open transaction', fix);
  }
  return {
    async query(text, params = []) {
      const { sql, values } = withQuestionMarks(text, params);
      return [...((await em.execute(sql, values, 'all')) as Records)];
    },
  };
}

/**
 * Slonik: the `connection` of `pool.transaction(async (connection) => …)`.
 * @example await slonik.transaction((tx) => hf.enqueue(sendReceipt, { orderId: 9182 }, { tx: fromSlonik(tx) }));
 */
export function fromSlonik(connection: {
  readonly end?: never;
  query(query: never): PromiseLike<{ readonly rows: readonly unknown[] }>;
}): Queryable {
  if (typeof connection?.query !== 'function' || connection.end !== undefined) {
    const fix = 'Pass the connection of pool.transaction(async (connection) => …).';
    const what = connection?.end === undefined ? 'no transaction' : 'a pool';
    refuseTransaction(`What fromSlonik() got is ${what}`, fix);
  }
  return {
    async query(text, params = []) {
      const query = { type: 'SLONIK_TOKEN_QUERY', sql: text, values: params };
      return [...((await connection.query(query as never)).rows as Records)];
    },
  };
}
