/**
 * A fleet at work, and what it must have done in the end. The producers keep every key that was acknowledged; each of
 * them is one job, and each job is completed once, with its guarded effect once.
 */
import { expect } from 'vitest';
import { holdfast } from '../../packages/holdfast/src/index.js';
import { Child, QUICK, readyWorker } from '../support/child.js';
import { allWork, type FleetWorker } from '../support/fleet.js';
import { type Ground, groundOn } from '../support/ground.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';

const WORKERS = 3;
const PRODUCERS = 2;

export class Fleet {
  readonly db: Ground;
  readonly workers: readonly FleetWorker[];
  readonly producers: readonly Child[];

  private constructor(db: Ground, workers: readonly FleetWorker[]) {
    [this.db, this.workers] = [db, workers];
    this.producers = Array.from(
      { length: PRODUCERS },
      (_, n) => new Child('producer', { url: db.url, name: `p${n}`, everyMs: 10 }),
    );
  }

  static async begin(db: Ground): Promise<Fleet> {
    return new Fleet(db, await startWorkers(db.url));
  }

  /** What producers were told is accepted. */
  get accepted(): string[] {
    return this.producers.flatMap(({ messages }) =>
      messages.flatMap(({ kind, keys }) => (kind === 'accepted' ? (keys ?? []) : [])),
    );
  }

  async acceptsMore(jobs = 100): Promise<void> {
    const before = this.accepted.length;
    await until(`${jobs} more jobs are accepted`, () => this.accepted.length >= before + jobs, {
      timeoutMs: 60_000,
    });
  }

  /** The same processes, without anybody's help: each completes jobs, and new ones are accepted. */
  async goesOn(): Promise<void> {
    await until('the address answers', () => this.db.rows('SELECT 1').catch(() => null), {
      timeoutMs: 60_000,
    });
    await this.acceptsMore();
    await allWork(this.db, this.workers);
  }

  async stopProducers(): Promise<void> {
    for (const producer of this.producers) producer.tell({ do: 'stop' });
    for (const producer of this.producers) await producer.hears('done', {}, 60_000);
  }

  async stopWorkers(): Promise<void> {
    for (const worker of this.workers) worker.signal('SIGTERM');
    for (const worker of this.workers)
      expect(await worker.exited, worker.describe()).toMatchObject({ code: 0 });
  }

  /** Ends the producers, waits until all is done, and returns the accepted keys that the database does not know. */
  async settles(): Promise<string[]> {
    await this.stopProducers();
    return settled(this.db, this.accepted);
  }
}

export const startWorkers = (url: string): Promise<FleetWorker[]> =>
  Promise.all(Array.from({ length: WORKERS }, () => readyWorker(url, QUICK)));

/** An empty database, migrated, with the tables of the handlers. */
export async function shopOn(url: string): Promise<Ground> {
  const hf = holdfast({ connectionString: url, logger: quietLogger });
  await hf.migrate();
  await hf.close();
  return groundOn(url);
}

export async function settled(db: Ground, accepted: readonly string[]): Promise<string[]> {
  const count = async (sql: string) => Number((await db.rows<{ n: string }>(sql))[0]?.n);
  await until(
    'every job is done',
    async () => (await count('SELECT count(*) AS n FROM holdfast.inbox')) === 0,
    { timeoutMs: 120_000 },
  );
  const done = await db.rows<{ key: string; times: number }>(
    `SELECT idempotency_key AS key, count(*)::int AS times FROM holdfast.inbox_archive
     WHERE status = 'completed' GROUP BY 1`,
  );
  const keys = await db.rows<{ key: string }>('SELECT key FROM holdfast.inbox_idempotency');
  const known = new Set(done.map(({ key }) => key));
  // One key, one job, completed once.
  expect(done.filter(({ times }) => times !== 1)).toEqual([]);
  expect(keys.filter(({ key }) => !known.has(key))).toEqual([]);
  const guarded = `SELECT count(*) AS n FROM holdfast.inbox_archive AS a
    WHERE a.type = 'guarded' AND (SELECT count(*) FROM effects AS e WHERE e.job_id = a.id) <> 1`;
  expect(await count(guarded), 'guarded jobs without their one effect').toBe(0);
  expect(await count('SELECT count(DISTINCT job_id) AS n FROM effects')).toBe(
    await count(`SELECT count(*) AS n FROM holdfast.inbox_archive WHERE type = 'guarded'`),
  );
  // What is shown agrees with what is there.
  const [inbox] = await db.hf.queues();
  expect(inbox).toMatchObject({ pending: 0, processing: 0, deadLetter: 0 });
  expect(await count('SELECT count(*) AS n FROM holdfast.inbox_archive')).toBe(done.length);
  return accepted.filter((key) => !known.has(key));
}
