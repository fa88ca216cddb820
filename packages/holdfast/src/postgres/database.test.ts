/**
 * The seam between verbs and driver: the same journey of a job, and the same promises of a Database, over
 * `pg` and over PGlite.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { claimAs, heldOf } from '../../../../test/support/claiming.js';
import { INBOX, testDatabase } from '../../../../test/support/database.js';
import { quietLogger } from '../../../../test/support/logger.js';
import {
  type Database,
  pgDatabase,
  type SessionEvents,
} from '../../../../test/support/pg-database.js';
import { openPglite } from '../../../../test/support/pglite.js';
import { until } from '../../../../test/support/until.js';
import { prepareJobs, writeJobs } from '../enqueue/enqueue.js';
import { showJob } from '../inspect/job/show.js';
import { job } from '../job/job.js';
import { complete } from '../settle/complete.js';
import { closePool, enginePool } from './connect/pool.js';
import type { Executor } from './queryable.js';
import { bool, statement } from './statement.js';

const ground = testDatabase();
const LIMITS = { maxPayloadBytes: 1024, onMismatch: 'error' } as const;
const greet = job<{ name: string }>('greet');

const overPg = async () => {
  const pool = enginePool({ connectionString: ground.url }, 2, quietLogger);
  const mode = { prepare: true };
  const database = pgDatabase({ pool, sessionUrl: ground.url, mode });
  return { ...database, close: () => closePool(pool, 500) };
};

const notify = statement({
  name: 'test_notify',
  text: 'SELECT pg_notify($1::text, $2::text) IS NULL AS silent',
  columns: { silent: bool },
});
const takeLock = statement({
  name: 'test_take_lock',
  text: 'SELECT pg_try_advisory_lock(4711, $1::integer) AS taken',
  columns: { taken: bool },
});
const lockHeld = statement({
  name: 'test_lock_held',
  text: `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 4711
    AND objid = $1::integer) AS held`,
  columns: { held: bool },
});

async function enqueue(db: Executor, name: string): Promise<string> {
  const jobs = await prepareJobs([greet.item({ name })], LIMITS);
  const [written] = await writeJobs(db, INBOX, jobs, LIMITS);
  return written?.id as string;
}

describe.each([
  ['pg', overPg],
  ['PGlite', () => openPglite('holdfast')],
])('a Database over %s', (_, open) => {
  let db: Database & { close(): Promise<void> };
  beforeAll(async () => {
    db = await open();
  });
  afterAll(() => db?.close());

  /** A session, with what was heard on it; it is up when this resolves. */
  async function session(events: Partial<SessionEvents> = {}) {
    const seen = { ups: 0, heard: [] as string[], errors: [] as unknown[] };
    const opened = db.session({
      channels: () => ['test_-1'],
      prepare: async () => undefined,
      up: () => void seen.ups++,
      down: () => undefined,
      notified: (channel, payload) => void seen.heard.push(`${channel} ${payload}`),
      error: (_what, error) => void seen.errors.push(error),
      ...events,
    });
    onTestFinished(() => opened.stop());
    await until('the session is up', () => seen.ups === 1);
    return { opened, seen };
  }

  test('a job is enqueued, claimed and completed', async () => {
    const id = await enqueue(db, 'Ada');
    const [claimed] = await claimAs(db, 'worker', { types: ['greet'] });
    expect(claimed).toMatchObject({ id, payload: '{"name": "Ada"}', leaseGeneration: 1 });
    const moved = await complete(db, INBOX, 'worker', [heldOf(claimed!)]);
    expect(moved).toEqual([id]);
    expect(await showJob(db, 'holdfast', ['inbox'], id)).toMatchObject({ status: 'completed' });
  });

  test('a transaction that throws leaves nothing, and one that returns leaves everything', async () => {
    let id = '';
    const failing = db.transaction(async (tx) => {
      id = await enqueue(tx, 'Bob');
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    expect(await showJob(db, 'holdfast', ['inbox'], id)).toBeNull();

    id = await db.transaction((tx) => enqueue(tx, 'Eve'));
    expect(await showJob(db, 'holdfast', ['inbox'], id)).toMatchObject({ status: 'pending' });
  });

  test('a session hears its channels, in the order in which it was said', async () => {
    const { opened, seen } = await session();
    for (const word of ['a', 'b']) await db.run(notify, INBOX, ['test_-1', word]);
    await db.run(notify, INBOX, ['test_other', 'c']);
    await until('both are heard', () => seen.heard.length >= 2);
    expect(seen).toEqual({ ups: 1, heard: ['test_-1 a', 'test_-1 b'], errors: [] });
    expect(opened.state).toBe('on');
    await opened.stop();
    expect(opened.state).toBe('off');
  });

  test('a session has its locks before it is up, and takes more while it lasts', async () => {
    const { opened } = await session({
      prepare: async (on) => void (await on.run(takeLock, INBOX, [1])),
    });
    expect(await db.run(lockHeld, INBOX, [1])).toEqual([{ held: true }]);
    expect(await opened.run((on) => on.run(takeLock, INBOX, [2]))).toEqual([{ taken: true }]);
    expect(await db.run(lockHeld, INBOX, [2])).toEqual([{ held: true }]);
  });
});

/** The files that a file loads when it runs, and the packages among them. */
function loads(file: URL, seen = new Set<string>()): Set<string> {
  if (seen.has(file.href)) return seen;
  seen.add(file.href);
  const source = readFileSync(fileURLToPath(file), 'utf8');
  for (const [, target] of source.matchAll(/^(?:im|ex)port (?!type\b)[^;]*?from '([^']+)'/gm)) {
    if (!target?.startsWith('.')) seen.add(target as string);
    else loads(new URL(target.replace(/\.js$/, '.ts'), file), seen);
  }
  return seen;
}

test.each([
  '../enqueue/enqueue.ts',
  '../claim/time/claim.ts',
  '../settle/complete.ts',
  '../settle/fail.ts',
  '../lease/renew.ts',
  '../schema/migrate.ts',
  './settings.ts',
])('%s loads no driver and nothing that needs sockets', (path) => {
  const packages = [...loads(new URL(path, import.meta.url))].filter((one) => !/^file:/.test(one));
  expect(packages.filter((name) => name !== 'node:crypto')).toEqual([]);
});
