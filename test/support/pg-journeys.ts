/** How clients of a pool of `pg` come and go, and what they hear, for pools that have to do it alike. */
import type pg from 'pg';
import { expect } from 'vitest';

const NOTIFY = `SELECT pg_notify($1, $2)`;
const counts = ({ totalCount, idleCount, waitingCount }: pg.Pool) => [
  totalCount,
  idleCount,
  waitingCount,
];

/** What a client hears, until it has heard `last`. */
export function heard(client: pg.PoolClient, last: string): Promise<unknown[]> {
  const told: unknown[] = [];
  return new Promise((resolve) =>
    client.on('notification', ({ channel, payload, processId }) => {
      told.push([channel, payload, typeof processId]);
      if (payload === last) resolve(told);
    }),
  );
}

/** A query object, as those of pg-cursor and pg-copy-streams are: it sends messages by itself. */
export class Sends {
  readonly done: Promise<unknown[]>;
  readonly #messages: unknown[] = [];
  readonly #submit: (connection: pg.Connection) => void;
  readonly #more: (connection: pg.Connection) => void;
  handleError!: (error: Error) => void;
  handleReadyForQuery!: () => void;

  constructor(
    submit: (connection: pg.Connection) => void,
    more: (connection: pg.Connection) => void = () => undefined,
  ) {
    this.#submit = submit;
    this.#more = more;
    this.done = new Promise((resolve, reject) => {
      this.handleError = reject;
      this.handleReadyForQuery = () => resolve(this.#messages);
    });
  }

  submit(connection: pg.Connection): void {
    this.#submit(connection);
  }
  handleRowDescription(): void {}
  handleDataRow({ fields }: { fields: unknown[] }): void {
    this.#messages.push(String(fields[0]));
  }
  handlePortalSuspended(connection: pg.Connection): void {
    this.#messages.push('suspended');
    this.#more(connection);
  }
  handleCommandComplete({ text }: { text: string }, connection: pg.Connection): void {
    this.#messages.push(text);
    if (text.startsWith('SELECT')) connection.sync();
  }
  handleCopyInResponse(connection: pg.Connection): void {
    this.#more(connection);
  }
}

export const cursor = () =>
  new Sends(
    (connection) => {
      connection.parse({ name: '', text: 'SELECT generate_series(1, 3)', types: [] }, true);
      connection.bind({} as never, true);
      connection.describe({ type: 'P', name: '' }, true);
      connection.execute({ rows: '2' } as never, true);
      connection.flush();
    },
    (connection) => {
      connection.execute({ rows: '2' } as never, true);
      connection.flush();
    },
  );

interface Copying {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

const copy = (...chunks: string[]) =>
  new Sends(
    (connection) => connection.query('COPY notes FROM STDIN'),
    (connection) => {
      const copying = connection as unknown as Copying;
      for (const chunk of chunks) copying.sendCopyFromChunk(Buffer.from(chunk));
      copying.endCopyFrom();
    },
  );

/** As pg-copy-streams does: the head of a message and its data in two writes, which a network may cut anywhere. */
const copyInPieces = (data: string) =>
  new Sends(
    (connection) => connection.query('COPY notes FROM STDIN'),
    (connection) => {
      const head = Buffer.from('d\0\0\0\0');
      head.writeInt32BE(data.length + 4, 1);
      for (const piece of [head, data.slice(0, 1), data.slice(1), 'c\0', '\0\0\x04'])
        connection.stream.write(Buffer.from(piece));
    },
  );

export const submitted = (client: pg.PoolClient, query: Sends) =>
  (client.query(query as never) as unknown as Sends).done.catch(({ code, where }) => [code, where]);

/** Each on a pool of two clients. */
export const JOURNEYS: Record<string, (pool: pg.Pool) => Promise<unknown>> = {
  async 'events, counts, and a client that waits'(pool) {
    const log: unknown[] = [];
    for (const name of ['connect', 'acquire', 'release', 'remove'] as const) {
      pool.on(name, () => log.push(name));
    }
    const [one, two] = [await pool.connect(), await pool.connect()];
    const third = pool.connect();
    log.push(counts(pool));
    one.release();
    const three = await third;
    log.push(three === one, counts(pool));
    two.release();
    log.push(counts(pool));
    three.release(new Error('broken'));
    log.push(counts(pool), pool.options.max);
    return [...log];
  },
  async 'a callback for the client'(pool) {
    const named = await new Promise<unknown>((resolve) =>
      pool.connect((error, client, release) =>
        client?.query('SELECT 1 AS n', (_, { rows }) => {
          release();
          resolve([error, rows]);
        }),
      ),
    );
    return [named, counts(pool)];
  },
  async 'a callback for the query of the pool'(pool) {
    const query = (text: string) =>
      new Promise((resolve) =>
        pool.query(text, (error, result) => resolve([error?.message, result?.rows])),
      );
    return [await query('SELECT 1 AS n'), await query('SELECT nothing'), counts(pool)];
  },
  async 'a client is released once, and not used after its end'(pool) {
    const client = await pool.connect();
    client.release(true);
    const twice = () => client.release();
    expect(twice).toThrow(/already been released/);
    return client.query('SELECT 1').catch(({ message }) => message);
  },
  async 'a pool has an end'(pool) {
    await pool.query('SELECT 1');
    await pool.end();
    const again = await pool.query('SELECT 1').catch(({ message }) => message);
    return [again, pool.ended, counts(pool)];
  },
  async 'the same name for two statements on two clients'(pool) {
    const [one, two] = [await pool.connect(), await pool.connect()];
    const rows: unknown[] = [];
    for (const n of [1, 2]) {
      for (const [client, text] of [
        [one, 'SELECT 1 AS a'],
        [two, 'SELECT 2 AS b'],
      ] as const) {
        rows.push(n, (await client.query({ name: 'same', text })).rows);
      }
    }
    one.release();
    two.release();
    return rows;
  },
  async 'queries of a client that nobody waits for run in their order'(pool) {
    const client = await pool.connect();
    const made = ['SELECT 1 AS n', 'SELECT nothing', 'SELECT 3 AS n'].map((text) =>
      client.query(text).then(
        ({ rows }) => rows,
        ({ code }) => code,
      ),
    );
    const results = await Promise.all(made);
    client.release();
    return results;
  },
  async 'notifications come to those who listen, at the commit, until they stop'(pool) {
    const [one, two] = [await pool.connect(), await pool.connect()];
    for (const client of [one, two]) await client.query('LISTEN "a b"; LISTEN Plain');
    const told = Promise.all([heard(one, 'end'), heard(two, 'end')]);
    await one.query('BEGIN');
    await one.query(NOTIFY, ['a b', 'rolled back']);
    await one.query('ROLLBACK');
    await one.query(NOTIFY, ['a b', 'first']);
    await two.query('NOTIFY plain');
    await one.query('UNLISTEN "a b"');
    await two.query(NOTIFY, ['a b', 'second']);
    await two.query(NOTIFY, ['nobody', 'lost']);
    await two.query(NOTIFY, ['plain', 'end']);
    const all = await told;
    for (const client of [one, two]) client.release(true);
    return all;
  },
  async 'notices come to the client that causes them'(pool) {
    const client = await pool.connect();
    const notices: unknown[] = [];
    client.on('notice', ({ message, severity }) => notices.push([message, severity]));
    await client.query(`DO $$ BEGIN RAISE WARNING 'mind'; END $$`);
    client.release();
    return notices;
  },
  async 'a cursor reads in parts, and the client goes on'(pool) {
    const client = await pool.connect();
    const read = await submitted(client, cursor());
    const { rows } = await client.query('SELECT 1 AS n');
    client.release();
    return [read, rows];
  },
  async 'COPY takes the data of a stream, and refuses what is no row'(pool) {
    const client = await pool.connect();
    const copied = await submitted(client, copy('1\n2', '\n'));
    const refused = await submitted(client, copy('3\nx\n'));
    const pieces = await submitted(client, copyInPieces('4\n5\n'));
    const { rows } = await client.query('SELECT id FROM notes ORDER BY id');
    client.release();
    return [copied, refused, pieces, rows];
  },
  async 'the state of a transaction is known'(pool) {
    const client = await pool.connect();
    const states: unknown[] = [];
    for (const text of ['SELECT 1', 'BEGIN', 'SELECT 1', 'ROLLBACK']) {
      await client.query(text);
      states.push((client as unknown as { getTransactionStatus(): string }).getTransactionStatus());
    }
    client.release();
    return states;
  },
};
