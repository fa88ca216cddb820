/**
 * The steps of an attempt: the moments at which it talks to the database, and so the places at which a fault can
 * strike. They are statements of the kit's own executors, and those on the pool that `holdfast()` was given; inside of
 * a transaction only its COMMIT is one. The async context says which attempt a statement belongs to.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { clientBehind, type Executor, type Param } from 'holdfast/internal';
import type pg from 'pg';
import type { Step } from './step.js';
import { turnStepOf } from './turn-steps.js';

export type { Step } from './step.js';

export interface Watcher {
  /** Whether the handler has ended. */
  settling: boolean;
  /** Refuse: the connection breaks, and the statement is not run. */
  before(step: Step): Promise<'go' | 'refuse'>;
  /** Lose: it was run, and the connection breaks before the answer arrives. */
  after(step: Step): Promise<'go' | 'lose'>;
  /** The connections of the attempt, to be cut when it crashes. */
  readonly clients: Set<WatchedClient>;
}

export const watching = new AsyncLocalStorage<Watcher>();

/** As `pg` says it. Its cause is for whoever meets it as an unhandled rejection. */
export const connectionLost = (step?: Step) =>
  new Error('Connection terminated unexpectedly', {
    cause: new Error(
      `The test kit broke the connection at ${step?.name ?? 'a step'}, to see what the handler does then. ` +
        'If nobody caught this, the handler does not wait for that query: an await is missing.',
    ),
  });

/** One step, before and after which the watcher is asked. */
async function pass<Value>(
  watcher: Watcher,
  step: Step,
  work: () => Promise<Value>,
  cut: (committed: boolean) => Promise<void> = async () => undefined,
): Promise<Value> {
  if ((await watcher.before(step)) === 'refuse') {
    await cut(false);
    throw connectionLost(step);
  }
  const value = await work();
  if ((await watcher.after(step)) === 'lose') {
    await cut(true);
    throw connectionLost(step);
  }
  return value;
}

function stepOf(statement: string, params: readonly Param[]): Step | null {
  if (statement === 'find_effect') {
    const once = `ctx.once(${JSON.stringify(params[1])})`;
    return { kind: 'once', name: once, moment: `before ${once} looked for its marker` };
  }
  if (statement === 'record_effect') {
    const once = `ctx.once(${JSON.stringify(params[3])})`;
    const moment = `after ${once} had run its effect and before its marker was written`;
    return { kind: 'marker', name: `the marker of ${once}`, moment };
  }
  if (statement === 'complete' || statement === 'complete_runs') return COMPLETION;
  return turnStepOf(statement, params);
}

const COMPLETION: Step = {
  kind: 'completion',
  name: 'the completion of the job',
  moment: 'after the handler had ended and before the job was marked as completed',
};
const COMMIT: Step = { kind: 'commit', name: 'COMMIT', moment: 'before COMMIT was sent' };
const BEGIN: Step = { kind: 'begin', name: 'BEGIN', moment: 'before a transaction began' };

function queryStep(text: string): Step {
  const line = text.replace(/\s+/g, ' ').trim();
  const name = `the query "${line.length > 60 ? `${line.slice(0, 59)}…` : line}"`;
  return { kind: 'query', name, moment: `before ${name} was sent` };
}

export function watchedExecutor(db: Executor): Executor {
  return {
    run(statement, names, params) {
      const watcher = watching.getStore();
      const step = watcher && stepOf(statement.name, params);
      if (!watcher || !step) return db.run(statement, names, params);
      return pass(watcher, step, () => db.run(statement, names, params));
    },
  };
}

const textOf = (query: unknown) =>
  typeof query === 'string' ? query : String((query as { text?: unknown } | null)?.text ?? '');

/** By what a handler was given, the client behind it. */
const clientsOf = new WeakMap<object, WatchedClient>();

/** What the transaction on this client is called where its COMMIT is struck. */
export function nameTransaction(tx: object, name: string): void {
  const client = clientsOf.get(clientBehind(tx));
  if (client) client.transaction = name;
}

function commitOf(transaction: string | null): Step {
  if (transaction === null) return COMMIT;
  const name = `the COMMIT of ${transaction}`;
  return { kind: 'commit', name, moment: `before ${name} was sent` };
}

const isBegin = (text: string) => /^\s*(BEGIN|START\s+TRANSACTION)\b/i.test(text);
const isCommit = (text: string) => /^\s*(COMMIT|END)\b/i.test(text);
const isRollback = (text: string) => /^\s*(ROLLBACK|ABORT)\b(?!\s+TO\b)/i.test(text);

type Query = (...given: unknown[]) => Promise<unknown>;
type Callback = (error: unknown, result?: unknown) => void;

const isCallback = (value: unknown): value is Callback => typeof value === 'function';
const sends = (query: unknown) => isCallback((query as { submit?: unknown } | null)?.submit);

/** A client in the hands of a watched attempt. */
export class WatchedClient {
  readonly #client: pg.PoolClient;
  readonly #watcher: Watcher;
  readonly #query: Query;
  /** What it is called. */
  transaction: string | null = null;
  #inTransaction = false;
  #cut = false;
  #released = false;

  constructor(client: pg.PoolClient, watcher: Watcher) {
    this.#client = client;
    this.#watcher = watcher;
    this.#query = (client.query as unknown as Query).bind(client);
    watcher.clients.add(this);
  }

  /** What the handler gets: the client, with every query and its release seen here. */
  proxy(): pg.PoolClient {
    const made = new Proxy(this.#client, {
      get: (client, name) => {
        if (name === 'query') return (...given: unknown[]) => this.#asked(given);
        if (name === 'release') return (error?: Error | boolean) => this.release(error);
        const value: unknown = Reflect.get(client, name, client);
        return typeof value === 'function' ? value.bind(client) : value;
      },
    });
    clientsOf.set(made, this);
    return made;
  }

  /** `pg` returns a query object that sends by itself, such as a cursor, and nothing beside a callback. */
  #asked(given: readonly unknown[]): unknown {
    const [query, values] = given;
    if (sends(query) && !this.#cut) return this.#query(...given);
    const callback = given.at(-1);
    if (!isCallback(callback)) return this.query(query, values);
    const made = this.query(query, given.length > 2 ? values : undefined);
    made.then((result) => callback(null, result), callback);
    return undefined;
  }

  async query(query: unknown, values?: unknown): Promise<unknown> {
    if (this.#cut) throw connectionLost();
    const text = textOf(query);
    const send = () => (values === undefined ? this.#query(query) : this.#query(query, values));
    if (isRollback(text)) {
      this.#inTransaction = false;
      return send();
    }
    const step = this.#stepOf(text);
    if (!step) return send();
    const answer = await pass(this.#watcher, step, send, () => this.cut());
    if (step.kind === 'commit') this.#inTransaction = false;
    return answer;
  }

  #stepOf(text: string): Step | null {
    if (isCommit(text) && this.#inTransaction) return commitOf(this.transaction);
    if (!isBegin(text)) return this.#inTransaction ? null : queryStep(text);
    this.#inTransaction = true;
    this.transaction = null;
    return this.#watcher.settling ? COMPLETION : BEGIN;
  }

  /** The connection breaks: what it had begun is rolled back. */
  async cut(): Promise<void> {
    if (this.#cut) return;
    this.#cut = true;
    await this.#query('ROLLBACK').catch(() => undefined);
  }

  release(error?: Error | boolean): void {
    if (this.#released) return;
    this.#released = true;
    this.#watcher.clients.delete(this);
    this.#client.release(this.#cut || error);
  }
}

const watched = new WeakSet<pg.Pool>();

/** From now on the statements of watched attempts on this pool are steps; those of others pass as before. */
export function watchPool(pool: pg.Pool): void {
  if (watched.has(pool)) return;
  watched.add(pool);
  const connect = pool.connect.bind(pool) as (...args: unknown[]) => Promise<pg.PoolClient>;
  const query = pool.query.bind(pool) as unknown as (...args: unknown[]) => Promise<unknown>;
  Object.assign(pool, {
    connect(...args: unknown[]) {
      const watcher = watching.getStore();
      if (!watcher || args.length > 0) return connect(...args);
      return connect().then((client) => new WatchedClient(client, watcher).proxy());
    },
    query(...args: unknown[]) {
      const watcher = watching.getStore();
      const text = textOf(args[0]);
      if (!watcher || text === '' || typeof args.at(-1) === 'function') return query(...args);
      return pass(watcher, queryStep(text), () => query(...args));
    },
  });
}
