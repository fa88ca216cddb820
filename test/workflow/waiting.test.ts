/**
 * Runs that wait are no work yet: no count of what is to be done has them, in a small queue and in a large one, and lists of
 * them read no more than they show.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { job, workflow } from '../../packages/holdfast/src/index.js';
import { countByStatus } from '../../packages/holdfast/src/inspect/queue/counts.js';
import { countDueJobs } from '../../packages/holdfast/src/inspect/queue/pending.js';
import { reading } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { runLists } from '../../packages/holdfast/src/inspect/run/list.js';
import { groupWaits } from '../../packages/holdfast/src/inspect/run/waits.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { loadText } from '../../packages/holdfast/src/postgres/names.js';
import { plantJob, plantWorker } from '../support/cli-plant.js';
import { call, values } from '../support/cli-run.js';
import { asking, eventsOf } from '../support/dashboard.js';
import { INBOX, testDatabase } from '../support/database.js';
import { examine } from '../support/doctor.js';
import { buffers, explained, type PlanNode, planSession } from '../support/plans.js';
import { plantWaiting } from '../support/plant-runs.js';
import { readScrape } from '../support/prometheus.js';

const db = testDatabase();
const checkout = workflow<object>('checkout');
const mail = job<object>('mail');

describe('forty runs wait beside two jobs', () => {
  beforeAll(async () => {
    await plantWaiting(db, { count: 30, sinceMs: 3_600_000 });
    await plantWaiting(db, { count: 10, forMs: 60_000 });
    await plantJob(db, { type: 'mail', dueInMs: 3_600_000 });
    await plantJob(db, { type: 'mail', dueInMs: -1_000 });
  });

  test('in hf.queues(), status, top and the dashboard', async () => {
    const counts = { pending: 2, scheduled: 1, waitingRuns: 40, processing: 0 };
    const [queue] = await db.hf.queues();
    expect(queue).toMatchObject(counts);
    expect(queue?.oldestDueMs).toBeLessThan(600_000);
    const env = { DATABASE_URL: db.url };
    const [status] = values((await call(['status', '--json'], { env })).out);
    expect(status?.queues).toMatchObject([counts]);
    expect((await call(['status'], { env })).out).toContain(
      '40 runs of workflows wait for something, and are not pending: holdfast workflows ls',
    );
    const [top] = values((await call(['top', '--once', '--json'], { env })).out);
    expect(top?.queues).toMatchObject([counts]);
    const { handle } = asking(db.hf, { loopback: true });
    const events = eventsOf(await handle(new Request('http://localhost/api/events')));
    const { queues } = (await events.next())?.data.snapshot ?? {};
    expect(queues).toMatchObject([{ pending: 2, scheduled: 1 }]);
    await events.close();
  });

  test('in the metrics, as gauges and as text', async () => {
    const { queues, waiting } = await db.hf.gauges();
    expect(queues).toMatchObject([{ pending: 2, due: 1 }]);
    expect(waiting.reduce((sum, { jobs }) => sum + jobs, 0)).toBe(2);
    const metrics = collectMetrics({ onEvent: () => () => undefined, gauges: db.hf.gauges });
    const scrape = readScrape(await metrics.text());
    expect(scrape.value('holdfast_jobs_pending', { queue: 'inbox' })).toBe(2);
    expect(scrape.value('holdfast_jobs_due', { queue: 'inbox' })).toBe(1);
    expect(scrape.value('holdfast_oldest_pending_age_seconds', { queue: 'inbox' })).toBeLessThan(
      600,
    );
  });

  test('in the limit of what may wait, and in what the doctor says', async () => {
    await db.hf.configureQueue('inbox', { maxPending: 5 }, { audit: false });
    await db.hf.enqueueMany([1, 2, 3].map(() => mail.item({}, { delay: '1h' })));
    await expect(db.hf.enqueue(mail, {})).rejects.toThrow('about 5 jobs wait, and 5 may');
    await plantWorker(db, { handles: { inbox: { mail: 1, checkout: 1 } } });
    await db.hf.configureQueue('inbox', { maxPending: 10 }, { audit: false });
    const found = await examine(db.url, { compared: false });
    const bad = found.filter(({ level, check }) => level !== 'ok' && /full|oldest/.test(check));
    expect(bad).toEqual([]);
    await db.hf.configureQueue('inbox', { maxPending: 'off' }, { audit: false });
  });
});

describe('a hundred thousand runs wait', () => {
  beforeAll(async () => {
    await plantWaiting(db, { count: 95_000, workflow: 'subscription', step: 'month', forMs: 9e8 });
    await plantWaiting(db, { count: 5_000, tag: 'vip' });
    await db.rows('ANALYZE holdfast.inbox, holdfast.inbox_steps');
  });

  test('and the five jobs beside them are counted, whatever the statistics say of the rest', async () => {
    // Of a table that grew since, or was much changed, the server expects more rows than there are.
    await db.rows(`UPDATE pg_class SET reltuples = 130000 WHERE oid = 'holdfast.inbox'::regclass`);
    const counts = await reading(db.pool, (reader) => countByStatus(reader, INBOX));
    expect(counts).toMatchObject({ approximate: true });
    expect(counts.waitingRuns).toBeGreaterThan(90_000);
    // Too many runs wait for a time to look behind them all for jobs that do, so these four are in no sample, or a few times.
    expect(counts.pending).toBeLessThan(100);
    const [gauges] = (await db.hf.gauges()).queues;
    expect(gauges?.pending).toBe(counts.pending);
    const [status] = values(
      (await call(['status', '--json'], { env: { DATABASE_URL: db.url } })).out,
    );
    expect(status?.queues).toMatchObject([{ pending: counts.pending }]);
    const [by] = await reading(db.pool, (reader) => reader.run(countDueJobs, INBOX, [10_000]));
    expect(by).toMatchObject({ jobs: 1 });
  });

  test('a page of them, by tag or state, reads what it shows', async () => {
    const { runs, next } = await db.hf.runs({ workflow: checkout, tag: 'vip', limit: 20 });
    expect(runs).toHaveLength(20);
    expect(next).toBe(runs.at(-1)?.id);
    const session = await planSession(db.url);
    try {
      await session.query('SET enable_seqscan = off; SET enable_sort = off');
      const none = [null, ...[null, null, null, null], null, 10_000];
      const plan = async (name: 'open' | 'tag', tag: string | null, states: string) => {
        const { text } = runLists[name].page;
        await session.query(`PREPARE page_${name} AS ${loadText(text, INBOX)}`);
        return explained(session, `page_${name}`, [null, ...none, tag, states, '{}', 20]);
      };
      const byTag = await plan('tag', 'vip', '{waiting}');
      const byState = await plan('open', null, '{waiting}');
      for (const [found, index] of [
        [byTag, 'inbox_tag_idx'],
        [byState, 'inbox_steps_open_idx'],
      ] as const) {
        expect(indexesOf(found)).toContain(index);
        expect(buffers(found)).toBeLessThan(2_000);
      }
      await session.query(`PREPARE waits AS ${loadText(groupWaits.text, INBOX)}`);
      const groups = await explained(session, 'waits', [2_000]);
      expect(indexesOf(groups)).toContain('inbox_steps_open_idx');
      expect(buffers(groups)).toBeLessThan(20_000);
    } finally {
      await session.end();
    }
  });

  test('and the due ones among them are listed by their time, to the end', async () => {
    const due = () => db.hf.runs({ workflow: checkout, state: 'due', limit: 20 });
    expect(await due()).toEqual({ runs: [], next: null });
    const { id } = await db.hf.enqueue(checkout, {});
    expect(await due()).toMatchObject({ runs: [{ id, state: 'due' }], next: null });
    await db.hf.cancel([id]);
  });

  test('and what waits for what is said of all of them', async () => {
    const [first, second] = await db.hf.waitingRuns();
    expect([first, second]).toMatchObject([
      { workflow: 'subscription', name: 'month', approximate: true },
      { workflow: 'checkout', name: 'approval' },
    ]);
    const all = (first?.runs ?? 0) + (second?.runs ?? 0);
    expect(all).toBeGreaterThan(95_000);
    expect(all).toBeLessThan(105_000);
    // The oldest of them is among those that were read.
    expect(Date.now() - Number(second?.oldest)).toBeGreaterThan(3_500_000);
  });
});

test('a run that took thousands of signals takes the next one as cheaply as the first', async () => {
  const session = await planSession(db.url);
  const costOfNext = async (taken: number) => {
    const [run] = await db.rows<{ id: string }>(
      `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, status, claimed_by, claimed_at,
         lease_expires_at, lease_generation, attempts)
       VALUES ('checkout', 'k', 1, '{}', 'processing', 'w1', now(), now() + interval '1 hour', 1, 1) RETURNING id`,
    );
    const id = run?.id as string;
    await db.rows(
      `WITH steps AS (
         INSERT INTO holdfast.inbox_steps (run_id, place, nth, kind, name)
         SELECT $1::uuid, n, n, 'w', 'wait ' || n FROM generate_series(1, $2::int) AS n)
       INSERT INTO holdfast.inbox_signals (run_id, seen, name, taken_by)
       SELECT $1::uuid, true, CASE WHEN n > $2::int + 1 THEN 'other' ELSE 'tick' END, CASE WHEN n <= $2::int THEN 'wait ' || n END
       FROM generate_series(1, 2 * $2::int + 1) AS n`,
      [id, taken],
    );
    const wait = { n: 'next', k: 'w', o: taken + 1, s: ['tick'] };
    const waits = JSON.stringify([{ p: taken, f: false, b: false, w: [wait] }]);
    const plan = await explained(session, 'suspends', [`{${id}}`, waits]);
    const [next] = await db.rows(
      `SELECT place FROM holdfast.inbox_steps WHERE run_id = $1 AND name = 'next'`,
      [id],
    );
    expect(next).toEqual({ place: taken + 1 });
    return buffers(plan);
  };
  try {
    await session.query(
      `PREPARE suspends AS SELECT s.state FROM holdfast.inbox_suspend('w1', $1::uuid[], '{1}', $2::jsonb) AS s`,
    );
    // The first one reads what the session must know of the tables.
    await costOfNext(1);
    expect(await costOfNext(3_000)).toBeLessThan((await costOfNext(1)) + 100);
  } finally {
    await session.end();
  }
});

function indexesOf(plan: PlanNode): string[] {
  return [plan['Index Name'] ?? '', ...(plan.Plans ?? []).flatMap(indexesOf)];
}
