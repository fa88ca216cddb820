/** An idle worker: what it costs, and that it finds every job although nobody tells it of any. */
import { expect, onTestFinished, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { Line } from '../support/line.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const nothing = () => undefined;
const QUEUES = ['inbox', 'mail', 'orders', 'reports'];
const SECONDS = 6;

async function makeQueues(): Promise<void> {
  for (const queue of QUEUES) {
    await db.hf.createQueue(queue, queue === 'orders' ? { ordering: 'key' } : {});
  }
}

/** Waits so long by the clock of the database. */
async function pass(ms: number): Promise<void> {
  const [row] = await db.rows<{ at: string }>('SELECT clock_timestamp()::text AS at');
  await until(`${ms} ms pass`, async () => {
    const text = `SELECT WHERE clock_timestamp() > $1::timestamptz + $2::integer * interval '1 ms'`;
    return (await db.rows(text, [row?.at, ms])).length === 1;
  });
}

/** A worker that reaches the database through a line of its own. */
async function idleWorker(queues: readonly string[]) {
  const line = await Line.to(db.url);
  await line.mend();
  const hf = holdfast({ connectionString: line.url, logger: quietLogger });
  onTestFinished(() => hf.close());
  const { events } = start(
    hf,
    (worker) => queues.reduce((on, queue) => on.handle(job(queue, { queue }), nothing), worker),
    // Rounds of maintenance are the fleet's, however many workers it has.
    { poll: '1s', maintenance: '1h' },
  );
  return { line, events };
}

/** The workers run so many jobs, at once where they can. */
async function busyFor(jobs: number): Promise<void> {
  const inbox = job('inbox');
  await db.hf.enqueueMany(Array.from({ length: jobs }, () => inbox.item({})));
  await until(
    'they have run',
    async () => (await db.rows('SELECT FROM holdfast.inbox')).length === 0,
  );
}

test('has three connections and polls once a second, with one queue and with four', async () => {
  await makeQueues();
  // Both at once: each has a line of its own, and what is counted is what goes over it.
  const counted = await Promise.all(
    [1, QUEUES.length].map(async (count) => {
      const { line, events } = await idleWorker(QUEUES.slice(0, count));
      await until('it has started', () => events.some(({ kind }) => kind === 'started'));
      await busyFor(100);
      // Connections that its start and its work needed are closed when they were idle for two seconds.
      await pass(3_000);
      await until('it has no more than three connections', () => line.connections <= 3);
      const queries = line.queries;
      const claims = () => events.filter((event) => event.kind === 'statement').length;
      const before = claims();
      await pass(SECONDS * 1_000);
      return { count, claims: claims() - before, queries: line.queries - queries };
    }),
  );
  for (const { count, claims, queries } of counted) {
    expect(claims / SECONDS / count).toBeLessThanOrEqual(1);
    // And the keeper's look: a worker that is alone looks once a second; of a larger fleet each does so more rarely.
    expect(queries / SECONDS).toBeLessThanOrEqual(count + 1.5);
  }
});

test('finds a job that nobody told it of by its next poll, by time and by key', async () => {
  await makeQueues();
  const ran: string[] = [];
  const kinds = ['inbox', 'orders'].map((queue) => job(queue, { queue }));
  const { worker } = start(
    db.hf,
    (w) => kinds.reduce((on, kind) => on.handle(kind, () => void ran.push(kind.queue)), w),
    { notify: false, poll: '1s' },
  );
  await until('it is idle, and polls as rarely as it may', async () => {
    const text = `SELECT FROM holdfast.workers WHERE id = $1 AND started_at < now() - interval '4 seconds'`;
    return (await db.rows(text, [worker.id])).length === 1;
  });
  for (const kind of kinds) await db.hf.enqueue(kind, {}, { partitionKey: 'k' });
  const from = performance.now();
  await until('both ran', () => ran.length === 2);
  expect(performance.now() - from).toBeLessThan(2_500);
  expect(ran.toSorted()).toEqual(['inbox', 'orders']);
});
