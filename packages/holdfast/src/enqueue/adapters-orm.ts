/** Adapters for TypeORM, Sequelize, MikroORM and Slonik; see adapters.ts for what all of them keep to. */
import type { Queryable } from '../postgres/queryable.js';
import { spread } from './spread.js';
import { type QueryRunnerLike, refuseTransaction, transactionalRunner } from './transaction.js';

type Records = Record<string, unknown>[];

interface TypeOrmRunner extends QueryRunnerLike {
  query(text: string, params: unknown[], structured: true): Promise<{ records?: unknown }>;
}

/** TypeORM: the `manager` of `dataSource.transaction(async (manager) => …)`, or a query runner with one open. */
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

/** Sequelize: the `t` of `sequelize.transaction(async (t) => …)`. */
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

/** MikroORM: the `em` of `em.transactional(async (em) => …)`. */
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
      const { parts, values } = spread(text, params);
      const sql = parts.map((part) => part.replaceAll('?', '\\?')).join('?');
      return [...((await em.execute(sql, values as never[], 'all')) as Records)];
    },
  };
}

/** Slonik: the `connection` of `pool.transaction(async (connection) => …)`. */
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
