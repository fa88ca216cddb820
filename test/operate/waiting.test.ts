/** What jobs wait for, as a scrape counts it: by the reasons that `explain` gives for each of them. */
import { beforeAll, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { commonErrorByTime } from '../../packages/holdfast/src/inspect/job/failures.js';
import { countDue, countDueByKey } from '../../packages/holdfast/src/inspect/queue/limits.js';
import { oldestByTime } from '../../packages/holdfast/src/inspect/queue/oldest.js';
import { countDueJobs, countScheduled } from '../../packages/holdfast/src/inspect/queue/pending.js';
import { waitingByKey, waitingByTime } from '../../packages/holdfast/src/inspect/queue/waiting.js';
import { reading } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { collectMetrics } from '../../packages/holdfast/src/metrics/index.js';
import { putLimit } from '../../packages/holdfast/src/operate/limits.js';
import { text } from '../../packages/holdfast/src/postgres/statement.js';
import { claimAs } from '../support/claiming.js';
import { plantJob, plantWorker } from '../support/cli-plant.js';
import { INBOX, testDatabase } from '../support/database.js';
import { claimStep, limitStep } from '../support/limited.js';
import { readScrape } from '../support/prometheus.js';
import { claimInTurns } from '../support/turns.js';

const db = testDatabase();
const TYPES = ['step', 'paced', 'plain', 'held'];
const QUEUES = ['inbox', 'lines', 'turns', 'shut', 'large'];

beforeAll(async () => {
  await db.hf.createQueue('lines', { ordering: 'key' });
  await db.hf.createQueue('turns', { perKey: 1, perGroup: 2 });
  await db.hf.createQueue('shut');
  await db.hf.createQueue('large');
  const handled = Object.fromEntries(TYPES.map((type) => [type, 1]));
  const handles = Object.fromEntries(QUEUES.map((queue) => [queue, handled]));
  await plantWorker(db, { id: 'w1', handles });
});

/** As it is scraped, by queue. */
async function scraped(): Promise<Record<string, Record<string, number>>> {
  const source = { onEvent: () => () => undefined, gauges: () => db.hf.gauges() };
  const { samples } = readScrape(await collectMetrics(source, { freshFor: 0 }).text());
  expect(samples.filter(({ name }) => name === 'holdfast_scrape_error')).toEqual([]);
  const found: Record<string, Record<string, number>> = {};
  for (const { name, labels, value } of samples) {
    if (name !== 'holdfast_jobs_waiting') continue;
    const { queue, reason } = labels as { queue: string; reason: string };
    found[queue] = { ...found[queue], [reason]: value };
  }
  return found;
}

/** A count says nothing of workers: who waits for nothing else waits for its turn. */
const OF_WORKERS = ['suspect', 'handlers_busy', 'beside_suspect', 'workers_silent'];

/** What `explain` says of each job that waits, counted. */
async function explained(queue: string): Promise<Record<string, number>> {
  const jobs = await db.rows<{ id: string }>(
    `SELECT id FROM holdfast.${queue} WHERE status = 'pending'`,
  );
  const counts: Record<string, number> = {};
  for (const { id } of jobs) {
    const { code } = await db.hf.explain(id);
    const reason = OF_WORKERS.includes(code) ? 'waiting_its_turn' : code;
    counts[reason] = (counts[reason] ?? 0) + 1;
  }
  return counts;
}

const send = (type: string, jobs: number, options = {}) =>
  db.hf.enqueueMany(Array.from({ length: jobs }, () => job(type).item({}, options)));

test('in a queue that is read by time', async () => {
  await limitStep(db, { concurrency: 1 });
  await putLimit(db.engine, INBOX, 'declare', {
    ...{ type: 'paced', keyed: false },
    limit: { concurrency: null, rate: { limit: 1, perMs: 3_600_000, burst: 1 } },
  });
  await send('step', 3);
  await send('paced', 4);
  expect((await claimStep(db, 'w1')).jobs).toHaveLength(1);
  const paced = { versions: { paced: 1 } };
  expect((await claimStep(db, 'w1', paced)).jobs).toHaveLength(1);
  await send('plain', 2);
  await plantJob(db, { type: 'plain', crashes: 2 });
  await send('plain', 3, { delay: '1h' });
  await plantJob(db, { type: 'plain', dueInMs: 60_000, attempts: 1 });
  await send('held', 2);
  await db.hf.pause('inbox', { type: 'held' });
  await send('plain', 1, { partitionKey: 'tenant:1' });
  await db.hf.pause('inbox', { key: 'tenant:1' });
  await plantJob(db, { type: 'plain', status: 'dead_letter' });

  const { inbox } = await scraped();
  expect(inbox).toEqual({
    ...{ limit_reached: 2, rate_limited: 3, waiting_its_turn: 3, not_due: 3, retrying: 1 },
    ...{ type_paused: 2, key_paused: 1 },
  });
  expect(inbox).toEqual(await explained('inbox'));
  await limitStep(db, { concurrency: 2 });
  expect((await scraped()).inbox).toMatchObject({ waiting_its_turn: 5 });
});

test('a rate with keys holds up only the keys that have no token', async () => {
  const queue = 'tenants';
  await db.hf.createQueue(queue);
  await db.rows(`UPDATE holdfast.workers SET handles = handles || '{"tenants": {"call": 1}}'`);
  const rate = { limit: 1, per: '1h', burst: 1 } as const;
  const call = job<{ tenant: string }>('call', {
    queue,
    limit: { rate: { ...rate, key: ({ tenant }) => tenant } },
  });
  const names = { ...INBOX, queue };
  const limit = { concurrency: null, rate: { limit: 1, perMs: 3_600_000, burst: 1 } };
  await putLimit(db.engine, names, 'declare', { type: 'call', keyed: true, limit });
  await db.hf.enqueueMany(['a', 'a', 'a', 'b', 'b'].map((tenant) => call.item({ tenant })));
  await db.rows(`INSERT INTO holdfast.rates (limit_id, key, started_tat, slot_tat, pace)
    SELECT l.id, 'a', now() + interval '1 hour', now(), 3600 FROM holdfast.limits AS l WHERE l.queue = 'tenants'`);
  const { tenants } = await scraped();
  expect(tenants).toEqual({ rate_limited: 3, waiting_its_turn: 2 });
  expect(tenants).toEqual(await explained(queue));
  expect(await db.hf.limits.list({ queue })).toMatchObject([{ waiting: 5, running: 0 }]);
});

test('in a queue that is paused', async () => {
  await db.hf.enqueue(job('plain', { queue: 'shut' }), {}, { delay: '1h' });
  await db.hf.pause('shut');
  const { shut } = await scraped();
  expect(shut).toEqual({ queue_paused: 1 });
  expect(shut).toEqual(await explained('shut'));
});

test('in a queue that is read by key', async () => {
  const line = job('plain', { queue: 'lines' });
  for (const partitionKey of ['a', 'a', 'a', 'b', 'c'])
    await db.hf.enqueue(line, {}, { partitionKey });
  const { lines } = await scraped();
  expect(lines).toEqual({ key_held: 2, waiting_its_turn: 3 });
  expect(lines).toEqual(await explained('lines'));
});

test('where keys take turns', async () => {
  const turn = job('step', { queue: 'turns' });
  const names = { schema: 'holdfast', queue: 'turns' };
  for (const key of ['a', 'b', 'c'])
    await db.hf.enqueue(turn, {}, { partitionKey: key, group: 'g' });
  await db.hf.enqueue(turn, {}, { partitionKey: 'a', group: 'g' });
  await db.hf.enqueue(turn, {}, { partitionKey: 'a' });
  expect((await claimInTurns(db.engine, 'w1', { names })).jobs).toHaveLength(3);
  await db.hf.enqueue(turn, {}, { partitionKey: 'z' });
  await db.hf.enqueue(turn, {}, { partitionKey: 'a' });
  const { turns } = await scraped();
  expect(turns).toEqual({ key_full: 2, group_full: 1, waiting_its_turn: 1 });
  expect(turns).toEqual(await explained('turns'));
});

test('in a large queue it reads a part only, and says at least so many', async () => {
  await db.rows(`
    INSERT INTO holdfast.large (partition_bucket, type, partition_key, payload, available_at, parked)
    SELECT n % 1024, 'plain', 'k' || n, '{}', now() + CASE WHEN n % 2 = 0 THEN interval '1 hour'
      ELSE interval '-1 minute' END, false
    FROM generate_series(1, 60000) AS n`);
  await db.rows('ANALYZE holdfast.large');
  await claimAs(db.engine, 'w1', {
    types: ['plain'],
    limit: 10,
    names: { ...INBOX, queue: 'large' },
  });
  expect((await scraped()).large).toEqual({ not_due: 20_000, waiting_its_turn: 19_990 });
});

const BY_TIME = [
  waitingByTime,
  countDue,
  countDueJobs,
  countScheduled,
  oldestByTime,
  commonErrorByTime,
];

test.each([...BY_TIME, waitingByKey, countDueByKey])('$name reads by indexes', async (asked) => {
  const first = asked === countDue || asked === countDueByKey ? 'NULL' : '2500';
  const second = asked === commonErrorByTime ? '1000' : 'false';
  const values = [first, second, `'{}'`, `'{}'`, `'{}'`];
  const said = asked.text.replaceAll(/\$(\d)/g, (_, n) => values[Number(n) - 1] as string);
  const explain = { ...asked, text: `EXPLAIN ${said}`, columns: { 'QUERY PLAN': text } };
  const plan = await reading(db.pool, (db) => db.run(explain, { ...INBOX, queue: 'large' }, []));
  const lines = plan.map((row) => row['QUERY PLAN']).filter((line) => / on large\b/.test(line));
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.filter((line) => !/Index (Only )?Scan/.test(line))).toEqual([]);
});
