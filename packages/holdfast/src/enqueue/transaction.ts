/**
 * What is visibly no transaction is refused: a job that is enqueued or completed on it is written at once, on
 * some connection, and stays so when the caller rolls back. What cannot be seen is the caller's word.
 */
import { invalid, shown } from '../job/errors/holdfast-error.js';

type Known = Record<string, unknown>;

const has = (one: Known, name: string) => typeof one[name] === 'function';

export function refuseTransaction(what: string, fix: string): never {
  throw invalid(
    `${what}, so this would not commit with your transaction; nothing was written. ${fix}`,
  );
}

/** Libraries by what their objects have, where an adapter has to come between. */
const ADAPTERS: readonly [name: string, hint: string][] = [
  ['$queryRawUnsafe', 'fromPrisma(tx)'],
  ['unsafe', 'fromPostgresJs(sql)'],
  ['executeQuery', 'fromKysely(trx)'],
  ['getTransactionContext', 'fromMikroOrm(em)'],
  ['execute', 'fromDrizzle(tx, sql)'],
  ['raw', 'fromKnex(trx)'],
  ['prepareEnvironment', 'fromSequelize(transaction)'],
];

const LEAVE_OUT = 'Leave tx out for a transaction of its own.';
const PASS_CLIENT = `Pass the client on which you ran BEGIN. ${LEAVE_OUT}`;

/** Throws unless `tx` may be a transaction on which statements can be run. */
export function checkTx(tx: unknown): void {
  if ((typeof tx !== 'object' && typeof tx !== 'function') || tx === null) {
    const fix = `Pass your transaction. ${LEAVE_OUT}`;
    refuseTransaction(`tx was given and is ${shown(tx)}`, fix);
  }
  const one = tx as Known;
  if ('totalCount' in one) {
    refuseTransaction('tx is a pool, whose statements run on any connection', PASS_CLIENT);
  }
  checkOrm(one);
  if (!has(one, 'query')) {
    const adapter = ADAPTERS.find(([name]) => has(one, name))?.[1];
    const fix = adapter
      ? `Write tx: ${adapter}, from 'holdfast/adapters'.`
      : `Use one of 'holdfast/adapters'. ${LEAVE_OUT}`;
    refuseTransaction('tx has no query(text, params)', fix);
  }
  if (isIdleClient(one)) {
    refuseTransaction('tx is a client on which no transaction is open', PASS_CLIENT);
  }
}

/** Objects of ORMs that have a `query` of their own. */
function checkOrm(one: Known): void {
  if (has(one, 'createQueryRunner') || isTypeOrm(one)) transactionalRunner(one);
  if (has(one, 'getQueryInterface')) {
    refuseTransaction('tx is Sequelize itself', 'Write tx: fromSequelize(transaction).');
  }
  if (has(one, 'oneFirst')) {
    refuseTransaction('tx is of Slonik', 'Write tx: fromSlonik(transaction).');
  }
}

const isTypeOrm = (one: Known) =>
  'isTransactionActive' in one || one['@instanceof'] === Symbol.for('EntityManager');

export interface QueryRunnerLike {
  readonly isTransactionActive: boolean;
}

/** TypeORM: the query runner of a manager, or itself, if its transaction is open. */
export function transactionalRunner(one: object): QueryRunnerLike {
  const known = (typeof one === 'object' && one !== null ? one : {}) as Known;
  const runner = 'isTransactionActive' in known ? known : known.queryRunner;
  if ((runner as QueryRunnerLike | undefined)?.isTransactionActive)
    return runner as QueryRunnerLike;
  refuseTransaction(
    'This DataSource, manager or query runner of TypeORM has no open transaction',
    'Pass the manager of dataSource.transaction(async (manager) => …).',
  );
}

/**
 * A client of `pg` knows since the last answer whether a transaction is open. While statements are under way,
 * one of them may be BEGIN.
 */
function isIdleClient(one: Known): boolean {
  if (!has(one, 'getTransactionStatus')) return false;
  const { _activeQuery, _queryQueue, _sentQueryQueue } = one as Record<string, unknown[] | null>;
  const busy = _activeQuery || _queryQueue?.length || _sentQueryQueue?.length;
  return !busy && (one.getTransactionStatus as () => unknown)() === 'I';
}
