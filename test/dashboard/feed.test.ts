/** Live updates: one poll for all pages and none for nobody, resumed where a page was cut off. */
import pg from 'pg';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { contextOf } from '../../packages/dashboard/src/context.js';
import { checkOptions } from '../../packages/dashboard/src/options.js';
import { eventStream } from '../../packages/dashboard/src/read/events.js';
import { problemsOf } from '../../packages/dashboard/src/read/problems.js';
import { holdfast, job, type ReadableQueue } from '../../packages/holdfast/src/index.js';
import { clearAll, plantJob, plantWorker } from '../support/cli-plant.js';
import { asking, eventsOf } from '../support/dashboard.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
afterEach(() => clearAll(db));

function fresh(connectionString = db.url) {
  const hf = holdfast({ connectionString, logger: quietLogger });
  onTestFinished(() => hf.close());
  const { handle } = asking(hf, { loopback: true });
  const open = async (headers: Record<string, string> = {}) => {
    const request = new Request('http://localhost/api/events', {
      headers: { host: 'localhost', ...headers },
    });
    const stream = eventsOf(await handle(request));
    onTestFinished(() => stream.close());
    return stream;
  };
  return { hf, handle, open };
}

test('a page sees queues, workers and what is wrong, and then what changes', async () => {
  const { open } = fresh();
  await plantJob(db);
  const stream = await open();
  const first = await stream.next();
  expect(first).toMatchObject({
    event: 'snapshot',
    data: { reset: true, snapshot: { queues: [{ queue: 'inbox', pending: 1 }], workers: [] } },
  });
  expect(first!.data.snapshot.problems[0]).toMatchObject({ level: 'bad', link: 'workers' });
  // Rates need two readings.
  expect(first!.data.samples).toEqual([]);
  await plantWorker(db, { id: 'w1', metadata: { ttlMs: 5_000 } });
  const second = await stream.next();
  const workers = [{ id: 'w1', ttlMs: 5_000 }];
  expect(second!.data).toMatchObject({ reset: false, snapshot: { workers } });
  expect(second!.data.samples).toHaveLength(1);
});

test('who was cut off gets the samples that he missed; a stranger gets all', async () => {
  const { open } = fresh();
  const stream = await open();
  const first = await stream.next();
  const [second, third] = [await stream.next(), await stream.next()];
  const resumed = await (await open({ 'last-event-id': first!.id as string })).next();
  expect(resumed).toMatchObject({ id: third!.id, data: { reset: false } });
  const times = (one: typeof first) => one!.data.samples.map(({ at }: { at: number }) => at);
  expect(times(resumed)).toEqual([...times(second), ...times(third)]);
  const stranger = await (await open({ 'last-event-id': 'ffffffff-1' })).next();
  expect(stranger!.data).toMatchObject({ reset: true });
  expect(stranger!.data.samples).toHaveLength(2);
});

test('a picture that is sent again has the clock of now beside it, so nothing seems to lie ahead', async () => {
  const { feed } = contextOf(db.hf, checkOptions({ loopback: true }), 60_000);
  onTestFinished(() => feed.close());
  const open = async () => (await eventsOf(eventStream(feed, null)).next())!.data;
  const first = await open();
  expect(first.now).toBeGreaterThanOrEqual(first.snapshot.at);
  await until('a later clock beside the same picture', async () => {
    const { now, snapshot } = await open();
    expect(snapshot.at).toBe(first.snapshot.at);
    return now > first.now;
  });
});

test('how long jobs waited to start, and how many attempts fail a second, are in the samples', async () => {
  await plantJob(db, { status: 'processing', worker: 'w1', dueInMs: -15_000 });
  const { open } = fresh();
  const stream = await open();
  const boom = job('boom');
  const failing = start(
    db.hf,
    (worker) =>
      worker.handle(boom, () => {
        throw new Error('boom');
      }),
    { heartbeat: '100ms', ttl: '30s' },
  );
  const figures = await until('a rate of failures', async () => {
    await db.hf.enqueue(boom, {}, { maxAttempts: 1 });
    const { samples } = (await stream.next())!.data;
    return samples
      .map((sample: { queues: { inbox: number[] } }) => sample.queues.inbox)
      .find((figures: number[]) => (figures[7] ?? 0) > 0);
  });
  // Claimed ten seconds ago, due five seconds before that.
  expect(figures[6]).toBeGreaterThan(1_000);
  await failing.stop();
});

/** The texts of all queries since. */
function spyQueries(): () => string[] {
  const query = vi.spyOn(pg.Client.prototype, 'query');
  onTestFinished(() => query.mockRestore());
  const textOf = (asked: unknown) => String((asked as { text?: string }).text ?? asked);
  return () => query.mock.calls.map(([asked]) => textOf(asked));
}

/** How often a transaction begins on a connection of the dashboard. */
function countReadings() {
  const queries = spyQueries();
  return () => queries().filter((text) => text.includes('READ ONLY')).length;
}

test('a poll reads no row of the archive, which grows by every job that ends', async () => {
  const { open } = fresh();
  const queries = spyQueries();
  const stream = await open();
  await stream.next();
  await stream.next();
  expect(queries().filter((text) => /FROM holdfast\.inbox AS/.test(text))).not.toEqual([]);
  expect(queries().filter((text) => /FROM holdfast\.inbox_archive/.test(text))).toEqual([]);
});

test('fifty pages cost one poll, and none when all are closed', async () => {
  const { open } = fresh();
  const readings = countReadings();
  /** Readings for each poll, over a few of them. */
  const costs = async (streams: Awaited<ReturnType<typeof open>>[]) => {
    const before = readings();
    let polls: number[] = [];
    for (let n = 0; n < 4; n++) {
      const heard = await Promise.all(streams.map((stream) => stream.next()));
      polls = heard.map((event) => Number(event?.id?.split('-')[1]));
    }
    return { readings: readings() - before, last: Math.max(...polls) };
  };
  const one = await open();
  const alone = await costs([one]);
  const many = await Promise.all(Array.from({ length: 49 }, () => open()));
  const all = await costs([one, ...many]);
  const each = alone.readings / alone.last;
  expect(all.readings / (all.last - alone.last)).toBeLessThanOrEqual(2 * each);
  await one.close();
  await Promise.all(many.map((stream) => stream.close()));
  await until('the poll on its way is over', async () => {
    const before = readings();
    await new Promise((resolve) => setTimeout(resolve, 200));
    return readings() === before;
  });
  const before = readings();
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(readings()).toBe(before);
});

test('a database that does not answer is said, again and again, until the Holdfast is closed', async () => {
  const { hf, open } = fresh('postgres://nobody@127.0.0.1:1/nowhere');
  const stream = await open();
  const down = { event: 'down', data: { error: expect.stringMatching(/cannot be reached/) } };
  expect(await stream.next()).toMatchObject(down);
  expect(await stream.next()).toMatchObject(down);
  const last = stream.next();
  await hf.close();
  expect([null, 'down']).toContain((await last)?.event ?? null);
  expect(await stream.next()).toBeNull();
});

test('an act that the database did not answer says where to look, and not that it is tried again', async () => {
  const { hf } = fresh('postgres://nobody@127.0.0.1:1/nowhere');
  const { post } = asking(hf, { loopback: true, write: true });
  expect(await post('/api/queues/inbox/pause', {})).toMatchObject({
    status: 503,
    body: { error: expect.stringMatching(/cannot be reached.*audit/) },
  });
});

test('a database without tables says how to make them', async () => {
  const hf = holdfast({ connectionString: db.url, schema: 'elsewhere', logger: quietLogger });
  onTestFinished(() => hf.close());
  const { get } = asking(hf, { loopback: true });
  for (const path of ['/api/queues', '/api/workers', '/api/ring', '/api/limits'])
    expect(await get(path)).toMatchObject({
      status: 503,
      body: { error: expect.stringContaining('holdfast migrate') },
    });
});

test('a stream ends after a while, so that whoever is let in no more is refused when he comes back', async () => {
  const hf = holdfast({ connectionString: db.url, logger: quietLogger });
  onTestFinished(() => hf.close());
  const { feed } = contextOf(hf, checkOptions({ loopback: true }), 50);
  const stream = eventsOf(eventStream(feed, null, 300));
  expect(await stream.next()).toMatchObject({ event: 'snapshot' });
  await until('it has ended', async () => (await stream.next()) === null);
  expect(feed.listeners).toBe(0);
});

test('what is wrong is said in words, the worst first', () => {
  const queue = {
    ...{ queue: 'mail', paused: false, pending: 3, expired: 0, deadLetter: 2, oldestDueMs: 90_000 },
    ...{
      unreadable: null,
      pausedTypes: [] as readonly string[],
      pausedKeys: [] as readonly string[],
      onHold: 0,
    },
  } as ReadableQueue;
  const worker = { id: 'w1', status: 'alive', state: 'alive', silentMs: 0 };
  expect(problemsOf([queue], [worker], [{ queue: 'mail', type: 'x', jobs: 1 }])).toEqual([
    {
      level: 'bad',
      text: 'No live worker handles 1 due job of type x in mail.',
      link: 'jobs?queue=mail&type=x',
    },
    {
      level: 'bad',
      text: 'Queue mail is behind: its oldest due job has waited for 1 min 30 s.',
      link: 'jobs?queue=mail&status=pending&order=oldest',
    },
    {
      level: 'note',
      text: '2 dead letters in mail wait for a person.',
      link: 'dead-letters?queue=mail',
    },
  ]);
  expect(problemsOf([{ ...queue, paused: true, deadLetter: 0 }], [], [])).toEqual([
    { level: 'note', text: 'Queue mail is paused; 3 jobs wait in it.', link: 'queues' },
  ]);
  const well = { ...queue, oldestDueMs: null, deadLetter: 0 };
  expect(problemsOf([well], [], [])).toEqual([]);
  expect(problemsOf([{ ...well, pausedTypes: ['a', 'b'] }], [], [])).toEqual([
    { level: 'note', text: 'Jobs of type a and 1 more part in mail are paused.', link: 'limits' },
  ]);
  // What is paused waits for a person, and is counted apart.
  const onHold = { ...well, pausedTypes: ['a'], onHold: 2 };
  expect(problemsOf([onHold], [worker], [])).toEqual([
    {
      level: 'note',
      text: 'Jobs of type a in mail are paused; 2 jobs wait for it.',
      link: 'limits',
    },
  ]);
  // What has stopped is said with its cause, and not a second time.
  const reason = {
    code: 'row_locked',
    text: 'Its row is locked by process 7.',
    fix: null,
  } as const;
  const stopped = {
    ...{ queue: 'mail', types: ['a'], jobs: 3, more: false, oldest: 'id' },
    ...{ dueMs: 90_000, idleMs: 120_000, reason },
  };
  expect(problemsOf([{ ...queue, deadLetter: 0 }], [worker], [], [stopped])).toEqual([
    {
      level: 'bad',
      text:
        '3 due jobs of "mail" (a) do not start: the oldest has been due for 1 min 30 s, and none of the kind has ' +
        'started for 2 min. Its row is locked by process 7.',
      link: 'jobs/id',
    },
  ]);
  // A fleet that was killed is nobody, although the registry calls it alive.
  const [first, second] = problemsOf(
    [queue],
    [{ ...worker, state: 'silent', silentMs: 45_000 }],
    [],
  );
  expect([first?.text, second?.text]).toEqual([
    expect.stringContaining('No worker is alive'),
    expect.stringContaining('silent for 45 s'),
  ]);
});

test('what is done a second is known of a queue that keeps no archive too', async () => {
  await db.hf.configureQueue('inbox', { archiveRetention: 0 });
  onTestFinished(() => db.hf.configureQueue('inbox', { archiveRetention: '7d' }));
  const stream = await fresh().open();
  const quick = job('quick');
  start(db.hf, (worker) => worker.handle(quick, () => undefined));
  await until('a rate of what is done', async () => {
    await db.hf.enqueue(quick, {});
    const { samples } = (await stream.next())!.data;
    return samples.some((one: { queues: { inbox: number[] } }) => (one.queues.inbox[1] ?? 0) > 0);
  });
});

test('workers beyond those that are shown are counted, and missed when they are silent', async () => {
  await db.rows(`INSERT INTO holdfast.workers (id, status, last_seen_at, started_at, handles, metadata)
    SELECT 'w' || n, 'alive', now() - CASE n WHEN 201 THEN interval '1 hour' ELSE interval '0' END,
      now() + n * interval '1 ms', '{}'::jsonb, '{"concurrency": 10, "load": {"running": 1, "held": 1}}'::jsonb
    FROM generate_series(1, 201) AS n`);
  const { snapshot } = (await (await fresh().open()).next())!.data;
  expect(snapshot).toMatchObject({
    moreWorkers: 1,
    fleet: { alive: 201, running: 200, handlers: 2_000 },
  });
  expect(JSON.stringify(snapshot.problems)).toContain('Worker w201 has been silent');
});
