/** The worker as a user meets it: how it starts, how much it takes on, and how it stops. */
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { ALONE_FROM } from '../../packages/holdfast/src/claim/suspects.js';
import {
  type Holdfast,
  holdfast,
  job,
  type WorkerOptions,
} from '../../packages/holdfast/src/index.js';
import { claimAs } from '../support/claiming.js';
import { testDatabase } from '../support/database.js';
import { Line } from '../support/line.js';
import { quietLogger, recordingLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const work = job<{ n?: number }>('work', { retry: () => 0 });
const waitFor: typeof until = (what, ask) => until(what, ask, { timeoutMs: 20_000 });

beforeEach(async () => {
  await db.rows('DELETE FROM holdfast.inbox');
  await db.hf.resume();
});

const ended = (id: string, status = 'completed') =>
  waitFor(`job ${id} is ${status}`, async () => (await db.hf.job(id))?.status === status);
const inState = async (status: string) =>
  Number(
    (await db.rows(`SELECT count(*) AS n FROM holdfast.inbox WHERE status = $1`, [status]))[0]?.n,
  );
const quiet = { handleSignals: false } as const;
const nothing = () => undefined;

/** The promise must settle by itself; a test that waits for a hanging one would only time out. */
async function promptly<Value>(promise: Promise<Value>): Promise<Value> {
  let settled = false;
  const seen = promise.finally(() => {
    settled = true;
  });
  seen.catch(nothing);
  await waitFor('it settles', () => settled);
  return seen;
}

describe('a worker that cannot start says why', () => {
  test('without handlers', async () => {
    const run = db.hf.worker(quiet).run();
    await expect(run).rejects.toMatchObject({
      code: 'HANDLER_MISSING',
      message: expect.stringMatching(/handle\(/),
    });
  });

  test('with a queue that no handler belongs to', async () => {
    const run = db.hf
      .worker({ ...quiet, queues: ['inbox', 'outbox'] })
      .handle(work, nothing)
      .run();
    await expect(run).rejects.toMatchObject({
      code: 'HANDLER_MISSING',
      message: expect.stringMatching(/"outbox"/),
    });
  });

  test('on a schema that was not migrated', async () => {
    const hf = holdfast({ connectionString: db.url, schema: 'elsewhere', logger: quietLogger });
    const run = hf.worker(quiet).handle(work, nothing).run();
    await expect(run).rejects.toMatchObject({
      code: 'SCHEMA_MISSING',
      message: expect.stringMatching(/holdfast migrate/),
    });
    await hf.close();
  });

  test('on a queue that was not created', async () => {
    const run = db.hf
      .worker(quiet)
      .handle(job('far', { queue: 'faraway' }), nothing)
      .run();
    await expect(run).rejects.toMatchObject({
      code: 'QUEUE_UNKNOWN',
      message: expect.stringMatching(/"faraway"/),
    });
  });

  test('on a database that does not exist', async () => {
    const url = new URL(db.url);
    url.pathname = '/no_such_database';
    const hf = holdfast({ connectionString: url.toString(), logger: quietLogger });
    const run = hf.worker(quiet).handle(work, nothing).run();
    await expect(run).rejects.toMatchObject({ code: '3D000' });
    await hf.close();
  });

  test('and a stop that was asked for meanwhile comes to its end', async () => {
    const hf = holdfast({ connectionString: db.url, schema: 'elsewhere', logger: quietLogger });
    const worker = hf.worker(quiet).handle(work, nothing);
    const run = worker.run();
    run.catch(nothing);
    await promptly(worker.stop());
    await promptly(run.catch(nothing));
    await hf.close();
  });

  test.each<[string, WorkerOptions, RegExp]>([
    [
      'renewals rarer than half of the lease',
      { lease: '10s', renewEvery: '6s' },
      /renewEvery.*half/,
    ],
    ['a ttl under three heartbeats', { ttl: '20s', heartbeat: '10s' }, /ttl.*three times/],
    ['no queue at all', { queues: [] }, /queues is empty/],
    ['an impossible queue name', { queues: ['In box'] }, /queue name/],
    ['no concurrency', { concurrency: 0 }, /concurrency/],
    ['half a handler', { concurrency: 1.5 }, /concurrency/],
    ['a batch of nothing', { batchSize: 0 }, /batchSize/],
    ['a negative prefetch', { prefetch: -1 }, /prefetch/],
    ['a lease that is too short', { lease: 1 }, /lease/],
    ['a lease that is no duration', { lease: 'soon' as '1s' }, /lease/],
    ['a poll of a year', { poll: '365d' }, /poll/],
  ])('with %s', (_, options, message) => {
    expect(() => db.hf.worker({ ...quiet, ...options })).toThrow(
      expect.objectContaining({
        code: expect.stringMatching(/OPTION_INVALID|NAME_INVALID/),
        message: expect.stringMatching(message),
      }),
    );
  });

  test('with a second handler for a type', () => {
    const worker = db.hf.worker(quiet).handle(work, nothing);
    expect(() => worker.handle(work, nothing)).toThrow(/handler for "work" already/);
  });

  test('when it is started twice, or given handlers too late', async () => {
    const { worker, stop } = start(db.hf, (w) => w.handle(work, nothing));
    await expect(worker.run()).rejects.toMatchObject({ code: 'WORKER_STATE' });
    expect(() => worker.handle(job('late'), nothing)).toThrow(/before run\(\)/);
    await stop();
    await expect(worker.run()).rejects.toMatchObject({ code: 'WORKER_STATE' });
  });
});

describe('how much a worker takes on', () => {
  test('a claim takes at most what it asked for', async () => {
    await db.hf.enqueueMany(
      Array.from({ length: 500 }, (_, n) => work.item({ n }, { partitionKey: `k${n % 40}` })),
    );
    for (const limit of [1, 7, 250]) {
      const rows = await claimAs(db.engine, 'w1', { types: ['work'], limit });
      expect(rows).toHaveLength(limit);
    }
    expect(await inState('processing')).toBe(258);
    expect(await claimAs(db.engine, 'w1', { types: ['work'] })).toHaveLength(242);
  });

  test('without prefetch it holds as many jobs as it has handlers, and no more', async () => {
    await db.hf.enqueueMany(Array.from({ length: 50 }, (_, n) => work.item({ n })));
    const open = gate();
    let running = 0;
    const { worker } = start(
      db.hf,
      (w) =>
        w.handle(work, async () => {
          running += 1;
          await open.opened;
        }),
      { concurrency: 3, prefetch: 0 },
    );
    await waitFor('three handlers run', () => running === 3);
    const before = worker.stats.claimed;
    // A few polls later it must still be so.
    for (let polls = 0; polls < 10; polls++) await db.hf.job(crypto.randomUUID());
    expect([running, before, await inState('processing')]).toEqual([3, 3, 3]);
    open.open();
    await waitFor('all ran', () => worker.stats.completed === 50);
  });

  test('a handler that is free takes the next job while all the others are busy', async () => {
    const busy = gate();
    const seen: number[] = [];
    start(
      db.hf,
      (w) =>
        w.handle(work, async ({ payload }) => {
          seen.push(payload.n as number);
          if ((payload.n as number) < 3) await busy.opened;
        }),
      { concurrency: 4, prefetch: 0 },
    );
    await db.hf.enqueueMany([0, 1, 2].map((n) => work.item({ n })));
    await waitFor('three of four handlers are busy', () => seen.length === 3);
    await db.hf.enqueue(work, { n: 3 });
    await waitFor('the fourth handler takes the fourth job', () => seen.includes(3)).finally(
      busy.open,
    );
  });

  test('nothing is claimed ahead before the first handler has ended', async () => {
    await db.hf.enqueueMany(Array.from({ length: 50 }, (_, n) => work.item({ n })));
    const open = gate();
    let running = 0;
    const { worker } = start(
      db.hf,
      (w) =>
        w.handle(work, async () => {
          running += 1;
          await open.opened;
        }),
      { concurrency: 3 },
    );
    await waitFor('three handlers run', () => running === 3);
    for (let polls = 0; polls < 10; polls++) await db.hf.job(crypto.randomUUID());
    expect([worker.stats.claimed, await inState('processing')]).toEqual([3, 3]);
    open.open();
    await waitFor('all ran', () => worker.stats.completed === 50);
  });

  test('jobs claimed ahead do not wait behind slow handlers while another worker is idle', async () => {
    const busy = gate();
    const byFirst: number[] = [];
    const bySecond: number[] = [];
    // By the quick ones it learns to claim ahead, and so it has some of the others in hand.
    const slowFrom = 500;
    const items = Array.from({ length: slowFrom + 20 }, (_, n) => work.item({ n }));
    await db.hf.enqueueMany(items);
    const first = start(
      db.hf,
      (w) =>
        w.handle(work, ({ payload }) => {
          byFirst.push(payload.n as number);
          return (payload.n as number) < slowFrom ? undefined : busy.opened;
        }),
      { concurrency: 1 },
    );
    await waitFor('the first worker is busy', () => byFirst.length === slowFrom + 1);
    start(db.hf, (w) => w.handle(work, ({ payload }) => bySecond.push(payload.n as number)), {
      concurrency: 1,
    });
    await waitFor('the second worker runs the others', () => bySecond.length === 19).finally(
      busy.open,
    );
    await waitFor('it has told so', () => first.worker.stats.released > 0);
    expect(byFirst).toEqual(Array.from({ length: slowFrom + 1 }, (_, n) => n));
  });

  test('whoever has a free handler takes the next job, whoever else is busy', async () => {
    const busy = gate();
    const seen: string[] = [];
    const two = ['a', 'b'].map((name) =>
      start(
        db.hf,
        (w) =>
          w.handle(work, async ({ payload }) => {
            seen.push(name);
            if (payload.n === 0) await busy.opened;
          }),
        { concurrency: 1 },
      ),
    );
    await db.hf.enqueue(work, { n: 0 });
    await waitFor('one of them is busy', () => seen.length === 1);
    await db.hf.enqueueMany(Array.from({ length: 100 }, (_, n) => work.item({ n: n + 1 })));
    await waitFor('the other one does all the rest', () => seen.length === 101).finally(busy.open);
    expect(new Set(seen.slice(1))).toEqual(new Set([seen[0] === 'a' ? 'b' : 'a']));
    await waitFor('all are settled', () => {
      return two.reduce((sum, { worker }) => sum + worker.stats.completed, 0) === 101;
    });
  });

  test('while a suspect waits to run alone, nothing else is claimed', async () => {
    const open = [gate(), gate()];
    const begun: number[] = [];
    let claimedWithSuspect = 0;
    const { worker } = start(
      db.hf,
      (w) =>
        w.handle(work, async ({ payload }) => {
          begun.push(payload.n as number);
          if (payload.n === 9) claimedWithSuspect = worker.stats.claimed;
          await open[payload.n as number]?.opened;
        }),
      { concurrency: 2 },
    );
    const suspect = await db.hf.enqueue(work, { n: 9 }, { delay: '1h' });
    await db.hf.enqueueMany([0, 1].map((n) => work.item({ n })));
    await waitFor('both handlers are busy', () => begun.length === 2);
    await db.hf.enqueueMany([2, 3, 4].map((n) => work.item({ n }, { delay: 600 })));
    await db.rows('UPDATE holdfast.inbox SET crashes = $2, available_at = now() WHERE id = $1', [
      suspect.id,
      ALONE_FROM,
    ]);
    await waitFor('the others are due', async () => {
      const text = `SELECT FROM holdfast.inbox WHERE status = 'pending' AND available_at > now()`;
      return (await db.rows(text)).length === 0;
    });
    open[0]?.open();
    await waitFor('the suspect is claimed', async () => {
      return (await db.hf.job(suspect.id))?.status === 'processing';
    });
    // What was claimed before it has run by then.
    await waitFor('the other busy one and the suspect are left', () => {
      const { claimed, completed } = worker.stats;
      return claimed - completed === 2;
    });
    const { claimed } = worker.stats;
    open[1]?.open();
    await waitFor('all ran', () => worker.stats.completed === 6);
    expect(claimedWithSuspect).toBe(claimed);
    expect(worker.stats.released).toBe(0);
  });

  test('a queue named twice is one queue', async () => {
    const open = gate();
    let running = 0;
    start(
      db.hf,
      (w) =>
        w.handle(work, async () => {
          running += 1;
          await open.opened;
        }),
      { queues: ['inbox', 'inbox'], concurrency: 2, prefetch: 0 },
    );
    await db.hf.enqueueMany(Array.from({ length: 10 }, () => work.item({})));
    await waitFor('two handlers run', () => running >= 2);
    for (let polls = 0; polls < 10; polls++) await db.hf.job(crypto.randomUUID());
    expect(running).toBe(2);
    open.open();
  });

  test('jobs of a higher priority run first', async () => {
    const seen: number[] = [];
    await db.hf.enqueueMany(
      ([4, 2, 3, 1, 4, 1, 3, 2] as const).map((priority) =>
        work.item({ n: priority }, { priority }),
      ),
    );
    const { worker } = start(
      db.hf,
      (w) => w.handle(work, ({ payload }) => seen.push(payload.n as number)),
      { concurrency: 1, prefetch: 0 },
    );
    await waitFor('all ran', () => worker.stats.completed === 8);
    expect(seen).toEqual([1, 1, 2, 2, 3, 3, 4, 4]);
  });

  test('a paused queue runs nothing until it is resumed', async () => {
    await db.hf.pause();
    const { worker } = start(db.hf, (w) => w.handle(work, nothing));
    const { id } = await db.hf.enqueue(work, {});
    expect(await claimAs(db.engine, 'w1', { types: ['work'] })).toEqual([]);
    for (let polls = 0; polls < 10; polls++) await db.hf.job(id);
    expect(worker.stats.claimed).toBe(0);
    await db.hf.resume();
    await ended(id);
  });
});

describe('listeners do no harm', () => {
  const complaints = async (onEvent: () => unknown) => {
    const log = recordingLogger();
    const hf = holdfast({ connectionString: db.url, logger: log });
    const { worker, stop } = start(hf, (w) => w.handle(work, nothing), {
      onEvent: onEvent as () => void,
    });
    const { id } = await hf.enqueue(work, {});
    await ended(id);
    expect(worker.stats).toMatchObject({ completed: 1, lost: 0 });
    await stop();
    await hf.close();
    return log.lines.filter(({ message }) => message?.includes('onEvent'));
  };

  test('that throw', async () => {
    const lines = await complaints(() => {
      throw new Error('bug in the metrics');
    });
    expect(JSON.stringify(lines)).toContain('bug in the metrics');
  });

  test('that throw what cannot be made text', async () => {
    const lines = await complaints(() => {
      throw Object.create(null);
    });
    expect(lines).not.toEqual([]);
  });

  test('that are async and reject', async () => {
    const lines = await complaints(async () => {
      throw new Error('bug in the metrics');
    });
    expect(JSON.stringify(lines)).toContain('bug in the metrics');
  });
});

test('after an outage the log says that the database is back', async () => {
  const line = await Line.to(db.url);
  await line.mend();
  const logger = recordingLogger();
  const hf = holdfast({ connectionString: line.url, logger });
  const { events, stop } = start(hf, (w) => w.handle(work, nothing));
  const said = (words: string) => logger.lines.some(({ message }) => message === words);
  await waitFor('it runs', () => events.some(({ kind }) => kind === 'started'));
  expect(said('the database answers again')).toBe(false);
  line.cut();
  await waitFor('it has noticed', () => said('worker error'));
  expect(said('the database answers again')).toBe(false);
  await line.mend();
  await waitFor('it says so', () => said('the database answers again'));
  await stop();
  await hf.close();
});

describe('stopping', () => {
  const registered = async (id: string) =>
    (await db.rows('SELECT status FROM holdfast.workers WHERE id = $1', [id]))[0]?.status;

  test('an idle worker stops at once, leaves the registry, and run() resolves', async () => {
    const { worker, running, events } = start(db.hf, (w) => w.handle(work, nothing));
    await waitFor('it runs', () => events.some(({ kind }) => kind === 'started'));
    expect(await registered(worker.id)).toBe('alive');
    await promptly(worker.stop());
    await promptly(running);
    expect(await registered(worker.id)).toBe('dead');
    expect(events.at(-1)).toMatchObject({ kind: 'stopped' });
    await promptly(worker.stop());
  });

  test('one that stops while it registers is not left behind as alive', async () => {
    const worker = db.hf.worker(quiet).handle(work, nothing);
    const client = await db.pool.connect();
    // Its INSERT waits for whoever has written the same id.
    await client.query('BEGIN');
    await client.query('INSERT INTO holdfast.workers (id) VALUES ($1)', [worker.id]);
    const run = worker.run();
    await waitFor('it registers', async () => {
      const waiting = await db.rows(`SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO%workers%'`);
      return waiting.length > 0;
    });
    await promptly(worker.stop());
    await promptly(run);
    await client.query('ROLLBACK');
    client.release();
    await waitFor('it is dead', async () => (await registered(worker.id)) === 'dead');
  });

  test('nor is one that stops while it registers anew', async () => {
    await db.rows(`CREATE FUNCTION wait_to_register() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$`);
    onTestFinished(async () => void (await db.rows('DROP FUNCTION wait_to_register CASCADE')));
    const { worker, running } = start(db.hf, (w) => w.handle(work, nothing), quiet);
    await waitFor('it is there', async () => (await registered(worker.id)) === 'alive');
    await db.rows(`CREATE TRIGGER wait_to_register BEFORE INSERT ON holdfast.workers
      FOR EACH ROW EXECUTE FUNCTION wait_to_register()`);
    const client = await db.pool.connect();
    await client.query('SELECT pg_advisory_lock(4711)');
    await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = $1`, [worker.id]);
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await waitFor('it registers anew', async () => (await db.rows(waiting)).length > 0);
    await promptly(worker.stop());
    await promptly(running);
    await client.query('SELECT pg_advisory_unlock(4711)');
    client.release();
    await waitFor('nobody waits', async () => (await db.rows(waiting)).length === 0);
    const left = `SELECT id FROM holdfast.workers WHERE status <> 'dead' AND handles ? 'inbox'`;
    expect(await db.rows(left)).toEqual([]);
  });

  test('one that was never started can be stopped', async () => {
    const worker = db.hf.worker(quiet).handle(work, nothing);
    await promptly(worker.stop());
    await expect(worker.run()).rejects.toMatchObject({ code: 'WORKER_STATE' });
  });

  test('a busy worker lets its handlers end and leaves what has not begun', async () => {
    await db.hf.enqueueMany(Array.from({ length: 20 }, (_, n) => work.item({ n })));
    const open = gate();
    let begun = 0;
    const { worker, running } = start(
      db.hf,
      (w) =>
        w.handle(work, async ({ signal }) => {
          begun += 1;
          await open.opened;
          if (signal.aborted) throw signal.reason;
        }),
      { concurrency: 2 },
    );
    await waitFor('two handlers run', () => begun === 2);
    const stopped = worker.stop();
    await waitFor('the rest is pending', async () => (await inState('pending')) === 18);
    open.open();
    await promptly(stopped);
    await promptly(running);
    expect(worker.stats).toMatchObject({ completed: 2, failed: 0, lost: 0 });
    const left = await db.rows(
      `SELECT status::text, attempts, claimed_by, count(*)::int
       FROM holdfast.inbox GROUP BY 1, 2, 3`,
    );
    expect(left).toEqual([{ status: 'pending', attempts: 0, claimed_by: null, count: 18 }]);
  });

  test('after the grace period handlers are aborted, and their jobs handed back unspent', async () => {
    const { id } = await db.hf.enqueue(work, {});
    const begun = gate();
    const reason = gate<unknown>();
    const { worker, running } = start(db.hf, (w) =>
      w.handle(work, async ({ signal }) => {
        begun.open();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        reason.open(signal.reason);
      }),
    );
    await begun.opened;
    await promptly(worker.stop({ grace: 0 }));
    await promptly(running);
    expect(await reason.opened).toMatchObject({ code: 'STOPPED' });
    expect(await db.hf.job(id)).toMatchObject({ status: 'pending', attempts: 0, claimedBy: null });
    expect(worker.stats).toMatchObject({ released: 1, completed: 0, failed: 0 });
  });

  test('a handler that hears nothing does not keep the worker from stopping', async () => {
    const { id } = await db.hf.enqueue(work, {});
    const begun = gate();
    const never = gate();
    const { worker, running } = start(db.hf, (w) =>
      w.handle(work, async () => {
        begun.open();
        await never.opened;
      }),
    );
    await begun.opened;
    await promptly(worker.stop({ grace: 0 }));
    await promptly(running);
    expect(await db.hf.job(id)).toMatchObject({ status: 'pending', attempts: 0 });
    never.open();
  });

  test('a suspect that was cancelled while it waited does not hold up the stop', async () => {
    const open = gate();
    const begun = gate();
    const { worker } = start(
      db.hf,
      (w) =>
        w.handle(work, async ({ payload }) => {
          if (payload.n === 1) begun.open();
          if (payload.n === 1) await open.opened;
        }),
      { lease: '10s', renewEvery: '100ms' },
    );
    await db.hf.enqueue(work, { n: 1 });
    await begun.opened;
    const { id } = await db.hf.enqueue(work, { n: 2 }, { delay: '1h' });
    await db.rows('UPDATE holdfast.inbox SET crashes = $2, available_at = now() WHERE id = $1', [
      id,
      ALONE_FROM,
    ]);
    // It waits for the other one to end: it must be the only one that runs.
    await waitFor('the suspect is claimed', () => worker.stats.claimed === 2);
    await db.hf.cancel([id]);
    await waitFor('it is lost', () => worker.stats.lost === 1);
    open.open();
    await waitFor('the other one is done', () => worker.stats.completed === 1);
    await promptly(worker.stop({ grace: 60_000 }));
  });
});

describe('another queue, another schema', () => {
  async function throughBothQueues(hf: Holdfast) {
    const into = job<{ n: number }>('into');
    const out = job<{ n: number }>('out', { queue: 'outbox' });
    const seen: string[] = [];
    const { worker, events, stop } = start(hf, (w) =>
      w
        .handle(into, async ({ payload, queue, transaction }) => {
          seen.push(`${queue}:${payload.n}`);
          return transaction;
        })
        .handle(out, ({ payload, queue }) => seen.push(`${queue}:${payload.n}`)),
    );
    const first = await hf.enqueue(into, { n: 1 });
    const second = await hf.enqueue(out, { n: 2 }, { idempotencyKey: 'two' });
    expect(await hf.enqueue(out, { n: 2 }, { idempotencyKey: 'two' })).toEqual({
      id: second.id,
      deduplicated: true,
    });
    await waitFor('both ran', () => worker.stats.completed === 2);
    expect(seen.sort()).toEqual(['inbox:1', 'outbox:2']);
    expect(await hf.job(first.id)).toMatchObject({ status: 'completed' });
    expect(await hf.job(first.id, { queue: 'outbox' })).toBeNull();
    expect(await hf.job(second.id, { queue: 'outbox' })).toMatchObject({ status: 'completed' });
    expect(await hf.job(second.id, { queue: 'inbox' })).toBeNull();
    await waitFor('both queues are kept tidy', () =>
      ['inbox', 'outbox'].every((queue) =>
        events.some((event) => event.kind === 'maintained' && event.queue === queue),
      ),
    );
    await stop();
  }

  test('one worker serves inbox and outbox', async () => {
    expect(await db.hf.createQueue('outbox')).toBe(true);
    await db.rows('UPDATE holdfast.queues SET maintained_at = NULL');
    await throughBothQueues(db.hf);
  });

  test('the same in a schema of another name, beside the first', async () => {
    const hf = holdfast({ connectionString: db.url, schema: 'tenant_7', logger: quietLogger });
    await hf.migrate();
    await hf.createQueue('outbox');
    await throughBothQueues(hf);
    await hf.close();
  });

  test.each(['repeatable read', 'serializable'])(
    'two workers and ten producers share a queue without errors where the database prefers %s',
    async (level) => {
      const name = new URL(db.url).pathname.slice(1);
      await db.rows(`ALTER DATABASE ${name} SET default_transaction_isolation = '${level}'`);
      const hf = holdfast({ connectionString: db.url, logger: quietLogger });
      const two = [1, 2].map(() => start(hf, (w) => w.handle(work, nothing)));
      const ids = await Promise.all(
        Array.from({ length: 300 }, (_, n) =>
          hf.enqueue(work, { n: n % 100 }, { idempotencyKey: `${level}:${n % 100}` }),
        ),
      );
      await waitFor(
        'all ran',
        () => two.reduce((n, { worker }) => n + worker.stats.completed, 0) === 100,
      );
      for (const { stop } of two) await stop();
      await hf.close();
      await db.rows(`ALTER DATABASE ${name} RESET default_transaction_isolation`);
      expect(new Set(ids.map(({ id }) => id)).size).toBe(100);
      const errors = two.flatMap(({ events }) => events.filter(({ kind }) => kind === 'error'));
      expect(errors).toEqual([]);
    },
  );

  test('one call enqueues into one queue', async () => {
    const other = job('other', { queue: 'outbox' });
    await expect(db.hf.enqueueMany([work.item({}), other.item({})])).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('one queue'),
    });
    expect(await inState('pending')).toBe(0);
  });
});
