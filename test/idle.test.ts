/** An idle worker that nobody notifies: it makes one look for all jobs, and finds the ordered ones too. */
import { beforeEach, expect, test } from 'vitest';
import { job } from '../src/index.js';
import { testDatabase } from './support/database.js';
import { until } from './support/until.js';
import { testWorkers } from './support/workers.js';

const db = testDatabase();
const start = testWorkers();
const plain = job('plain');
const step = job('step', { ordering: 'key' });

beforeEach(() => db.rows('TRUNCATE holdfast.inbox'));

/** Long enough that it looks as rarely as it may. */
async function idle(routes: Parameters<typeof start>[1]): Promise<void> {
  const { worker } = start(db.hf, routes, { notify: false });
  await until('it has been idle for a while', async () => {
    const text = `SELECT FROM holdfast.workers WHERE id = $1 AND started_at < now() - interval '4 seconds'`;
    return (await db.rows(text, [worker.id])).length === 1;
  });
}

async function ranWithin(limitMs: number, ran: () => boolean): Promise<void> {
  const from = performance.now();
  await until('it ran', ran);
  expect(performance.now() - from).toBeLessThan(limitMs);
}

test('an ordered job of a type that is known to be ordered starts after the next poll', async () => {
  let ran = 0;
  await idle((w) => w.handle(plain, () => undefined).handle(step, () => void ran++));
  await db.hf.enqueue(step, {}, { key: 'k' });
  await ranWithin(2_500, () => ran === 1);
});

test('an ordered job that nothing announced starts soon after the next poll', async () => {
  let ran = 0;
  await idle((w) => w.handle(plain, () => void ran++));
  await db.rows(`INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, ordering)
    VALUES ('plain', 'k', 7, '{}', 'key')`);
  await ranWithin(3_500, () => ran === 1);
});
