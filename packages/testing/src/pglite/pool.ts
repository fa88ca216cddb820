/**
 * A pool of `pg`, as far as Holdfast and handlers use one, over PGlite: Postgres in this process.
 *
 * PGlite has a single session. A client that has begun a transaction holds it until COMMIT or ROLLBACK, and
 * everybody else waits, so that nobody runs inside a transaction that is not his. Whoever waits for a
 * transaction that does nothing meanwhile gets an error after `PATIENCE_MS` instead of hanging. Values are written and
 * read as `pg` does it: a bigint comes as text, a timestamp as a Date.
 */
import { EventEmitter } from 'node:events';
// A test may have replaced the global ones.
import { clearTimeout, setTimeout } from 'node:timers';
import { HoldfastError } from 'holdfast';
import { quoteName } from 'holdfast/internal';
import pg from 'pg';
import { asText, literal, ownError, ownRows, SERIALIZERS } from './values.js';

/** What is used of a PGlite; its own types are not imported, because the package is optional. */
export interface PgliteLike {
  query(
    text: string,
    params?: unknown[],
    options?: object,
  ): Promise<{
    rows: unknown[];
    fields: { name: string; dataTypeID: number }[];
    affectedRows?: number;
  }>;
  exec(
    text: string,
    options?: object,
  ): Promise<
    { rows: unknown[]; fields: { name: string; dataTypeID: number }[]; affectedRows?: number }[]
  >;
  close(): Promise<void>;
  readonly parsers: Record<number, unknown>;
}

interface TypeParsers {
  getTypeParser(oid: number): (text: never) => unknown;
}

type Parsers = Record<string, (text: never) => unknown>;

interface QueryConfig {
  /** Of a statement that is parsed and planned once. */
  readonly name?: string;
  readonly text: string;
  readonly values?: readonly unknown[];
  readonly rowMode?: 'array';
  readonly types?: TypeParsers;
}

interface Result {
  readonly rows: unknown[];
  readonly rowCount: number;
  readonly fields: { name: string; dataTypeID: number }[];
}

/** Less than the time limit that test runners have. */
const PATIENCE_MS = 4_000;
const BEGINS = /^\s*(BEGIN|START\s+TRANSACTION)\b/i;
const ENDS =
  /(^|;)\s*(COMMIT|END|ABORT|ROLLBACK(?!\s+(WORK\s+|TRANSACTION\s+)?TO\b))\b[^;]*;?\s*$/i;

/** The one session, and who holds it. */
export class PgliteSession {
  readonly pglite: PgliteLike;
  #holder: object | null = null;
  readonly #prepared = new Set<string>();
  /** How many statements there were. */
  #sent = 0;
  readonly #waiting: (() => void)[] = [];

  /** As `pg` reads values. */
  readonly #own: Parsers;
  /** By whoever asked for others; the engine does, to get text. */
  readonly #others = new WeakMap<TypeParsers, Parsers>();

  constructor(pglite: PgliteLike) {
    this.pglite = pglite;
    this.#own = this.#parsersOf(pg.types);
  }

  #parsersOf(types: TypeParsers): Parsers {
    let parsers = this.#others.get(types);
    if (!parsers) {
      const oids = [...Object.keys(this.pglite.parsers), ...Object.values(pg.types.builtins)];
      parsers = Object.fromEntries(oids.map((oid) => [oid, types.getTypeParser(Number(oid))]));
      this.#others.set(types, parsers);
    }
    return parsers;
  }

  async query(who: object, config: QueryConfig): Promise<Result> {
    const { text } = config;
    if (this.#holder !== who) await this.#acquire(who);
    this.#sent++;
    const inside = this.#open;
    if (BEGINS.test(text)) this.#open = true;
    try {
      return await this.#send(config);
    } catch (error) {
      if (!inside && BEGINS.test(text)) this.#open = false;
      throw error;
    } finally {
      if (ENDS.test(text)) this.#open = false;
      if (!this.#open) this.#release();
    }
  }

  /** The holder has a transaction open. */
  #open = false;

  isOpen(who: object): boolean {
    return this.#holder === who && this.#open;
  }

  async #send({ name, text, values, rowMode, types }: QueryConfig): Promise<Result> {
    const parsers = types ? this.#parsersOf(types) : this.#own;
    const options = { parsers, serializers: SERIALIZERS, ...(rowMode && { rowMode }) };
    const result = await this.#result(name, text, values, options).catch((error: unknown) => {
      throw ownError(error);
    });
    const rows = ownRows(result?.rows ?? [], rowMode === 'array');
    const fields = ownRows(result?.fields ?? [], false) as Result['fields'];
    return { rows, rowCount: result?.affectedRows || rows.length, fields };
  }

  /** Without parameters a text may hold several statements, as with `pg`; the last one's rows come back. */
  async #result(
    name: string | undefined,
    text: string,
    values: readonly unknown[] | undefined,
    options: object,
  ) {
    if (values && name === undefined) return this.pglite.query(text, values.map(asText), options);
    return (await this.pglite.exec(await this.#asText(name, text, values ?? []), options)).at(-1);
  }

  /** A statement with a name is prepared in SQL, because PGlite parses every query anew. */
  async #asText(name: string | undefined, text: string, values: readonly unknown[]) {
    if (name === undefined) return text;
    if (!this.#prepared.has(name)) {
      await this.pglite.exec(`PREPARE ${quoteName(name)} AS ${text}`);
      this.#prepared.add(name);
    }
    const list = values.map((value) => literal(asText(value))).join(', ');
    return `EXECUTE ${quoteName(name)}${values.length > 0 ? `(${list})` : ''}`;
  }

  #acquire(who: object): Promise<void> {
    if (this.#holder === null) {
      this.#holder = who;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const enter = () => {
        clearTimeout(timer);
        this.#holder = who;
        resolve();
      };
      let sent = this.#sent;
      const look = () => {
        const busy = this.#sent !== sent;
        sent = this.#sent;
        if (busy) {
          timer = setTimeout(look, PATIENCE_MS);
          return;
        }
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        reject(stuck());
      };
      let timer = setTimeout(look, PATIENCE_MS);
      this.#waiting.push(enter);
    });
  }

  #release(): void {
    this.#holder = null;
    this.#waiting.shift()?.();
  }
}

function stuck(): HoldfastError {
  return new HoldfastError(
    'OPTION_INVALID',
    `PGlite has a single session, and a transaction has held it for ${PATIENCE_MS / 1000} s while this statement waited. ` +
      'A statement beside an open transaction, as ctx.once or pool.query inside of ctx.transaction, needs a second connection: ' +
      'use the transaction for it, or run this test on a Postgres server (see startEmbedded of @holdfast/embedded).',
  );
}

class PgliteClient extends EventEmitter {
  readonly #session: PgliteSession;
  #last: Promise<unknown> = Promise.resolve();

  constructor(session: PgliteSession) {
    super();
    this.#session = session;
  }

  query(text: string | QueryConfig, values?: readonly unknown[]): Promise<Result> {
    const config = typeof text === 'string' ? { text, ...(values && { values }) } : text;
    // One after the other, as on any connection.
    const made = this.#last.then(() => this.#session.query(this, config));
    this.#last = made.catch(() => undefined);
    return made;
  }

  /** Whoever goes with a transaction open leaves nothing of it behind. */
  release(): void {
    if (this.#session.isOpen(this)) void this.query('ROLLBACK').catch(() => undefined);
  }
}

/** Several of them may share one session. */
export class PglitePool extends EventEmitter {
  readonly #session: PgliteSession;

  constructor(session: PgliteSession) {
    super();
    this.#session = session;
  }

  async connect(): Promise<PgliteClient> {
    return new PgliteClient(this.#session);
  }

  query(text: string | QueryConfig, values?: readonly unknown[]): Promise<Result> {
    return new PgliteClient(this.#session).query(text, values);
  }

  async end(): Promise<void> {}
}

/** Typed as what it stands for. Callbacks, cursors and streams are not supported. */
export function pglitePool(session: PgliteSession): pg.Pool {
  return new PglitePool(session) as unknown as pg.Pool;
}
