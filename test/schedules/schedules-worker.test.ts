/** Schedules as a fleet runs them: on time, woken by a new one, by one worker, and through its end. */
import { beforeEach, expect, test } from 'vitest';
import { holdfast, job, type WorkerEvent } from '../../packages/holdfast/src/index.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const beat = job<{ n: number }>('beat');
const every = { every: '1s', job: beat, payload: { n: 1 } } as const;

beforeEach(async () => {
  for (const table of ['schedules', 'inbox', 'inbox_archive', 'inbox_idempotency'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

const ticked = (events: readonly WorkerEvent[]) =>
  events.flatMap((event) => (event.kind === 'ticked' ? [event] : []));

test('a schedule that is made wakes the worker, and its handler is told the instant', async () => {
  const seen: (Date | null)[] = [];
  const { events } = start(db.hf, (w) => w.handle(beat, (ctx) => void seen.push(ctx.scheduledAt)));
  await until('it sleeps', () => events.some(({ kind }) => kind === 'started'));
  await db.hf.enqueue(beat, { n: 0 });
  await until('the first job ran', () => seen.length === 1);
  expect(seen).toEqual([null]);
  await db.hf.schedule('beat', every);
  // Unwoken it would sleep for 15 seconds.
  await until('it ticked', () => seen.length >= 3, { timeoutMs: 10_000 });
  const [first, second] = seen.slice(1) as Date[];
  expect((first as Date).getTime() % 1_000).toBe(0);
  expect((second as Date).getTime() - (first as Date).getTime()).toBe(1_000);
  expect(ticked(events).every(({ missed, skipped }) => missed + skipped === 0)).toBe(true);
});

test('of a fleet one writes the ticks; when it goes, another does, and no tick is lost or doubled', async () => {
  const others = holdfast({ connectionString: db.url, logger: quietLogger });
  const fleet = [db.hf, others, db.hf].map((hf) =>
    start(hf, (w) => w.handle(beat, () => undefined), { heartbeat: '200ms', ttl: '2s' }),
  );
  await until('all run', () =>
    fleet.every(({ events }) => events.some(({ kind }) => kind === 'started')),
  );
  await db.hf.schedule('beat', { ...every, catchUp: 'all' });
  const writers = () => fleet.filter(({ events }) => ticked(events).length > 0);
  await until('one ticks', () => writers().some(({ events }) => ticked(events).length >= 2));
  expect(writers()).toHaveLength(1);
  const leader = writers()[0] as (typeof fleet)[number];
  await leader.stop();
  // And what a restart of the database does to its connections.
  await db
    .rows(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()`)
    .catch(() => undefined);
  await until('another ticks', () => writers().length >= 2);
  await until('and again', async () => {
    const [row] = await db.rows('SELECT ticks::int AS ticks FROM holdfast.schedules');
    return (row?.ticks as number) >= 6;
  });
  await db.hf.schedules.pause('beat');
  const [row] = await db.rows<Record<string, number>>(`
    WITH jobs AS (
      SELECT headers ->> 'holdfast_scheduled_at' AS at FROM holdfast.inbox
      UNION ALL SELECT headers ->> 'holdfast_scheduled_at' FROM holdfast.inbox_archive)
    SELECT count(*)::int AS jobs, count(DISTINCT at)::int AS instants,
      extract(epoch FROM max(at)::timestamptz - min(at)::timestamptz)::int + 1 AS seconds FROM jobs`);
  expect(row?.jobs).toBe(row?.instants);
  expect(row?.jobs).toBe(row?.seconds);
  await others.close();
});

test('metrics say how many ticks there were and how late, and what is overdue', async () => {
  const metrics = collectMetrics(db.hf, { freshFor: 0 });
  await db.hf.schedule('beat', { ...every, every: '1h', catchUp: 'all' });
  await db.rows(
    `UPDATE holdfast.schedules SET next_instant = to_timestamp(3600), next_at = now() - interval '1 minute'`,
  );
  await db.rows(
    `UPDATE holdfast.schedules SET next_instant = date_trunc('hour', now()) - interval '2 hours'`,
  );
  expect(await metrics.text()).toMatch(/holdfast_schedule_overdue_seconds\{queue="inbox"\} 6\d/);
  start(db.hf, (w) => w.handle(beat, () => undefined));
  await until('they are written', async () =>
    /holdfast_schedule_ticks_total\{queue="inbox"\} 3/.test(await metrics.text()),
  );
  const text = await metrics.text();
  expect(text).toMatch(/holdfast_schedule_lag_seconds_count\{queue="inbox"\} 1/);
  expect(text).toMatch(/holdfast_schedule_overdue_seconds\{queue="inbox"\} 0/);
  metrics.close();
});
