/** Waiting for the end of a job: every end, one poller for all who wait, and what ends a wait early. */
import pg from 'pg';
import { beforeAll, expect, expectTypeOf, onTestFinished, test } from 'vitest';
import {
  Cancel,
  DeadLetter,
  holdfast,
  type JobOutcome,
  job,
} from '../../packages/holdfast/src/index.js';
import { outcomesOf } from '../../packages/holdfast/src/inspect/job/states.js';
import { READING } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { load } from '../../packages/holdfast/src/postgres/statement.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { buffers, explained } from '../support/plans.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const SOON = { timeout: '30s' } as const;

beforeAll(async () => {
  await db.hf.createQueue('brief');
  await db.hf.configureQueue('brief', { archiveRetention: 0 });
});

test('it resolves when the job has ended, however often it was asked before', async () => {
  const kind = job<object, { sent: boolean }>('gated');
  const held = gate<{ sent: boolean }>();
  const { id } = await db.hf.enqueue(kind, {});
  start(db.hf, (w) => w.handle(kind, () => held.opened));
  const ended = db.hf.wait(kind, id, SOON);
  expectTypeOf(ended).resolves.toEqualTypeOf<JobOutcome<{ sent: boolean }>>();
  await until('it runs', async () => (await db.hf.job(id))?.status === 'processing');
  held.open({ sent: true });
  const outcome = await ended;
  expect(outcome).toEqual({
    id,
    status: 'completed',
    reason: null,
    result: { sent: true },
    error: null,
    attempts: 1,
    completedAt: expect.any(Date),
  });
  expect(await db.hf.wait(id.toUpperCase())).toEqual(outcome);
});

test('a dead letter, a discarded and a cancelled job say why', async () => {
  const kind = job<{ how: string }>('ends');
  const [bad, unwanted] = await db.hf.enqueueMany([
    kind.item({ how: 'give up' }),
    kind.item({ how: 'cancel' }),
  ]);
  start(db.hf, (w) =>
    w.handle(kind, ({ payload }) => {
      throw payload.how === 'cancel' ? new Cancel('withdrawn') : new DeadLetter('no such order');
    }),
  );
  const dead = await db.hf.wait(bad!.id, SOON);
  expect(dead).toMatchObject({ status: 'dead_letter', result: null, completedAt: null });
  expect(dead.error).toContain('no such order');
  expect(await db.hf.wait(unwanted!.id, SOON)).toMatchObject({
    status: 'cancelled',
    error: expect.stringContaining('withdrawn'),
  });
  await db.hf.discard([bad!.id]);
  expect(await db.hf.wait(bad!.id)).toMatchObject({ status: 'discarded' });
});

test('a job that failed before and then completed has no error', async () => {
  const kind = job('flaky', { retry: () => 0 });
  const { id } = await db.hf.enqueue(kind, {});
  start(db.hf, (w) =>
    w.handle(kind, ({ attempt }) => {
      if (attempt === 1) throw new Error('not yet');
      return attempt;
    }),
  );
  expect(await db.hf.wait(id, SOON)).toMatchObject({ result: 2, error: null, attempts: 2 });
});

test('where no archive is kept, nobody knows how a job ended that left the queue, and the reason says so', async () => {
  const kind = job<{ wanted: boolean }>('brief', { queue: 'brief' });
  const [done, unwanted] = await db.hf.enqueueMany([
    kind.item({ wanted: true }),
    kind.item({ wanted: false }),
  ]);
  start(db.hf, (w) =>
    w.handle(kind, ({ payload }) => {
      if (!payload.wanted) throw new Cancel('withdrawn');
      return { kept: 'nowhere' };
    }),
  );
  const wait = (id: string) => db.hf.wait(id, { queue: 'brief', ...SOON });
  const nothing = { result: null, error: null, attempts: null, completedAt: null };
  const unknown = (reason: RegExp) => ({
    ...{ status: 'unknown', reason: expect.stringMatching(reason), ...nothing },
  });
  const noArchive = /"brief".*keeps no archive, so nobody knows how the job ended/;
  expect(await wait(done!.id)).toEqual({ id: done!.id, ...unknown(noArchive) });
  await until('it was cancelled', async () => {
    const held = await db.rows('SELECT 1 FROM holdfast.brief WHERE id = $1', [unwanted!.id]);
    return held.length === 0;
  });
  // What the next turn of the retention does.
  await db.rows('DELETE FROM holdfast.brief_archive');
  expect(await wait(unwanted!.id)).toEqual({ id: unwanted!.id, ...unknown(noArchive) });
  // Without a queue the id alone cannot tell a job that ended there from one that was never written.
  for (const id of [done!.id, '01700000-0000-7000-8000-000000009182']) {
    const cannotTell =
      /^No queue has job .* may have ended in "brief", .*or it was never committed.*Name its queue/;
    expect(await db.hf.wait(id, SOON)).toEqual({ id, ...unknown(cannotTell) });
  }
  // In a queue with an archive it is certain.
  await expect(db.hf.wait(done!.id, { queue: 'inbox' })).rejects.toMatchObject({
    code: 'JOB_UNKNOWN',
  });
  const { id } = await db.hf.enqueue(kind, { wanted: true });
  // Seen in its queue or not before it ended: the reason names the queue.
  expect(await db.hf.wait(id, SOON)).toEqual({ id, ...unknown(/"brief"/) });
});

test('two hundred wait on one connection, with few statements', async () => {
  const pool = new pg.Pool({ connectionString: db.url, max: 1 });
  const hf = holdfast({ connectionString: db.url, pool, logger: quietLogger });
  onTestFinished(async () => {
    await hf.close();
    await pool.end();
  });
  const kind = job('shared');
  const many = await db.hf.enqueueMany(Array.from({ length: 200 }, () => kind.item({})));
  let taken = 0;
  pool.on('acquire', () => taken++);
  const ends = Promise.all(many.map(({ id }) => hf.wait(id, SOON)));
  await until('they were asked for', () => taken > 0);
  const held = (await claimAs(db.engine, 'w1', { types: ['shared'] })).map(heldOf);
  const jobs = held.map((one, n) => ({ ...one, result: `${n}` }));
  expect(await complete(db.engine, INBOX, 'w1', jobs)).toHaveLength(200);
  const results = new Map(held.map(({ id }, n) => [id, n]));
  for (const { id, result } of await ends) expect(result).toBe(results.get(id));
  expect(taken).toBeLessThan(50);
});

test('so do those whose queue nobody named', async () => {
  const pool = new pg.Pool({ connectionString: db.url, max: 1 });
  const hf = holdfast({ connectionString: db.url, pool, logger: quietLogger });
  onTestFinished(async () => {
    await hf.close();
    await pool.end();
  });
  await db.hf.createQueue('others');
  const kind = job('shared', { queue: 'others' });
  const many = await db.hf.enqueueMany(Array.from({ length: 200 }, () => kind.item({})));
  let taken = 0;
  pool.on('acquire', () => taken++);
  const ends = Promise.all(many.map(({ id }) => hf.wait(id, SOON)));
  await until('they were asked for', () => taken > 0);
  await db.hf.cancel(
    many.map(({ id }) => id),
    { queue: 'others' },
  );
  for (const { status } of await ends) expect(status).toBe('cancelled');
  expect(taken).toBeLessThan(50);
});

test('asking for jobs that wait does not read the archive, however large it is', async () => {
  await db.rows(`INSERT INTO holdfast.inbox_archive (id, created_at, completed_at, lease_generation,
      partition_bucket, attempts, max_attempts, version, status, priority, type, partition_key, payload)
    SELECT holdfast.new_id(), now(), now(), 1, 0, 1, 5, 1, 'completed', 2, 'old', 'k', '{}'
    FROM generate_series(1, 20000)`);
  const waiting = await db.hf.enqueueMany(Array.from({ length: 20 }, () => job('waits').item({})));
  const session = await db.pool.connect();
  await session.query(`${READING}; PREPARE outcomes AS ${load(outcomesOf.statement, INBOX).text}`);
  const plan = await explained(session as unknown as pg.Client, 'outcomes', [
    `{${waiting.map(({ id }) => id).join(',')}}`,
  ]);
  await session.query('ROLLBACK');
  session.release(true);
  expect(plan['Actual Rows']).toBe(20);
  expect(buffers(plan)).toBeLessThanOrEqual(20 * 5);
});

test('it gives up after its time, or at a signal, and the job goes on', async () => {
  const kind = job('never');
  const { id } = await db.hf.enqueue(kind, {});
  await expect(db.hf.wait(id, { timeout: 50 })).rejects.toMatchObject({ code: 'WAIT_TIMEOUT' });
  const stop = new AbortController();
  const reason = new Error('the request was closed');
  const waiting = db.hf.wait(id, { signal: stop.signal });
  stop.abort(reason);
  await expect(waiting).rejects.toBe(reason);
  await expect(db.hf.wait(id, { signal: stop.signal })).rejects.toBe(reason);
  expect(await db.hf.job(id)).toMatchObject({ status: 'pending' });
});

/** Without it, a queue that keeps no archive may have had the job. */
const INBOX_ONLY = { queue: 'inbox' };

test('a job that nobody knows, or that was pruned, is an error that says so', async () => {
  const rolledBack = await db.hf.enqueue(job('gone'), {});
  await db.rows('DELETE FROM holdfast.inbox WHERE id = $1', [rolledBack.id]);
  await expect(db.hf.wait(rolledBack.id, INBOX_ONLY)).rejects.toMatchObject({
    code: 'JOB_UNKNOWN',
    message: expect.stringMatching(/rolled back or is still open.*Nothing was done\./),
  });
  // Made in 2020.
  await expect(
    db.hf.wait('01700000-0000-7000-8000-000000009182', INBOX_ONLY),
  ).rejects.toMatchObject({
    code: 'JOB_UNKNOWN',
    message: expect.stringContaining('pruned since'),
  });
  const ended = db.hf.wait((await db.hf.enqueue(job('gone'), {})).id, INBOX_ONLY);
  const refused = expect(ended).rejects.toMatchObject({ code: 'JOB_UNKNOWN' });
  await db.rows(`DELETE FROM holdfast.inbox WHERE type = 'gone'`);
  await refused;
});

test.each([
  ['no id', () => db.hf.wait('9182'), 'OPTION_INVALID', /"9182", and not the UUID of a job/],
  [
    'no queue',
    () => db.hf.wait(crypto.randomUUID(), { queue: 'nope' }),
    'QUEUE_UNKNOWN',
    /no queue "nope"/,
  ],
  [
    'no duration',
    () => db.hf.wait(crypto.randomUUID(), { timeout: 'soon' as '1s' }),
    'OPTION_INVALID',
    /timeout must be a duration/,
  ],
])('%s is refused', async (_, call, code, message) => {
  await expect(call()).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
});

test('a connection that breaks while it asks is not the end', async () => {
  const { id } = await db.hf.enqueue(job('outage'), {});
  const lock = await db.pool.connect();
  await lock.query('BEGIN; LOCK TABLE holdfast.inbox IN ACCESS EXCLUSIVE MODE');
  const ended = db.hf.wait(id, SOON);
  const asking = await until('it asks', async () => {
    const [row] = (
      await lock.query(
        `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      )
    ).rows;
    return row?.pid as number;
  });
  await lock.query('SELECT pg_terminate_backend($1)', [asking]);
  await lock.query('COMMIT');
  lock.release();
  await db.hf.cancel([id], { reason: 'over' });
  expect(await ended).toMatchObject({ status: 'cancelled', error: 'over' });
});

test('close() ends every wait, and the job goes on', async () => {
  const hf = holdfast({ connectionString: db.url, logger: quietLogger });
  const { id } = await hf.enqueue(job('left'), {});
  const waits = [hf.wait(id), hf.wait(id)].map((wait) =>
    expect(wait).rejects.toMatchObject({ code: 'STOPPED' }),
  );
  await hf.close();
  await Promise.all(waits);
  expect(await db.hf.job(id)).toMatchObject({ status: 'pending' });
});
