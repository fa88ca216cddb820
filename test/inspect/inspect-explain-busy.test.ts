/** Why is this job not running, when it is due and nothing of its own keeps it? Never "it is the next" where it is not. */
import pg from 'pg';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { explainJob } from '../../packages/holdfast/src/inspect/explain/explain.js';
import { reading } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { Snooze } from '../../packages/holdfast/src/job/errors/errors.js';
import { clearAll, plantJob, plantWorker } from '../support/cli-plant.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
beforeAll(() => db.hf.createQueue('orders', { ordering: 'key' }));
beforeEach(() => clearAll(db));

const explain = (id: string) =>
  reading(db.pool, (reader) => explainJob(reader, 'holdfast', id, {}));
const BOTH = { inbox: { send_receipt: 1, refund: 1 }, orders: { send_receipt: 1 } };
const TWO = { concurrency: 2, ttlMs: 30_000 };

describe('by time', () => {
  test('jobs of a type that is at its limit do not come before it', async () => {
    await plantWorker(db, { id: 'w1', handles: BOTH, metadata: TWO });
    await db.hf.limits.set({ type: 'refund' }, { concurrency: 1 });
    onTestFinished(async () => void (await db.hf.limits.remove({ type: 'refund' })));
    const refunds: string[] = [];
    for (let n = 0; n < 3; n++)
      refunds.push(await plantJob(db, { type: 'refund', dueInMs: -5_000 }));
    const id = await plantJob(db);
    expect((await explain(id)).text).toContain('before it come 3 older jobs of its priority.');
    await plantJob(db, { type: 'refund', status: 'processing', worker: 'w1' });
    expect((await explain(id)).text).toContain('it is the next.');
    expect(await explain(refunds[0] as string)).toMatchObject({
      code: 'limit_reached',
      text: 'It waits for a free permit: 1 of 1 permit for "refund" jobs are taken in the whole fleet.',
    });
  });

  test('no token is there: how many of its type come before it, and when it may start', async () => {
    await plantWorker(db, { id: 'w1', handles: BOTH, metadata: TWO });
    await db.hf.limits.set({ type: 'refund' }, { rate: { limit: 1, per: '1h', burst: 1 } });
    onTestFinished(async () => void (await db.hf.limits.remove({ type: 'refund' })));
    const add = () => plantJob(db, { type: 'refund', dueInMs: -5_000 });
    const [first, , third] = [await add(), await add(), await add()];
    expect((await explain(first)).code).toBe('waiting_its_turn');
    await db.rows(`INSERT INTO holdfast.rates (limit_id, key, started_tat, slot_tat, pace)
      SELECT l.id, '', now() + interval '2 hours', now(), 7200 FROM holdfast.limits AS l`);
    // Half of it at a pace that is twice as fast.
    const answer = await explain(first);
    expect(answer.code).toBe('rate_limited');
    expect(answer.text).toMatch(
      /^It is due and comes next, at .* \((in 1 h|in 59 min).*\): at most 1 "refund" jobs start in 1 h, in the whole fleet\.$/,
    );
    expect((await explain(third)).text).toMatch(
      /^It is due; 2 jobs of its type are ahead of it, so it may start at about .* \((in 3 h|in 2 h 59 min).*\), and the next job may start at .* \((in 1 h|in 59 min).*\): at most 1/,
    );
    expect((await explain(await plantJob(db))).text).toContain('it is the next.');
  });

  test('all handlers are busy: who is busy, with what, and for how long', async () => {
    await plantWorker(db, { id: 'w1', handles: BOTH, metadata: TWO });
    const one = await plantJob(db, { status: 'processing', worker: 'w1', type: 'refund' });
    const two = await plantJob(db, { status: 'processing', worker: 'w1' });
    await db.rows(`UPDATE holdfast.inbox SET claimed_at = now() - interval '750 s' WHERE id = $1`, [
      one,
    ]);
    const id = await plantJob(db);
    expect(await explain(id)).toMatchObject({
      code: 'handlers_busy',
      also: [],
      fix: expect.stringContaining('add workers'),
      text: expect.stringMatching(
        new RegExp(
          '^It has been due for .*: no other job comes before it\\. The only live worker that can run it has no ' +
            'free handler: worker w1 holds 2 jobs for 2 handlers: ' +
            `1 refund \\(the longest for 12 min 30 s: job ${one}\\), 1 send_receipt \\(the longest for 10 s: job ${two}\\)\\.$`,
        ),
      ),
    });
    // What comes before it is said too; and with a free worker its turn is near again.
    await plantJob(db, { priority: 1 });
    expect((await explain(id)).text).toContain(
      ': before it come 1 due job of a priority before 2. From 10 min on it gets a share of the claims ' +
        'whatever is more urgent. The',
    );
    await plantWorker(db, { id: 'w2', metadata: TWO });
    expect(await explain(id)).toMatchObject({ code: 'waiting_its_turn' });
  });

  test('a worker whose handlers run on with lost jobs is not free, though it holds nothing', async () => {
    const load = { running: 2, held: 0 };
    await plantWorker(db, { id: 'w1', metadata: { ...TWO, load } });
    const id = await plantJob(db);
    expect(await explain(id)).toMatchObject({
      code: 'handlers_busy',
      text: expect.stringContaining('and 2 handlers of it run on with jobs that it has lost'),
    });
  });

  test('beside a suspect that runs alone, also one of another queue', async () => {
    await plantWorker(db, { id: 'w1', handles: BOTH, metadata: TWO });
    const crashes = 4;
    const worker = 'w1';
    const suspect = await plantJob(db, { queue: 'orders', crashes, status: 'processing', worker });
    await db.rows('UPDATE holdfast.orders SET isolated = true');
    const id = await plantJob(db);
    expect(await explain(id)).toMatchObject({
      code: 'beside_suspect',
      text: expect.stringContaining(
        `worker w1 runs the suspect ${suspect} (send_receipt) alone, for 10 s, and takes nothing else`,
      ),
    });
  });

  test('jobs that its workers do not handle are not read, however many', async () => {
    await plantWorker(db, { id: 'w1' });
    await db.rows(
      `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, available_at, parked)
       SELECT 'other', 'k', 1, '{}', now() - interval '1 hour', false FROM generate_series(1, 10001)`,
    );
    const id = await plantJob(db);
    expect((await explain(id)).text).toContain('it is the next.');
  });
});

describe('a row that somebody has locked', () => {
  const session = async () => {
    const client = new pg.Client({ connectionString: db.url, application_name: 'psql' });
    await client.connect();
    onTestFinished(() => client.end());
    await client.query('BEGIN');
    return client;
  };
  const pidOf = async (client: pg.Client) =>
    (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid as number;

  test('is passed over: who it is, and how to end it', async () => {
    await plantWorker(db, { id: 'w1' });
    const id = await plantJob(db);
    const human = await session();
    const pid = await pidOf(human);
    await human.query('SELECT 1 FROM holdfast.inbox WHERE id = $1 FOR UPDATE', [id]);
    const answer = await explain(id);
    expect(answer).toMatchObject({
      code: 'row_locked',
      fix: `Let it end, or: SELECT pg_terminate_backend(${pid});`,
    });
    expect(answer.text).toMatch(
      new RegExp(
        `^Its row is locked by process ${pid} of the server \\(psql, user .*, idle in transaction\\), open for .*; ` +
          'its last statement: SELECT 1 FROM holdfast\\.inbox .*: claims and maintenance pass over it until',
      ),
    );
    await human.query('ROLLBACK');
    expect((await explain(id)).code).toBe('waiting_its_turn');
    // Behind a savepoint that was released, as psql makes them, the transaction has no name of its own.
    await human.query('BEGIN; SAVEPOINT s');
    await human.query('SELECT 1 FROM holdfast.inbox WHERE id = $1 FOR UPDATE', [id]);
    await human.query('RELEASE s');
    expect((await explain(id)).text).toContain(`Its row is locked, probably by process ${pid}`);
    await human.query('COMMIT');
  });

  test('of a limit: nothing under it starts, and it is said who holds it', async () => {
    await plantWorker(db, { id: 'w1', handles: BOTH });
    await db.hf.limits.set({ type: 'refund' }, { concurrency: 5 });
    onTestFinished(async () => void (await db.hf.limits.remove({ type: 'refund' })));
    const [id, other] = [await plantJob(db, { type: 'refund' }), await plantJob(db)];
    const human = await session();
    const pid = await pidOf(human);
    await human.query(`UPDATE holdfast.limits SET concurrency = 9 WHERE type = 'refund'`);
    // A claim holds it for a moment as well.
    expect((await explain(id)).code).toBe('waiting_its_turn');
    const locked = async () => (await explain(id)).code === 'row_locked';
    await until('it has been locked for a second', locked);
    const answer = await explain(id);
    expect(answer.fix).toBe(`Let it end, or: SELECT pg_terminate_backend(${pid});`);
    expect(answer.text).toMatch(
      new RegExp(
        `^The row of the limit of "refund" is locked by process ${pid} of the server \\(psql, user .*, idle in transaction\\), ` +
          'open for .*; its last statement: UPDATE holdfast\\.limits .*: no job under it starts until',
      ),
    );
    expect((await explain(other)).code).toBe('waiting_its_turn');
    const findings = await db.hf.doctor();
    const found = findings.filter(
      ({ check, level }) => check === 'limit lock' && level === 'problem',
    );
    expect(found).toMatchObject([
      {
        text: expect.stringContaining(
          `The row of the limit of "refund" is locked by process ${pid}`,
        ),
        why: expect.stringContaining('No job of type "refund" starts'),
        fix: `Let it end, or: SELECT pg_terminate_backend(${pid});`,
      },
    ]);
    await human.query('ROLLBACK');
    expect((await explain(id)).code).toBe('waiting_its_turn');
  });

  test('holds its key: the head, or the one behind it', async () => {
    await plantWorker(db, { id: 'w1', handles: BOTH });
    const [queue, key] = ['orders', 'order:1'];
    const first = await plantJob(db, { queue, key });
    const second = await plantJob(db, { queue, key });
    const human = await session();
    const lock = (id: string) =>
      human.query('SELECT 1 FROM holdfast.orders WHERE id = $1 FOR UPDATE', [id]);
    await lock(first);
    expect(await explain(second)).toMatchObject({
      code: 'row_locked',
      text: expect.stringContaining(
        `The row of job ${first}, the first of its key order:1, is locked`,
      ),
      also: [{ code: 'key_held' }],
    });
    await human.query('ROLLBACK; BEGIN');
    await lock(second);
    expect(await explain(first)).toMatchObject({
      code: 'row_locked',
      text: expect.stringContaining(
        `The row of job ${second}, the one behind it of its key order:1,`,
      ),
    });
  });
});

describe('a key that is held', () => {
  const [queue, key] = ['orders', 'order:1'];

  test('by a job that nobody handles', async () => {
    await plantWorker(db, { id: 'w1', handles: BOTH });
    const head = await plantJob(db, { queue, key, type: 'unknown' });
    const id = await plantJob(db, { queue, key });
    expect(await explain(id)).toMatchObject({
      code: 'key_held',
      text:
        `Its key order:1 is held by job ${head}, which is due and is not claimed. ` +
        'None of 1 live worker handles the type "unknown" of the queue "orders".',
      fix: expect.stringContaining(`or holdfast jobs cancel ${head}`),
    });
  });

  test('by a later one that was seen first, because their enqueues overlapped', async () => {
    await plantWorker(db, { id: 'w1', handles: BOTH });
    const id = await plantJob(db, { queue, key });
    const later = await plantJob(db, { queue, key, status: 'processing', worker: 'w1' });
    expect(await explain(id)).toMatchObject({
      code: 'key_held',
      text: expect.stringContaining(`held by job ${later}, which was enqueued at the same time`),
    });
  });
});

test('a snoozed job says so, and how often', async () => {
  const naps = job<{ n: number }>('naps');
  const { id } = await db.hf.enqueue(naps, { n: 1 });
  let runs = 0;
  const { worker } = start(db.hf, (one) =>
    one.handle(naps, () => {
      runs++;
      throw new Snooze(runs < 3 ? 1 : '2h');
    }),
  );
  await until('three snoozes', () => worker.stats.snoozed === 3);
  expect(await explain(id)).toMatchObject({
    code: 'snoozed',
    text: expect.stringMatching(
      /^Its handler snoozed it .* ago, 3 times in a row by now: it is due again at .* and no attempt was spent\.$/,
    ),
  });
  expect((await db.hf.job(id))?.history).toMatchObject([
    { outcome: 'snoozed', times: 3, attempt: 1 },
  ]);
});

test('what a worker says of its load agrees with the queue, also of a job that was taken from it', async () => {
  const slow = job<{ n: number }>('slow');
  const end = gate();
  const options = { heartbeat: '50ms', renewEvery: '100ms', concurrency: 1 } as const;
  const { worker } = start(db.hf, (one) => one.handle(slow, () => end.opened), options);
  onTestFinished(() => end.open());
  const { id } = await db.hf.enqueue(slow, { n: 1 });
  const seen = async () => {
    const [one] = await db.hf.workers();
    const { held, running } = (one?.metadata.load ?? {}) as { held?: number; running?: number };
    return { holds: one?.held, held, running };
  };
  const became = (wanted: object) =>
    until(JSON.stringify(wanted), async () => {
      const now = await seen();
      return JSON.stringify(now) === JSON.stringify(wanted);
    });
  await became({ holds: 1, held: 1, running: 1 });
  await db.hf.cancel([id]);
  await until('it is lost', () => worker.stats.lost === 1);
  await became({ holds: 0, held: 0, running: 1 });
  const next = await db.hf.enqueue(slow, { n: 2 });
  expect(await explain(next.id)).toMatchObject({ code: 'handlers_busy' });
});
