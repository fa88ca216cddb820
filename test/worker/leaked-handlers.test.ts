/**
 * Handlers that never end although their jobs have left the worker: each frees its place after a grace and counts as
 * leaked until it ends, so a worker is never full of them and looks healthy.
 */
import pg from 'pg';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { holdfast, job, type WorkerEvent } from '../../packages/holdfast/src/index.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { testDatabase } from '../support/database.js';
import { examine } from '../support/doctor.js';
import { quietLogger, recordingLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const stuck = job<{ n: number }>('stuck', { maxAttempts: 1 });
const quick = job<{ n: number }>('quick');
/** A cancelled job is noticed at the next renewal. The lease outlasts any pause of a busy machine: none runs out. */
const SOON = {
  lease: '30s',
  renewEvery: '200ms',
  leakGrace: '100ms',
  concurrency: 2,
  heartbeat: '50ms',
  ttl: '10s',
} as const;

beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive, holdfast.inbox_claims'));

const leaked = (events: readonly WorkerEvent[]) =>
  events.reduce(
    (sum, { kind }) => sum + (kind === 'leaked' ? 1 : kind === 'leak-ended' ? -1 : 0),
    0,
  );
const startedJobs = (events: readonly WorkerEvent[], type: string) =>
  events.filter((event) => event.kind === 'started-job' && event.type === type).length;

test('handlers whose jobs were cancelled free their places: the worker goes on, and says that they run on', async () => {
  const log = recordingLogger();
  const hf = holdfast({ connectionString: db.url, logger: log });
  onTestFinished(() => hf.close());
  const scrape = collectMetrics(hf);
  onTestFinished(() => scrape.close());
  const end = gate();
  const { worker, events } = start(
    hf,
    (w) => w.handle(stuck, () => end.opened).handle(quick, () => {}),
    SOON,
  );
  // Twice as many as there are places.
  for (const round of [1, 2]) {
    const ids = await hf.enqueueMany([stuck.item({ n: 1 }), stuck.item({ n: 2 })]);
    await until('both have started', () => startedJobs(events, 'stuck') === 2 * round);
    await hf.cancel(ids.map(({ id }) => id));
    await until('their places are free', () => leaked(events) === 2 * round);
  }
  await hf.enqueue(quick, { n: 1 });
  await until('others run', () => worker.stats.completed === 1);
  const text = await scrape.text();
  expect(text).toMatch(/^holdfast_worker_leaked_handlers\{queue="inbox",type="stuck"\} 4$/m);
  const lines = log.lines.filter(({ message }) => message?.startsWith('a handler runs on'));
  expect(lines).toHaveLength(4);
  expect(lines[3]).toMatchObject({
    level: 'warn',
    facts: { queue: 'inbox', type: 'stuck', leaked: 4 },
  });
  const finding = await until('the doctor knows', async () =>
    (await examine(db.url, { compared: false })).find(
      ({ check, text }) => check === 'leaked handlers' && text.includes('4 handlers'),
    ),
  );
  expect(finding.text).toContain(`4 handlers of stuck (inbox) in worker ${worker.id}`);
  expect(finding.fix).toContain(`holdfast workers drain ${worker.id}`);
  // So does explain, of a job that waits while all handlers are busy.
  await hf.enqueueMany([stuck.item({ n: 3 }), stuck.item({ n: 4 })]);
  await until('both have started', () => startedJobs(events, 'stuck') === 6);
  const { id } = await hf.enqueue(quick, { n: 2 });
  const explained = await hf.explain(id);
  expect(explained.text).toContain(
    '4 handlers of stuck run on in it although their jobs have left',
  );
  expect(explained.fix).toBe(
    `Restart worker ${worker.id}, or: holdfast workers drain ${worker.id}`,
  );

  end.open();
  await until('they have ended', () => leaked(events) === 0);
  expect(await scrape.text()).toMatch(
    /^holdfast_worker_leaked_handlers\{queue="inbox",type="stuck"\} 0$/m,
  );
  // What they settle counts for nothing.
  expect(worker.stats).toMatchObject({ lost: 4, failed: 0 });
  const rows = await db.rows(
    `SELECT FROM holdfast.inbox_archive WHERE type = 'stuck' AND status = 'cancelled'`,
  );
  expect(rows).toHaveLength(4);
});

test('a handler that goes on after its time limit counts as leaked until it ends', async () => {
  const end = gate();
  await db.hf.enqueue(stuck, { n: 1 });
  const { worker, events } = start(db.hf, (w) => w.handle(stuck, () => end.opened), {
    ...SOON,
    timeout: '50ms',
  });
  await until('it failed', () => worker.stats.dead_letter === 1);
  await until('it counts as leaked', () => leaked(events) === 1);
  end.open();
  await until('it has ended', () => leaked(events) === 0);
  expect(worker.stats).toMatchObject({ completed: 0, dead_letter: 1, lost: 0 });
});

test('a handler that ends within its grace is not leaked', async () => {
  const { id } = await db.hf.enqueue(stuck, { n: 1 });
  const { worker, events } = start(
    db.hf,
    (w) =>
      w.handle(stuck, async ({ signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      }),
    { ...SOON, leakGrace: '30s' },
  );
  await until('it has started', () => startedJobs(events, 'stuck') === 1);
  await db.hf.cancel([id]);
  await until('it is lost', () => worker.stats.lost === 1);
  expect(events.filter(({ kind }) => kind === 'leaked')).toEqual([]);
});

test('a batch that never ends frees its place too, and counts once', async () => {
  const end = gate();
  const { worker, events } = start(
    db.hf,
    (w) => w.handleMany(stuck, { max: 3, within: '10s' }, () => end.opened).handle(quick, () => {}),
    { ...SOON, concurrency: 1 },
  );
  const ids = await db.hf.enqueueMany([1, 2, 3].map((n) => stuck.item({ n })));
  await until('they have started', () => startedJobs(events, 'stuck') === 3);
  await db.hf.cancel(ids.map(({ id }) => id));
  await until('its place is free', () => leaked(events) === 1);
  await db.hf.enqueue(quick, { n: 1 });
  await until('others run', () => worker.stats.completed === 1);
  end.open();
  await until('it has ended', () => leaked(events) === 0);
  expect(worker.stats.lost).toBe(3);
});

test('the connection of a leaked transaction goes back: others get one, and its locks are gone', async () => {
  await db.rows('CREATE TABLE IF NOT EXISTS paid (n integer PRIMARY KEY)');
  const pool = new pg.Pool({ connectionString: db.url, max: 1 });
  onTestFinished(() => pool.end());
  const hf = holdfast({ pool, logger: quietLogger });
  onTestFinished(() => hf.close());
  const end = gate();
  const thrown = gate<unknown>();
  const { id } = await db.hf.enqueue(stuck, { n: 1 });
  const { worker, events } = start(
    hf,
    (w) =>
      w
        .handle(stuck, (ctx) =>
          ctx
            .transaction(async (tx) => {
              await tx.query('INSERT INTO paid VALUES (1)');
              await end.opened;
              await tx.query('SELECT 1');
            })
            .catch((error) => {
              thrown.open(error);
              throw error;
            }),
        )
        .handle(quick, (ctx) => ctx.transaction((tx) => tx.query('INSERT INTO paid VALUES (1)'))),
    SOON,
  );
  const open = async () =>
    (
      await db.rows(
        `SELECT FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE 'INSERT INTO paid%'`,
      )
    ).length;
  await until('its transaction is open', async () => (await open()) === 1);
  await db.hf.cancel([id]);
  await until('it counts as leaked', () => leaked(events) === 1);
  await until('its transaction is gone', async () => (await open()) === 0);
  // The same row, by the only connection that the pool may have.
  await db.hf.enqueue(quick, { n: 1 });
  await until('others get a connection', () => worker.stats.completed === 1);
  end.open();
  expect(await thrown.opened).toBeInstanceOf(Error);
  await until('it has ended', () => leaked(events) === 0);
  expect(worker.stats).toMatchObject({ completed: 1, failed: 0, lost: 1 });
});

test('with maxLeaked the worker drains by itself, and run() resolves', async () => {
  const end = gate();
  onTestFinished(() => end.open());
  const { worker, events, running } = start(
    db.hf,
    (w) => w.handle(stuck, () => end.opened).handle(quick, () => {}),
    { ...SOON, maxLeaked: 2 },
  );
  const ids = await db.hf.enqueueMany([stuck.item({ n: 1 }), stuck.item({ n: 2 })]);
  await until('both have started', () => startedJobs(events, 'stuck') === 2);
  await db.hf.cancel([(ids[0] as { id: string }).id]);
  await until('one is leaked', () => leaked(events) === 1);
  await db.hf.enqueue(quick, { n: 1 });
  await until('it goes on', () => worker.stats.completed === 1);
  await db.hf.cancel([(ids[1] as { id: string }).id]);
  await running;
  expect(leaked(events)).toBe(2);
  expect(events.at(-1)?.kind).toBe('stopped');
});

test('a job in quarantine neither waits for leaked handlers nor is blamed beside them', async () => {
  const end = gate();
  onTestFinished(() => end.open());
  const isolated: unknown[] = [];
  const { worker, events } = start(
    db.hf,
    (w) =>
      w
        .handle(stuck, () => end.opened)
        .handle(quick, async ({ id }) => {
          const [row] = await db.rows('SELECT isolated FROM holdfast.inbox WHERE id = $1', [id]);
          isolated.push(row);
        }),
    SOON,
  );
  const { id } = await db.hf.enqueue(stuck, { n: 1 });
  await until('it has started', () => startedJobs(events, 'stuck') === 1);
  await db.hf.cancel([id]);
  await until('it is leaked', () => leaked(events) === 1);
  const from = performance.now();
  await db.hf.pause('inbox');
  const suspect = await db.hf.enqueue(quick, { n: 1 });
  await db.rows('UPDATE holdfast.inbox SET crashes = 4 WHERE id = $1', [suspect.id]);
  await db.hf.resume('inbox');
  await until('the suspect has run', () => worker.stats.completed === 1);
  // Without a leak it would wait for handlers for up to 5 s.
  expect(performance.now() - from).toBeLessThan(4_500);
  expect(isolated).toEqual([{ isolated: false }]);
});
