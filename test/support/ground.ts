/**
 * A database for one test, with the tables into which the handlers of `test/processes` write. Children
 * that a test starts after this are gone before the database is dropped.
 */
import type pg from 'pg';
import { onTestFinished } from 'vitest';
import {
  type Holdfast,
  holdfast,
  type JobDefinition,
  job,
} from '../../packages/holdfast/src/index.js';
import { plainPool } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { cloneTemplate } from './clone.js';
import { quietLogger } from './logger.js';
import { until } from './until.js';

/** What a handler of `test/processes/worker.mjs` may be asked to do. */
export interface Task {
  /** Do the slow or deadly thing in the first generation only. */
  readonly firstOnly?: boolean;
  /** Go on when the signal is aborted. */
  readonly stubborn?: boolean;
  readonly ms?: number;
  /** Spin until this file is there. */
  readonly untilFile?: string;
  /** Wait for the test's word from the second generation on. */
  readonly thenGated?: boolean;
}

const types = [
  ...(['noop', 'recorded', 'gated', 'guarded', 'late', 'spin', 'poison', 'fatal'] as const),
  'batched',
] as const;
export const jobs = Object.fromEntries(types.map((type) => [type, job<Task>(type)])) as Record<
  (typeof types)[number],
  JobDefinition<Task, Task>
>;

export interface Ground {
  readonly url: string;
  readonly hf: Holdfast;
  readonly pool: pg.Pool;
  rows<Row extends object>(text: string, params?: unknown[]): Promise<Row[]>;
  /** Waits until `count` jobs are completed. */
  completed(count: number, timeoutMs?: number): Promise<void>;
}

export const TABLES = `
CREATE TABLE starts (job_id uuid, generation bigint, pid integer, PRIMARY KEY (job_id, generation));
CREATE TABLE effects (job_id uuid, generation bigint, pid integer)`;

export async function ground(): Promise<Ground> {
  const database = await cloneTemplate();
  onTestFinished(() => database.drop());
  return groundOn(database.url);
}

/** The same on a database of the test's own that is migrated already, and may have the tables. */
export async function groundOn(
  url: string,
  { tables = true }: { readonly tables?: boolean } = {},
): Promise<Ground> {
  const pool = plainPool({ connectionString: url }, 5, quietLogger);
  const hf = holdfast({ connectionString: url, logger: quietLogger });
  onTestFinished(async () => {
    await hf.close();
    await pool.end();
  });
  if (tables) await pool.query(TABLES);
  const rows = async (text: string, params?: unknown[]) => (await pool.query(text, params)).rows;
  return {
    url,
    hf,
    pool,
    rows,
    async completed(count, timeoutMs = 60_000) {
      let seen = 0;
      await until(
        `${count} jobs are completed`,
        async () => {
          const text = `SELECT count(*)::int FROM holdfast.inbox_archive WHERE status = 'completed'`;
          seen = (await rows(text))[0].count;
          return seen >= count;
        },
        { timeoutMs },
      ).catch((error) => {
        throw new Error(`${error.message}; there were ${seen}`, { cause: error });
      });
    },
  };
}

/** Waits until a statement of a worker, found by a part of its text (any of these), waits for a lock. */
export async function blockedStatement(on: Ground, ...parts: string[]): Promise<void> {
  await until(
    `a statement with "${parts.join('" or "')}" waits for a lock`,
    async () =>
      (
        await on.rows(
          `SELECT pid FROM pg_stat_activity WHERE datname = current_database()
             AND wait_event_type = 'Lock' AND query LIKE ANY (SELECT '%' || p || '%' FROM unnest($1::text[]) AS p) AND pid <> pg_backend_pid()`,
          [parts],
        )
      ).length > 0,
  ).catch(async (error) => {
    const text = `SELECT application_name, state, wait_event, left(query, 80) AS query FROM pg_stat_activity
      WHERE datname = current_database()`;
    throw new Error(`${error.message}; sessions: ${JSON.stringify(await on.rows(text))}`);
  });
}

/**
 * Stops a worker's next claim in the middle: its statement is with the server and waits in a trigger. Not for a lock: a
 * worker waits for those for 500 ms only, and the test may need longer. The queue must be paused, and this resumes it; the
 * function that is returned lets the claim go on.
 */
export async function claimInFlight(on: Ground): Promise<() => Promise<void>> {
  await on.rows(`
    CREATE TABLE let_go ();
    CREATE FUNCTION hold_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      WHILE NOT EXISTS (SELECT FROM public.let_go) LOOP
        PERFORM pg_sleep(0.01);
      END LOOP;
      RETURN NEW;
    END $$;
    GRANT SELECT ON let_go TO PUBLIC;
    CREATE TRIGGER hold_claim BEFORE UPDATE ON holdfast.inbox FOR EACH ROW
      WHEN (OLD.status = 'pending' AND NEW.status = 'processing') EXECUTE FUNCTION hold_claim()`);
  const letGo = async () => void (await on.rows('INSERT INTO let_go DEFAULT VALUES'));
  onTestFinished(letGo);
  await on.rows('UPDATE holdfast.queues SET paused = false');
  await until('a claim is under way', async () => {
    const text = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
    return (await on.rows(text)).length > 0;
  });
  return letGo;
}
