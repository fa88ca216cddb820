/**
 * Due work that does not start: the doctor is red, names the cause, and what it prints mends it when typed. Nothing is said
 * of a fleet that is well.
 */
import pg from 'pg';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { diagnose } from '../../packages/holdfast/src/api/doctor/doctor.js';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import {
  type Finding,
  LIMITS,
  type Limits,
} from '../../packages/holdfast/src/inspect/doctor/doctor.js';
import { judgeStopped, pasteLines } from '../../packages/holdfast/src/inspect/doctor/stopped.js';
import type { Reason, ReasonCode } from '../../packages/holdfast/src/inspect/explain/reasons.js';
import {
  findStopped,
  isStopped,
  STOP_LIMITS,
  type Waits,
} from '../../packages/holdfast/src/inspect/explain/stopped.js';
import { listWorkers } from '../../packages/holdfast/src/inspect/fleet/workers.js';
import { listQueues } from '../../packages/holdfast/src/inspect/queue/queues.js';
import { reading } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { readyWorker } from '../support/child.js';
import { clearAll, plantJob, plantWorker } from '../support/cli-plant.js';
import { call } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const SOON = { heartbeat: '50ms', renewEvery: '100ms', ttl: '30s', leakGrace: '50ms' } as const;
/** What has waited at all has waited for long. */
const AT_ONCE = { stoppedMs: 1, quietMs: 1, unhandledMs: 1 } as const;

beforeAll(() => db.hf.createQueue('orders', { ordering: 'key', deadLetters: 'hold' }));
beforeEach(async () => {
  await clearAll(db);
  await db.rows(`UPDATE holdfast.queues SET paused_types = NULL, paused_keys = NULL`);
});

/** Who may make no schema: the comparison takes the doctor a second. */
async function findings(limits: Partial<Limits> = AT_ONCE): Promise<Finding[]> {
  const pool = new pg.Pool({ connectionString: db.url, max: 3 });
  pool.on('connect', (client) => {
    const query = client.query as (...args: unknown[]) => unknown;
    client.query = ((what: unknown, ...rest: unknown[]) =>
      typeof what === 'string' && what.startsWith('CREATE SCHEMA holdfast_doctor_')
        ? Promise.reject(Object.assign(new Error('not here'), { code: '42501' }))
        : query.call(client, what, ...rest)) as typeof client.query;
  });
  try {
    return await diagnose({ pool, schema: 'holdfast' }, { ...LIMITS, ...limits });
  } finally {
    await pool.end();
  }
}

const red = async (check: string, limits: Partial<Limits> = AT_ONCE) =>
  (await findings(limits)).find((one) => one.check === check && one.level === 'problem');

const found = (check: string, text: RegExp, limits: Partial<Limits> = AT_ONCE) =>
  until(`${check}: ${text}`, async () => {
    const one = await red(check, limits);
    return one && text.test(one.text) ? one : null;
  });

/** What the doctor says of stopped queues, without all the rest of it. */
const stopped = (text: RegExp, limits: Partial<Limits> = AT_ONCE) =>
  until(`${text}`, () =>
    reading(db.pool, async (reader) => {
      const all = { ...LIMITS, ...limits };
      const workers = await listWorkers(reader, 'holdfast', { withDead: true });
      for (const queue of await listQueues(reader, 'holdfast')) {
        const seen = await findStopped(reader, 'holdfast', { queue, workers, limits: all });
        const one = judgeStopped(queue.name, seen, all).find((each) => text.test(each.text));
        if (one?.level === 'problem') return one;
      }
      return null;
    }),
  );

/** What of a fix is there to be typed: commands into a shell, statements into psql. */
async function type(fix: string | null, which = /./): Promise<void> {
  const lines = (fix ?? '').split('\n').filter((line) => which.test(line));
  const typed = lines.filter((line) => /^(holdfast |[A-Z]+ .*;$)/.test(line));
  expect(typed).not.toEqual([]);
  for (const line of typed.slice(0, 1)) {
    if (!line.startsWith('holdfast ')) await db.rows(line);
    else {
      const words = line.split(' ').slice(1);
      const more = /^(jobs|dead-letters|limits rm)/.test(words.join(' ')) ? ['--yes'] : [];
      const { code, err } = await call([...words, ...more], { env: { DATABASE_URL: db.url } });
      expect([line, code, err]).toEqual([line, 0, err]);
    }
  }
}

const completed = (id: string) =>
  until('it is completed', async () => (await db.hf.job(id))?.status === 'completed');

describe('what counts', () => {
  const because = (code: ReasonCode, more: Partial<Reason> = {}): Reason => {
    return { code, text: 'why', fix: null, ...more };
  };
  const HOUR = 3_600_000;
  const stands: Waits = { dueMs: 60_000, idleMs: HOUR, queueIdleMs: HOUR, upMs: HOUR };
  const judged = (reason: Reason, waits: Partial<Waits> = {}) =>
    isStopped(reason, { ...stands, ...waits }, STOP_LIMITS);

  test('work that is due for half a minute while nothing of its type has started for a minute', () => {
    expect(judged(because('handlers_busy'))).toBe(true);
    expect(judged(because('handlers_busy'), { dueMs: 29_000 })).toBe(false);
    expect(judged(because('handlers_busy'), { idleMs: 59_000 })).toBe(false);
    // As far as anybody knows nothing has started yet: a worker that is new has not had the time.
    const never = { idleMs: null, queueIdleMs: null };
    expect(judged(because('handlers_busy'), { ...never, upMs: 5_000 })).toBe(false);
    expect(judged(because('handlers_busy'), { ...never, upMs: 61_000 })).toBe(true);
    expect(judged(because('no_handler'), { ...never, upMs: null, dueMs: 61_000 })).toBe(true);
  });

  test('not a type whose turn has not come while its queue starts others', () => {
    for (const code of ['handlers_busy', 'waiting_its_turn', 'beside_suspect'] as const)
      expect(judged(because(code), { queueIdleMs: 1_000 })).toBe(false);
    const untaken = because('waiting_its_turn', { untaken: ['w1'] });
    expect(judged(untaken, { queueIdleMs: 1_000 })).toBe(true);
    expect(judged(because('row_locked'), { queueIdleMs: 1_000 })).toBe(true);
  });

  test('what waits for a limit or in the order of its key counts after five minutes', () => {
    for (const code of ['rate_limited', 'limit_reached', 'key_full', 'key_held'] as const) {
      expect(judged(because(code))).toBe(false);
      expect(judged(because(code), { dueMs: 301_000 })).toBe(true);
    }
    // Where a person must act it counts at once.
    expect(judged(because('key_held', { fix: 'holdfast jobs retry x' }))).toBe(true);
  });

  test('nothing that is not due, is paused, or runs meanwhile', () => {
    for (const code of ['retrying', 'not_due', 'type_paused', 'running', 'completed'] as const)
      expect(judged(because(code), { dueMs: HOUR })).toBe(false);
  });

  test.each([
    [
      'holdfast jobs retry a, or holdfast jobs discard a',
      'holdfast jobs retry a|or:|holdfast jobs discard a',
    ],
    [
      'Let it end, or: SELECT pg_terminate_backend(7);',
      'Let it end, or:|SELECT pg_terminate_backend(7);',
    ],
    [
      'Start a worker with a handler for it: holdfast work',
      'Start a worker with a handler for it:|holdfast work',
    ],
    [
      'Start a worker: holdfast work; or holdfast jobs cancel a',
      'Start a worker:|holdfast work|or:|holdfast jobs cancel a',
    ],
    [
      'Wait, or allow more: holdfast queues set q --per-key 2',
      'Wait, or allow more:|holdfast queues set q --per-key 2',
    ],
    ['Deploy workers', 'Deploy workers.'],
  ])('"%s" is printed in lines that can be pasted', (fix, lines) => {
    expect(pasteLines(fix).join('|')).toBe(lines);
  });
});

const slow = job<object>('slow');
const quick = job<object>('quick');

describe('a queue has stopped', () => {
  test('all handlers hang', async () => {
    const end = gate();
    onTestFinished(() => end.open());
    start(db.hf, (one) => one.handle(slow, () => end.opened).handle(quick, () => {}), {
      ...SOON,
      concurrency: 2,
    });
    const hung = await db.hf.enqueueMany([slow.item({}), slow.item({})]);
    await until(
      'both run',
      async () => (await db.hf.jobs({ filter: { status: 'processing' } })).jobs.length === 2,
    );
    const { id } = await db.hf.enqueue(quick, {});
    const one = await stopped(/no free handler: worker .* holds 2 jobs for 2 handlers: 2 slow/);
    expect(one.text).toMatch(
      /^1 due job of "inbox" \(quick\) does not start: the oldest has been due for .*, and none of the kind is known to have started\. /,
    );
    const text = one.fix ?? '';
    expect(hung.some((job) => text.includes(`\nholdfast jobs cancel ${job.id}\n`))).toBe(true);
    await type(one.fix);
    await completed(id);
  });

  test('a type that nobody handles', async () => {
    start(db.hf, (one) => one.handle(slow, () => {}), SOON);
    await until('it is there', async () => (await db.hf.workers()).length === 1);
    const { id } = await db.hf.enqueue(quick, {});
    const one = await found('unhandled', /no live worker handles them: quick version 1/);
    expect(one.fix).toContain('start workers that handle them');
    expect(
      (await findings()).filter(({ check, level }) => check === 'stopped' && level !== 'ok'),
    ).toEqual([]);
    start(db.hf, (other) => other.handle(quick, () => {}), SOON);
    await completed(id);
  });

  test('handlers whose jobs were taken from them have all places', async () => {
    const end = gate();
    onTestFinished(() => end.open());
    const { worker } = start(db.hf, (one) => one.handle(slow, () => end.opened), {
      ...SOON,
      ...{ concurrency: 2, leakGrace: '1h' },
    });
    const ids = (await db.hf.enqueueMany([slow.item({}), slow.item({})])).map(({ id }) => id);
    await until(
      'both run',
      async () => (await db.hf.jobs({ filter: { status: 'processing' } })).jobs.length === 2,
    );
    await db.hf.cancel(ids);
    await until('both are lost', () => worker.stats.lost === 2);
    const { id } = await db.hf.enqueue(slow, {});
    const one = await stopped(/2 handlers of it run on with jobs that it has lost/);
    expect(one.fix).toContain(`\nholdfast workers drain ${worker.id}`);
    start(db.hf, (other) => other.handle(slow, () => {}), SOON);
    await completed(id);
  });

  test('a row that a session holds locked', async () => {
    await db.hf.pause();
    const { id } = await db.hf.enqueue(quick, {});
    const human = new pg.Client({ connectionString: db.url, application_name: 'psql' });
    human.on('error', () => undefined);
    await human.connect();
    onTestFinished(() => human.end().catch(() => undefined));
    await human.query(`BEGIN; SELECT FROM holdfast.inbox WHERE id = '${id}' FOR UPDATE`);
    start(db.hf, (one) => one.handle(quick, () => {}), SOON);
    await db.hf.resume();
    const one = await stopped(/Its row is locked by process \d+ of the server \(psql/);
    await type(one.fix);
    await completed(id);
  });

  test('a strict key is held by a dead letter', async () => {
    const step = job<{ fails?: boolean }>('step', { queue: 'orders', maxAttempts: 1 });
    start(
      db.hf,
      (one) =>
        one.handle(step, ({ payload }) => {
          if (payload.fails) throw new Error('refused');
        }),
      SOON,
    );
    const key = { partitionKey: 'order:1' };
    const first = await db.hf.enqueue(step, { fails: true }, key);
    await until('it is dead', async () => (await db.hf.job(first.id))?.status === 'dead_letter');
    const { id } = await db.hf.enqueue(step, {}, key);
    const one = await stopped(
      /Its key order:1 is held by job .* is a dead letter and holds the key/,
    );
    expect(one.fix).toContain(`\nor:\nholdfast jobs discard ${first.id}`);
    await type(one.fix, /discard/);
    await completed(id);
  });

  test('a rate lets next to nothing start', async () => {
    const rare = job<object>('rare');
    start(db.hf, (one) => one.handle(rare, () => {}), SOON);
    await db.hf.limits.set({ type: 'rare' }, { rate: { limit: 1, per: '30d', burst: 1 } });
    onTestFinished(async () => void (await db.hf.limits.remove({ type: 'rare' })));
    const first = await db.hf.enqueue(rare, {});
    await completed(first.id);
    const { id } = await db.hf.enqueue(rare, {});
    const one = await stopped(/at most 1 "rare" jobs start in 30 d/, {
      ...AT_ONCE,
      oldestMs: 1,
    });
    await type(one.fix);
    await completed(id);
  });

  test('a worker may not update the queue: the right is named, and granted by what is printed', async () => {
    const user = `holdfast_stop_${process.pid}`;
    await db.rows(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
    onTestFinished(async () => void (await db.rows(`DROP OWNED BY ${user}; DROP ROLE ${user}`)));
    await db.rows(`GRANT USAGE, CREATE ON SCHEMA holdfast TO ${user}; GRANT ALL ON ALL TABLES IN SCHEMA holdfast TO ${user};
      GRANT ALL ON ALL SEQUENCES IN SCHEMA holdfast TO ${user}; REVOKE UPDATE ON holdfast.inbox FROM ${user}`);
    const url = new URL(db.url);
    [url.username, url.password] = [user, 'secret'];
    const hf = holdfast({ connectionString: url.href, logger: quietLogger });
    onTestFinished(() => hf.close());
    const { stop } = start(hf, (one) => one.handle(quick, () => {}), SOON);
    const { id } = await db.hf.enqueue(quick, {});
    await db.rows(`UPDATE holdfast.inbox SET available_at = now() - interval '1 minute'`);
    const one = await stopped(
      /has a free handler, but none has taken it\. The database refuses: permission denied for table inbox\./,
    );
    expect(one.fix).toMatch(/^A right is missing: "rights" says which/);
    const rights = await found('rights', new RegExp(user));
    const grants = (rights.fix ?? '').split('\n').filter((line) => line.startsWith('GRANT '));
    expect(grants.join(' ')).toContain('UPDATE');
    for (const grant of grants) await db.rows(grant);
    await completed(id);
    await stop();
  });

  test('a worker is frozen, said before its time to live is over', async () => {
    const frozen = await readyWorker(db.url, {
      ...{ heartbeat: '200ms', ttl: '60s', lease: '60s', poll: '100ms' },
    });
    frozen.signal('SIGSTOP');
    onTestFinished(() => frozen.signal('SIGKILL'));
    await until('two heartbeats are missing', async () => {
      const [row] = await db.hf.workers();
      return row && row.silentMs > 500;
    });
    const one = await found('workers', /has missed/, { ...AT_ONCE, lateMs: 1 });
    expect(one.text).toContain(frozen.workerId);
    expect(one.fix).toContain(`kill -KILL ${frozen.pid}`);
  });
});

test('nothing is said of a fleet that is well: under load, idle, with paused parts, with delayed jobs and retries', async () => {
  const flaky = job<object>('flaky', { retry: () => '1h' });
  const step = job<object>('step_of_order', { queue: 'orders' });
  const end = gate();
  // Most of a backlog is old: only what has started tells that work goes on.
  const old = `UPDATE holdfast.inbox SET available_at = now() - interval '2 minutes', created_at = now() - interval '2 minutes'`;
  await db.hf.enqueueMany(Array.from({ length: 20 }, () => slow.item({})));
  await db.hf.enqueueMany([quick.item({}), flaky.item({})]);
  await db.hf.enqueue(quick, {}, { delay: '1h' });
  const held = await db.hf.enqueue(quick, {}, { partitionKey: 'paused' });
  await db.hf.pause('inbox', { type: 'later' });
  await db.hf.pause('inbox', { key: 'paused' });
  await db.hf.enqueue(job('later'), {});
  await db.rows(`${old} WHERE available_at <= now()`);
  await db.hf.enqueueMany([1, 2, 3].map((n) => step.item({}, { partitionKey: `order:${n % 2}` })));
  const well = async () =>
    // How fast the machine is does not matter here.
    (await findings({})).filter(
      ({ check, level }) => level === 'problem' && check !== 'round trip',
    );
  let slowRuns = 0;
  const { worker } = start(
    db.hf,
    (one) =>
      one
        .handle(quick, () => {})
        .handle(flaky, () => Promise.reject(new Error('later')))
        .handle(step, () => {})
        .handle(slow, () => (++slowRuns === 5 ? end.opened : undefined)),
    { ...SOON, concurrency: 1, prefetch: 0 },
  );
  await until('it holds the one that waits', () => slowRuns === 5);
  const busy = await db.hf.workers();
  expect(busy[0]?.id).toBe(worker.id);
  expect(await well()).toEqual([]);
  end.open();
  await until('all has run that may', () => worker.stats.completed + worker.stats.failed === 25);
  expect(await well()).toEqual([]);
  expect((await db.hf.job(held.id))?.status).toBe('pending');
});

test('work stands still in a fleet that says that nothing starts, and flows in one that says it does', async () => {
  const handles = { inbox: { send_receipt: 1 } };
  const load = (agoMs: number, running = 2) => ({
    ...{ concurrency: 2, ttlMs: 30_000 },
    load: {
      ...{ running, held: running, failed: {}, recent: { ms: 60_000, queues: {} } },
      queues: {
        inbox: {
          running,
          held: running,
          handlers: 2,
          fullMs: agoMs,
          started: { send_receipt: [0, agoMs] },
        },
      },
    },
  });
  for (let n = 0; n < 2; n++) {
    const id = await plantJob(db, { status: 'processing', worker: 'w1' });
    await db.rows(
      `UPDATE holdfast.inbox SET claimed_at = now() - interval '5 minutes' WHERE id = $1`,
      [id],
    );
  }
  await plantJob(db, { dueInMs: -120_000 });
  await plantWorker(db, { id: 'w1', handles, metadata: load(240_000) });
  const one = await red('stopped', {});
  expect(one?.text).toMatch(
    /^1 due job of "inbox" \(send_receipt\) does not start: the oldest has been due for 2 min.*, and none of the kind has started for 4 min/,
  );
  const scrape = async () => {
    const metrics = collectMetrics(db.hf);
    const text = await metrics.text();
    metrics.close();
    return Number(/^holdfast_queue_stopped_seconds\{queue="inbox"\} (.*)$/m.exec(text)?.[1]);
  };
  // All who show it agree.
  const stoppedMs = async () => (await db.hf.queues())[0]?.stoppedMs ?? null;
  expect(await stoppedMs()).toBeGreaterThanOrEqual(120_000);
  expect(await scrape()).toBeGreaterThanOrEqual(120);
  await db.rows(`UPDATE holdfast.workers SET metadata = $1`, [JSON.stringify(load(20_000))]);
  expect(await red('stopped', {})).toBeUndefined();
  expect(await stoppedMs()).toBeNull();
  expect(await scrape()).toBe(0);
});

test('what was claimed ahead by workers without a free handler stands still too, though nothing waits in the queue', async () => {
  const load = (fullMs: number, held: number) => ({
    ...{ concurrency: 2, ttlMs: 30_000 },
    load: {
      ...{ running: 2, held, failed: {}, recent: { ms: 60_000, queues: {} } },
      queues: { inbox: { running: 2, held, handlers: 2, fullMs, started: {} } },
    },
  });
  for (let n = 0; n < 5; n++) await plantJob(db, { status: 'processing', worker: 'w1' });
  await plantWorker(db, { id: 'w1', metadata: load(240_000, 5) });
  const one = await red('stopped', {});
  expect(one?.text).toMatch(
    /^3 due jobs of "inbox" \(send_receipt\) do not start: .* claimed ahead by w1 \(2 handlers\), where no handler has become free for 4 min/,
  );
  expect(one?.fix).toMatch(/\nholdfast jobs cancel [0-9a-f-]{36}\n.*\nholdfast workers drain w1$/);
  expect((await db.hf.queues())[0]?.stoppedMs).toBeGreaterThanOrEqual(240_000);
  // One that begins others, and one that has claimed nothing ahead.
  for (const well of [load(20_000, 5), load(240_000, 2)]) {
    await db.rows(`UPDATE holdfast.workers SET metadata = $1`, [JSON.stringify(well)]);
    expect(await red('stopped', {})).toBeUndefined();
    expect((await db.hf.queues())[0]?.stoppedMs).toBeNull();
  }
});
