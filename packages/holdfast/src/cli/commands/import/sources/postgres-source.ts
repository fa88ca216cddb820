/**
 * Reading jobs from tables: a cursor says which there are and in what order, and each batch is locked and read again by
 * its ids, so that what the old workers took meanwhile is left to them. Memory is bounded: a batch ends at so many jobs
 * or bytes. A schema other than the usual one is one checked replacement in the text of the statements.
 */
import type pg from 'pg';
import { inTransaction, withClient, withTransaction } from '../../../../postgres/connect/pool.js';
import { quoteName } from '../../../../postgres/names.js';
import { Failure } from '../../../failures.js';
import type { Query, SourceJob, Staying, Wanted, Work } from './source.js';

const BATCH_BYTES = 16 * 2 ** 20;
const FETCH = 1_000;
/** Without statistics Postgres would read the whole table for every batch. */
const byIndex = (on: boolean) =>
  ['seqscan', 'hashjoin', 'mergejoin']
    .map((way) => `SET LOCAL enable_${way} = ${on ? 'off' : 'on'}`)
    .join('; ');

export interface Texts {
  /** ($1 only, $2 with failed ones) → id, bytes; ordered. */
  readonly list: string;
  /** ($1 ids, $2 bytes that are read, $3 with failed ones) → rows. */
  readonly read: string;
  /** ($1 ids). */
  readonly remove: string;
  /** ($1 only, $2 with failed ones) → from, state, jobs. */
  readonly staying: string;
}

type Row = Record<string, string | null>;

export interface Place {
  readonly pool: pg.Pool;
  /** Holdfast is in the same database. */
  readonly same: boolean;
  readonly schema: string;
}

/** `from` is the schema in which the statements are written. */
export const inSchema = (text: string, from: string, schema: string) =>
  // A function, because `$` means something in a text that replaces.
  text.replaceAll(`${from}.`, () => `${quoteName(schema)}.`);

/** The tables of one source, in the schema that --from-schema names. */
export class Tables {
  readonly #place: Place;
  readonly #wanted: Wanted;
  readonly #written: string;
  /** For `$1::text[] IS NULL OR …`. */
  readonly names: readonly string[] | null;

  /** `written`: the schema in which the statements are written. */
  constructor(place: Place, wanted: Wanted, written: string) {
    [this.#place, this.#wanted, this.#written] = [place, wanted, written];
    this.names = wanted.only.length > 0 ? wanted.only : null;
  }

  text(sql: string): string {
    return inSchema(sql, this.#written, this.#place.schema);
  }

  async rows(sql: string, params: unknown[] = []): Promise<Row[]> {
    return (await this.#place.pool.query(this.text(sql), params)).rows;
  }

  /** The row that says which version it is. `missing`: what to say and do if there is no such row. */
  async version(sql: string, missing: string, more = ''): Promise<Row> {
    try {
      return (await this.rows(sql))[0] ?? {};
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== '42P01' && code !== '3F000') throw error;
      const { schema } = this.#place;
      throw new Failure(
        `There is no ${missing} in schema "${schema}" of this database; nothing was moved. Check --from and --from-schema${more}.`,
      );
    }
  }

  /** How jobs are counted, read and taken out. */
  source(texts: Texts, toJob: (row: Row) => SourceJob) {
    const [place, wanted] = [this.#place, this.#wanted];
    const { list, read, remove, staying } = texts;
    const named = { list: this.text(list), read: this.text(read), remove: this.text(remove) };
    return {
      apart: !place.same,
      staying: () => stayingOf(place, this.text(staying), wanted),
      each: (work: Work) => eachBatch(place, named, toJob, wanted, work),
      close: async () => undefined,
    };
  }
}

async function eachBatch(
  { pool, same }: Place,
  texts: Omit<Texts, 'staying'>,
  toJob: (row: Row) => SourceJob,
  wanted: Wanted,
  work: Work,
): Promise<void> {
  const read = `${texts.read}${wanted.dry ? '' : '\nFOR UPDATE OF j SKIP LOCKED'}`;
  // The next batch is read while this one is written, and is written when this one has committed.
  const one = async (ids: string[], before: Promise<boolean>): Promise<boolean> => {
    const after = await withTransaction(pool, async (client) => {
      await client.query(`SET LOCAL idle_in_transaction_session_timeout = 0; ${byIndex(true)}`);
      const { rows } = await client.query(read, [ids, wanted.maxPayloadBytes, wanted.failed]);
      await client.query(byIndex(false));
      const jobs = rows.map((row) => toJob(row));
      const remove = async (gone: readonly string[]) => {
        await client.query(byIndex(true));
        await client.query(texts.remove, [gone]);
        return 0;
      };
      if (!(await before)) return () => false;
      return work({ jobs, tx: same ? (client as Query) : null, remove });
    });
    return after();
  };
  let last = Promise.resolve(true);
  /** Whether to go on after the batch before. */
  const begin = (ids: string[]): Promise<boolean> => {
    const before = last;
    last = one(ids, before);
    last.catch(() => undefined);
    return before;
  };
  await withClient(pool, (client) =>
    inTransaction(client, async () => {
      await client.query(`
        SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`);
      await client.query(`DECLARE import_jobs NO SCROLL CURSOR FOR ${texts.list}`, namesOf(wanted));
      let [ids, bytes] = [[] as string[], 0];
      for (;;) {
        const { rows } = await client.query(`FETCH ${FETCH} FROM import_jobs`);
        for (const row of rows) {
          ids.push(row.id);
          bytes += Number(row.bytes);
          if (ids.length < wanted.batch && bytes < BATCH_BYTES) continue;
          if (!(await begin(ids))) return;
          [ids, bytes] = [[], 0];
        }
        if (rows.length < FETCH) break;
      }
      if (ids.length > 0) await begin(ids);
    }),
  ).finally(() => last.catch(() => undefined));
  await last;
}

const namesOf = ({ only, failed }: Wanted) => [only.length > 0 ? only : null, failed];

async function stayingOf({ pool }: Place, text: string, wanted: Wanted): Promise<Staying[]> {
  const { rows } = await pool.query(text, namesOf(wanted));
  return rows.map(({ jobs, ...row }) => ({ ...row, jobs: Number(jobs), why: WHY[row.state] }));
}

const WHY: Record<string, string> = {
  active: 'runs there',
  failed: '--failed moves it as a dead letter',
};

/** A right is missing, there or here: the error of Postgres names the table. */
export async function withRights<Value>(needs: string, work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code !== '42501') throw error;
    throw new Failure(
      `${message} (42501). Nothing was moved: it takes ${needs}. Connect as the owner of both, or with --from as that of the source.`,
      { cause: error },
    );
  }
}
