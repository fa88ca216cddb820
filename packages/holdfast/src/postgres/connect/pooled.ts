/**
 * Behind a pooler such as PgBouncer in transaction mode: how it is noticed, and how the engine's statements run. Each may
 * meet another server connection, so start-up options, named statements, session locks and LISTEN are out. `queryPooled`
 * sends the engine's settings and the statement together with a single Sync: one round trip, and by the protocol's rules
 * one transaction. Several such calls may wait on one client; each is whole in itself.
 */
import type pg from 'pg';
import { ENGINE_SETTINGS } from '../settings.js';
import { OWN_LOCK_MS, withClient } from './pool.js';

/** What a transaction of the engine starts with: its settings, in the transaction only. */
const { default_transaction_isolation: ISOLATION, ...LOCAL } = ENGINE_SETTINGS;

/** Must come first: the level of a transaction cannot be changed after its first query. */
const SET_ISOLATION = `SET transaction_isolation TO '${ISOLATION}'`;

// SET LOCAL would do the same and warn that no BEGIN was seen, once per call, into the server's log.
const SET_LOCAL = `SELECT ${Object.entries(LOCAL)
  .map(([name, value]) => `set_config('${name}', '${value}', true)`)
  .join(', ')}`;

/** Opens a transaction for several statements of the engine, as one text for one round trip. */
export const BEGIN_POOLED = `BEGIN; ${SET_ISOLATION}; ${SET_LOCAL}`;

/** Opens a transaction of the worker's own beside the queue table, which the role's limit must not cut short. */
export const BEGIN_UNLIMITED =
  'BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; ' +
  `SET LOCAL lock_timeout = ${OWN_LOCK_MS}`;

export type RawRow = (string | null)[];
type Done = (error: Error | null | undefined, rows?: RawRow[]) => void;

/** A `pg` pool, or a client. With a pool the client goes back when the answer is there. */
export interface PooledQueries {
  query(query: pg.Submittable, values: undefined, done: Done): unknown;
}

/** One call as `pg` runs it, in one round trip: it writes the messages, and its methods are called with the answers one by one. */
export class PooledCall implements pg.Submittable {
  /** Set by `pg`: it also ends the call when it takes too long. */
  callback: Done | undefined;
  protected readonly text: string;
  protected readonly values: readonly (string | null)[];
  #rows: RawRow[] | null = null;

  constructor(text: string, values: readonly (string | null)[]) {
    this.text = text;
    this.values = values;
  }

  submit(connection: pg.Connection): void {
    connection.stream.cork();
    for (const text of [SET_ISOLATION, SET_LOCAL]) {
      connection.parse({ name: '', text, types: [] }, true);
      connection.bind({}, true);
      connection.execute({}, true);
    }
    connection.parse({ name: '', text: this.text, types: [] }, true);
    connection.bind({ values: this.values as string[] }, true);
    connection.describe({ type: 'P', name: '' }, true);
    connection.execute({}, true);
    connection.sync();
    connection.stream.uncork();
  }

  /** Only the statement asks for a description, so the rows from here on are the statement's. */
  handleRowDescription(): void {
    this.#rows = [];
  }

  handleDataRow(message: { fields: RawRow }): void {
    this.#rows?.push(message.fields);
  }

  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}

  handleError(error: Error): void {
    this.callback?.(error);
  }

  /** Only now is it committed. */
  handleReadyForQuery(): void {
    this.callback?.(null, this.#rows ?? []);
  }
}

/** The rows of one statement under the engine's settings, in a transaction of its own. */
export function queryPooled(
  client: PooledQueries,
  text: string,
  values: readonly (string | number | boolean | null)[],
): Promise<RawRow[]> {
  return rowsOf(client, new PooledCall(text, texts(values)));
}

export const texts = (values: readonly (string | number | boolean | null)[]) =>
  values.map((value) => (value === null ? null : String(value)));

export function rowsOf(client: PooledQueries, call: PooledCall): Promise<RawRow[]> {
  return new Promise((resolve, reject) => {
    client.query(call, undefined, (error, rows) => {
      if (error) reject(error);
      else resolve(rows as RawRow[]);
    });
  });
}

/** With a limit of its own: a pooler without a server greets at once, and answers when it has one. */
const WHO_ANSWERS = { text: 'SELECT pg_backend_pid() AS pid', query_timeout: 10_000 };

const known = new WeakMap<pg.Pool, Promise<boolean>>();

/** Whether another process answers than the connection was opened to. Asked once per pool; an error is not remembered. */
export function behindPooler(pool: pg.Pool): Promise<boolean> {
  let answer = known.get(pool);
  if (!answer) {
    answer = withClient(pool, async (client) => {
      const { rows } = await client.query(WHO_ANSWERS);
      // A number, whatever the program's own parsers make of it.
      return Number(rows[0].pid) !== (client as unknown as { processID: number | null }).processID;
    });
    answer.catch(() => known.delete(pool));
    known.set(pool, answer);
  }
  return answer;
}
