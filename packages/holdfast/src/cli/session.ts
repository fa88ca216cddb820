/** The database of one command: a pool of few connections, opened when it is needed. `read` asks in read-only transactions. */
import type pg from 'pg';
import { listQueues, type QueueRow } from '../inspect/queue/queues.js';
import { type Part, type ReadOptions, reading, readingOn } from '../inspect/reading/reading.js';
import { nearest } from '../job/options/nearest.js';
import {
  checkUrl,
  type Environment,
  namesPlace,
  serviceWords,
} from '../postgres/connect/address.js';
import { closePool, plainPool } from '../postgres/connect/pool.js';
import { checkSchemaName, type Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { checkSchema } from '../schema/migrate.js';
import { UsageError } from './failures.js';

const CONNECT_MS = 5_000;
const CLOSE_MS = 500;

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export const NO_DATABASE =
  'There is no database to connect to. Pass --url, or set the environment variable DATABASE_URL, or PGHOST, PGUSER and PGDATABASE.';

export class Session {
  /** Empty: where PGHOST and its like lead, which the driver reads. */
  readonly address: { readonly connectionString?: string };
  readonly schema: string;
  #pool: pg.Pool | null = null;

  constructor(url: string | undefined, schema: string | undefined, env: Environment = process.env) {
    this.schema = checkSchemaName(schema ?? 'holdfast');
    if (!url && !namesPlace(env)) throw new UsageError(`${NO_DATABASE}${serviceWords(env)}`);
    checkUrl(url, '--url or DATABASE_URL');
    this.address = url ? { connectionString: url } : {};
  }

  get pool(): pg.Pool {
    this.#pool ??= plainPool(
      { ...this.address, applicationName: 'holdfast cli', connectTimeoutMs: CONNECT_MS },
      // An import holds four: its lock, its cursor, the batch that it writes, and the one that it reads ahead.
      4,
      quiet,
    );
    return this.#pool;
  }

  /** Refuses a schema that is missing, too old or too new. */
  checkSchema(): Promise<void> {
    const { pool, schema } = this;
    return readingOn(pool, (client) => checkSchema(client, schema), { schema });
  }

  read<Value>(
    work: (db: Executor, part: Part) => Promise<Value>,
    options: Pick<ReadOptions, 'snapshot'> = {},
  ): Promise<Value> {
    return reading(this.pool, work, { schema: this.schema, ...options });
  }

  names(queue: string): Names {
    return { schema: this.schema, queue };
  }

  /** The queues that were asked for, or all of them; an unknown one is wrong usage. */
  async queues(wanted?: readonly string[]): Promise<QueueRow[]> {
    const all = await this.read((db) => listQueues(db, this.schema));
    for (const name of wanted ?? []) {
      if (all.some((queue) => queue.name === name)) continue;
      const known = all.map((queue) => queue.name);
      throw new UsageError(
        `There is no queue "${name}".${nearest(name, known)} Known: ${known.join(', ')}.`,
      );
    }
    return all.filter((queue) => wanted?.includes(queue.name) ?? true);
  }

  async queueNames(wanted?: readonly string[]): Promise<string[]> {
    return (await this.queues(wanted)).map(({ name }) => name);
  }

  async close(): Promise<void> {
    const pool = this.#pool;
    this.#pool = null;
    if (pool) await closePool(pool, CLOSE_MS);
  }
}
