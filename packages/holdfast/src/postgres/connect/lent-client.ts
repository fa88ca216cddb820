/**
 * A client that is lent to a function of the user, on which a transaction of ours is open. It cannot end that transaction or
 * begin another, give the client back, or send anything once the function has ended: all of that would be written outside of
 * the transaction, or by somebody else's.
 */
import type pg from 'pg';
import { HoldfastError } from '../../job/errors/errors.js';

const BLANK = /^(?:\s|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*/;
/** `ROLLBACK TO` a savepoint stays inside. */
const BOUNDARY =
  /^(BEGIN|START\s+TRANSACTION|COMMIT|END|ABORT|PREPARE\s+TRANSACTION|ROLLBACK(?!\s+(?:(?:WORK|TRANSACTION)\s+)?TO\b))\b/i;

/** By what was lent, the client behind it. */
const behind = new WeakMap<object, object>();

export const clientBehind = (tx: object): object => behind.get(tx) ?? tx;

const textOf = (query: unknown): string => {
  const text = typeof query === 'string' ? query : (query as { text?: unknown } | null)?.text;
  return typeof text === 'string' ? text : '';
};

export interface Lent {
  readonly tx: pg.PoolClient;
  /** From now on it sends nothing. */
  end(): void;
}

/** `what`: of errors, such as `the transaction of job 9182`. */
export function lend(client: pg.PoolClient, what: string): Lent {
  const send = client.query.bind(client) as (...given: unknown[]) => unknown;
  let isOver = false;
  const refused = (query: unknown): HoldfastError | null => {
    if (isOver)
      return refusal(
        `${capital(what)} is over, so a query on its tx was refused. Wait for every query inside of it.`,
      );
    const [word] = BOUNDARY.exec(textOf(query).replace(BLANK, '')) ?? [];
    if (word === undefined) return null;
    return refusal(
      `${word.toUpperCase()} was refused in ${what}: Holdfast begins it and ends it. Throw to roll it back; for a part of it use SAVEPOINT and ROLLBACK TO SAVEPOINT.`,
    );
  };
  const query = (...given: unknown[]) => {
    const error = refused(given[0]);
    if (!error) return send(...given);
    const callback = given.at(-1);
    if (typeof callback !== 'function') return Promise.reject(error);
    process.nextTick(callback as (error: Error) => void, error);
    return undefined;
  };
  const release = () => {
    throw refusal(
      `release() was refused in ${what}: its connection goes back to the pool by itself.`,
    );
  };
  const tx = new Proxy(client, {
    get(target, name) {
      if (name === 'query') return query;
      if (name === 'release') return release;
      const value = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  behind.set(tx, client);
  return {
    tx,
    end: () => {
      isOver = true;
    },
  };
}

const capital = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
const refusal = (text: string) => new HoldfastError('JOB_STATE', text);
