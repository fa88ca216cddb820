/**
 * Statements on a pool whose sessions are not ours to set: each waits for a lock for a bounded time. The limit
 * goes with the statement, in the same round trip and in the same transaction, and ends with it. A limit of the role or
 * of the session that is shorter stays in force.
 */
import type pg from 'pg';
import { type EngineMode, type Executor, engineExecutor } from '../queryable.js';
import { load } from '../statement.js';
import { withClient } from './pool.js';
import { PooledCall, type PooledQueries, rowsOf, texts } from './pooled.js';

/** How long an enqueue waits for a lock. It may stand behind the transaction that has taken its idempotency key. */
export const LOCK_WAIT_MS = 5_000;

const LIMIT = `SELECT set_config('lock_timeout', '${LOCK_WAIT_MS}', true)
WHERE current_setting('lock_timeout')::interval NOT BETWEEN '1 ms' AND '${LOCK_WAIT_MS} ms'`;
const LIMIT_NAME = 'holdfast_lock_limit';

/** The same for a transaction of several statements. */
export const BEGIN_BOUNDED = `BEGIN ISOLATION LEVEL READ COMMITTED; ${LIMIT}`;

/** The names under which a connection has prepared statements. `pg` counts its own and knows nothing of these. */
const prepared = new WeakMap<object, Set<string>>();

interface Preparing {
  parse(query: { name: string; text: string; types: string[] }, more: boolean): void;
  bind(config: { statement?: string; values?: string[] }, more: boolean): void;
  close(what: { type: 'S'; name: string }, more: boolean): void;
}

class BoundedCall extends PooledCall {
  readonly #name: string;
  #connection: object | null = null;

  /** `name`: empty where nothing may be prepared. */
  constructor(name: string, text: string, values: readonly (string | null)[]) {
    super(text, values);
    this.#name = name;
  }

  override submit(connection: pg.Connection): void {
    this.#connection = connection;
    connection.stream.cork();
    const limit = this.#name === '' ? '' : LIMIT_NAME;
    this.#prepare(connection, limit, LIMIT);
    (connection as unknown as Preparing).bind({ statement: limit }, true);
    connection.execute({}, true);
    this.#prepare(connection, this.#name, this.text);
    const bound = { statement: this.#name, values: this.values as string[] };
    (connection as unknown as Preparing).bind(bound, true);
    connection.describe({ type: 'P', name: '' }, true);
    connection.execute({}, true);
    connection.sync();
    connection.stream.uncork();
  }

  /** After an error it is not known which of them are there: so a name is closed before it is given again. */
  #prepare(connection: pg.Connection, name: string, text: string): void {
    const known = prepared.get(connection);
    if (name !== '' && known?.has(name)) return;
    const preparing = connection as unknown as Preparing;
    if (name !== '') preparing.close({ type: 'S', name }, true);
    preparing.parse({ name, text, types: [] }, true);
    if (name !== '') prepared.set(connection, (known ?? new Set()).add(name));
  }

  override handleError(error: Error): void {
    if (this.#connection) prepared.delete(this.#connection);
    super.handleError(error);
  }
}

/** Whether its clients are those of `pg` in JavaScript, to which messages can be handed. */
function takesMessages(pool: pg.Pool): boolean {
  const { Client } = pool as unknown as { Client?: { Query?: { prototype: object } } };
  return 'handleRowDescription' in (Client?.Query?.prototype ?? {});
}

/** Like `engineExecutor`, with the limit; on a pool of another kind, such as `pg-native`, without. */
export function boundedExecutor(pool: pg.Pool, mode: Pick<EngineMode, 'prepare'>): Executor {
  if (!takesMessages(pool)) return engineExecutor(pool, mode);
  const { prepare } = mode;
  return {
    async run(statement, names, params) {
      const { preparedName, text, toRow } = load(statement, names);
      const name = prepare ? `${preparedName}_bounded` : '';
      const call = new BoundedCall(name, text, texts(params));
      const rows = await withClient(pool, (client) => rowsOf(client as PooledQueries, call));
      return rows.map(toRow);
    },
  };
}
